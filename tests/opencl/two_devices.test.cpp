// SPDX-License-Identifier: MIT
// Two devices in one context. Runs where a platform has two: tests/CMakeLists.txt asks PoCL for them.
#include <berth/core/copy.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/framework.hpp>
#include <berth/opencl/queue.hpp>

#include <array>
#include <chrono>
#include <thread>

#include "support/conformance.hpp"
#include "support/opencl_fixture.hpp"

using namespace berth;
using namespace std::chrono_literals;
using berth_test::Skips;
using opencl::ClBuffer;

namespace {

constexpr std::size_t nbytes = 1 << 20;

std::array<cl_device_id, 2> two_devices() {
  const auto found = opencl::platforms();
  REQUIRE(message(found) == "ok");
  native::require_layers();
  for (const auto& platform : *found) {
    if (platform.devices.size() >= 2) return {platform.devices[0].id, platform.devices[1].id};
  }
  FAIL("no platform has two devices");
  return {};
}

/// A buffer on each of two devices in one context, filled.
struct Pair {
  Pair() : allocators(opened()), a(filled(first(), 0xA0)), b(filled(second(), 0xB0)) {}
  ~Pair() {
    first().free(a, nbytes);
    second().free(b, nbytes);
  }
  Pair(const Pair&) = delete;

  opencl::Allocator& first() { return allocators[0]; }
  opencl::Allocator& second() { return allocators[1]; }

  std::vector<opencl::Allocator> allocators;
  ClBuffer a;
  ClBuffer b;

 private:
  static std::vector<opencl::Allocator> opened() {
    auto made = opencl::Allocator::open(two_devices());
    REQUIRE(message(made) == "ok");
    REQUIRE(made->size() == 2);
    return *made;
  }
  static ClBuffer filled(opencl::Allocator& allocator, unsigned value) {
    auto made = allocator.alloc(nbytes);
    REQUIRE(message(made) == "ok");
    REQUIRE(message(allocator.fill(*made, static_cast<std::byte>(value))) == "ok");
    REQUIRE(message(allocator.synchronize()) == "ok");
    return *made;
  }
};

bool all(std::span<const std::byte> bytes, unsigned value) {
  return std::ranges::count(bytes, static_cast<std::byte>(value)) == std::ssize(bytes);
}

}  // namespace

TEST_CASE("devices opened together share a context, each with a queue of its own") {
  Pair pair;
  CHECK(pair.first().context() == pair.second().context());
  CHECK(pair.first().device() != pair.second().device());
  CHECK(pair.first().queue() != pair.second().queue());
  CHECK(pair.first().info().device != pair.second().info().device);
  CHECK(outcome(pair.first().copyin(pair.b, {})) == "wrong_allocator");
}

TEST_CASE("bad lists of devices are refused") {
  const std::array<cl_device_id, 2> with_null{two_devices()[0], nullptr};
  CHECK(outcome(opencl::Allocator::open(std::span<const cl_device_id>())) == "invalid_argument");
  CHECK(outcome(opencl::Allocator::open(with_null)) == "invalid_argument");
}

TEST_CASE("each of the devices conforms, packed and under adaptors too") {
  const std::size_t index = GENERATE(0U, 1U);
  const Skips typed{"alignment", "buffers_of_another_backend", "above_4_gib"};
  const Skips packed{"alignment", "above_4_gib"};
  berth_test::require_conformance_in_every_form<opencl::Allocator>(
      [index]() -> Result<opencl::Allocator> {
        auto opened = opencl::Allocator::open(two_devices());
        if (!opened) return fail(opened.error());
        return std::move((*opened)[index]);
      },
      typed, packed);
}

TEST_CASE("bytes move between the devices, views at odd offsets too") {
  Pair pair;
  const auto bytes = native::pattern(nbytes);
  REQUIRE(message(pair.first().copyin(pair.a, bytes)) == "ok");
  REQUIRE(message(pair.second().transfer(pair.b, pair.a, nbytes)) == "ok");
  CHECK(native::content(pair.second(), pair.b) == bytes);

  const auto other = native::pattern(999, 1);
  auto from = pair.second().offset(pair.b, 999, 501);
  auto to = pair.first().offset(pair.a, 999, 77);
  REQUIRE(message(from) == "ok");
  REQUIRE(message(to) == "ok");
  REQUIRE(message(pair.second().copyin(*from, other)) == "ok");
  REQUIRE(message(pair.first().transfer(*to, *from, 999)) == "ok");
  auto expected = bytes;
  std::ranges::copy(other, expected.begin() + 77);
  CHECK(native::content(pair.first(), pair.a) == expected);
}

TEST_CASE("a transfer comes after earlier work on the other device") {
  Pair pair;
  native::Gate gate(pair.first().context());
  gate.close(pair.second().queue());
  REQUIRE(message(pair.second().fill(pair.b, std::byte{0xB1})) == "ok");
  REQUIRE(message(pair.first().transfer(pair.a, pair.b, nbytes)) == "ok");
  const auto copied = native::marker(pair.first().queue());
  std::this_thread::sleep_for(30ms);
  CHECK(native::pending(copied));
  gate.open();
  CHECK(all(native::content(pair.first(), pair.a), 0xB1));
}

TEST_CASE("later work on the other device comes after the transfer") {
  Pair pair;
  native::Gate gate(pair.first().context());
  gate.close(pair.first().queue());
  REQUIRE(message(pair.first().transfer(pair.a, pair.b, nbytes)) == "ok");
  REQUIRE(message(pair.second().fill(pair.b, std::byte{0xB2})) == "ok");
  const auto filled = native::marker(pair.second().queue());
  std::this_thread::sleep_for(30ms);
  CHECK(native::pending(filled));
  gate.open();
  CHECK(all(native::content(pair.first(), pair.a), 0xB0));
  CHECK(all(native::content(pair.second(), pair.b), 0xB2));
}

TEST_CASE("an event of one device orders the other") {
  Pair pair;
  native::Gate gate(pair.first().context());
  gate.close(pair.first().queue());
  const auto event = pair.first().record();
  REQUIRE(message(event) == "ok");
  REQUIRE(message(pair.second().wait(*event)) == "ok");
  const auto behind = native::marker(pair.second().queue());
  std::this_thread::sleep_for(30ms);
  CHECK(native::pending(behind));
  gate.open();
  CHECK(message(pair.second().synchronize()) == "ok");
}

TEST_CASE("a queue of the other device is refused") {
  Pair pair;
  CHECK(outcome(pair.first().on(opencl::borrow_queue(pair.second().queue()))) == "invalid_argument");
}

TEST_CASE("copy takes the transfer between the devices") {
  Pair pair;
  auto from = Buffer::create(pack(pair.first()), nbytes);
  auto to = Buffer::create(pack(pair.second()), nbytes);
  REQUIRE(message(from) == "ok");
  REQUIRE(message(to) == "ok");
  const auto bytes = native::pattern(nbytes, 2);
  REQUIRE(message(from->copyin(bytes)) == "ok");
  const auto path = copy(*to, *from);
  REQUIRE(message(path) == "ok");
  CHECK(to_string(*path) == to_string(CopyPath::transfer));
  std::vector<std::byte> back(nbytes);
  REQUIRE(message(to->copyout(back)) == "ok");
  CHECK(back == bytes);
}

TEST_CASE("caches of both devices work at once, from threads") {
  Pair pair;
  std::array<std::string, 4> problems;
  {
    std::array<std::optional<LruAllocator<opencl::Allocator>>, 2> caches;
    for (std::size_t i = 0; i < 2; ++i) {
      auto made = LruAllocator<opencl::Allocator>::create(pair.allocators[i]);
      REQUIRE(message(made) == "ok");
      caches[i] = std::move(*made);
    }
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < problems.size(); ++t) {
      threads.emplace_back([&, t] {
        auto cache = *caches[t % 2];
        const auto bytes = native::pattern(1000, static_cast<unsigned>(t));
        std::vector<std::byte> back(bytes.size());
        for (std::size_t round = 0; round < scaled(200); ++round) {
          auto buf = cache.alloc(1000 + round % 7);
          if (!buf || !cache.copyin(*buf, bytes) || !cache.copyout(back, *buf) || back != bytes) {
            problems[t] = "round " + std::to_string(round) + " failed";
            return;
          }
          cache.free(std::move(*buf), 1000 + round % 7);
        }
      });
    }
  }
  for (const std::string& problem : problems) CHECK(problem == "");
}

TEST_CASE("the framework lists both") {
  const auto devices = opencl::framework()->devices();
  REQUIRE(message(devices) == "ok");
  CHECK(devices->size() >= 2);
}

TEST_CASE("each device has its own address for a buffer, where there are addresses") {
  Pair pair;
  auto shared = pair.second().borrow(pair.a.root());
  REQUIRE(message(shared) == "ok");
  const auto on_first = pair.first().addr(pair.a);
  const auto on_second = pair.second().addr(*shared);
  CHECK(outcome(on_first) == outcome(on_second));
  CHECK(outcome(on_first) == (opencl_layers.empty() ? "unsupported" : "ok"));
  if (on_first && on_second) CHECK(*on_first != *on_second);
  pair.second().free(std::move(*shared), nbytes);
}
