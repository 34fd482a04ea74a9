// SPDX-License-Identifier: MIT
// Host access to device memory, and what may not happen meanwhile.
#include <berth/core/buffer.hpp>
#include <berth/opencl/allocator.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/opencl_fixture.hpp"
#include "support/reports.hpp"

using namespace berth;
using native::property;
using native::references;
using native::retained;
using native::settled;
using opencl::ClBuffer;

namespace {

constexpr std::size_t nbytes = 4096;
constexpr Access every_access[] = {Access::read, Access::write, Access::overwrite};

struct Mapped {
  Mapped() : buf(allocated()), other(allocated()) {
    REQUIRE(message(stream.allocator.copyin(buf, bytes)) == "ok");
    REQUIRE(message(stream.allocator.fill(other, std::byte{0x0F})) == "ok");
  }
  ~Mapped() {
    stream.allocator.free(buf, nbytes);
    stream.allocator.free(other, nbytes);
  }
  Mapped(const Mapped&) = delete;

  Mapping map(Access access, std::size_t size = nbytes, std::size_t byte_offset = 0) {
    auto made = stream.allocator.map(buf, access, size, byte_offset);
    REQUIRE(message(made) == "ok");
    return std::move(*made);
  }
  ClBuffer view(std::size_t size, std::size_t byte_offset) {
    auto made = stream.allocator.offset(buf, size, byte_offset);
    REQUIRE(message(made) == "ok");
    return *made;
  }

  std::vector<std::byte> bytes = native::pattern(nbytes);
  native::Stream stream;
  ClBuffer buf;
  ClBuffer other;

 private:
  ClBuffer allocated() {
    auto made = stream.allocator.alloc(nbytes);
    REQUIRE(message(made) == "ok");
    return *made;
  }
};

}  // namespace

TEST_CASE("a read map shows the device's bytes") {
  Mapped fixture;
  {
    const Mapping map = fixture.map(Access::read);
    CHECK(std::ranges::equal(map.bytes(), fixture.bytes));
  }
  const Mapping part = fixture.map(Access::read, 100, 333);
  CHECK(std::ranges::equal(part.bytes(), std::span(fixture.bytes).subspan(333, 100)));
}

TEST_CASE("a write map keeps what it does not change") {
  Mapped fixture;
  auto expected = fixture.bytes;
  {
    const Mapping map = fixture.map(Access::write, 200, 1001);
    CHECK(std::ranges::equal(map.bytes(), std::span(fixture.bytes).subspan(1001, 200)));
    std::ranges::fill(map.bytes().first(50), std::byte{0x66});
  }
  std::fill_n(expected.begin() + 1001, 50, std::byte{0x66});
  CHECK(native::content(fixture.stream.allocator, fixture.buf) == expected);
}

TEST_CASE("an overwrite map replaces its range and no more") {
  Mapped fixture;
  auto expected = fixture.bytes;
  const auto fresh = native::pattern(500, 7);
  {
    const Mapping map = fixture.map(Access::overwrite, 500, 77);
    std::ranges::copy(fresh, map.bytes().begin());
  }
  std::ranges::copy(fresh, expected.begin() + 77);
  CHECK(native::content(fixture.stream.allocator, fixture.buf) == expected);
}

TEST_CASE("a map through a view of a view is at the root's bytes") {
  Mapped fixture;
  const ClBuffer outer = fixture.view(2000, 101);
  const auto inner = fixture.stream.allocator.offset(outer, 300, 203);
  REQUIRE(message(inner) == "ok");
  auto map = fixture.stream.allocator.map(*inner, Access::read, 50, 7);
  REQUIRE(message(map) == "ok");
  CHECK(std::ranges::equal(map->bytes(), std::span(fixture.bytes).subspan(101 + 203 + 7, 50)));
}

TEST_CASE("a map comes after the work queued so far") {
  Mapped fixture;
  native::Gate gate(fixture.stream.context);
  gate.close(fixture.stream.queue);
  REQUIRE(message(fixture.stream.allocator.fill(fixture.buf, std::byte{0x2A})) == "ok");
  std::atomic<bool> returned{false};
  std::vector<std::byte> seen;
  std::jthread mapping([&] {
    const auto map = fixture.stream.allocator.map(fixture.buf, Access::read, nbytes, 0);
    returned = true;
    if (map) seen.assign(map->bytes().begin(), map->bytes().end());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_FALSE(returned);
  gate.open();
  mapping.join();
  CHECK(seen == std::vector<std::byte>(nbytes, std::byte{0x2A}));
}

TEST_CASE("bounds of a map are the view's") {
  Mapped fixture;
  opencl::Allocator& allocator = fixture.stream.allocator;
  const ClBuffer view = fixture.view(100, 50);
  CHECK(outcome(allocator.map(view, Access::read, 101, 0)) == "out_of_range");
  CHECK(outcome(allocator.map(view, Access::read, 1, 100)) == "out_of_range");
  CHECK(outcome(allocator.map(view, Access::write, 51, 50)) == "out_of_range");
  CHECK(outcome(allocator.map(view, Access::read, SIZE_MAX, 2)) == "out_of_range");
  CHECK(outcome(allocator.map(view, Access::read, 2, SIZE_MAX)) == "out_of_range");
  CHECK(native::settled_maps(fixture.buf.root(), 0) == 0);
  CHECK(fixture.map(Access::write).bytes().size() == nbytes);  // the refused ones left nothing
}

TEST_CASE("a map of no bytes is no map") {
  Mapped fixture;
  const Mapping empty = fixture.map(Access::write, 0, nbytes);
  CHECK(empty.bytes().empty());
  CHECK(fixture.map(Access::write).bytes().size() == nbytes);
  auto none = fixture.stream.allocator.alloc(0);
  REQUIRE(message(none) == "ok");
  CHECK(outcome(fixture.stream.allocator.map(*none, Access::read, 0, 0)) == "ok");
}

TEST_CASE("overlapping maps are mapped, whatever they are for") {
  Mapped fixture;
  opencl::Allocator& allocator = fixture.stream.allocator;
  for (const Access first : every_access) {
    for (const Access second : every_access) {
      const Mapping map = fixture.map(first, 100, 1000);
      const auto again = allocator.map(fixture.buf, second, 100, 1000);
      REQUIRE(outcome(again) == "mapped");
      CHECK(again.error().asked() == 100U);
      CHECK(again.error().position() == 1000U);
      CHECK(outcome(allocator.map(fixture.buf, second, 2, 999)) == "mapped");
      CHECK(outcome(allocator.map(fixture.buf, second, 1, 1099)) == "mapped");
      CHECK(outcome(allocator.map(fixture.buf, second, nbytes, 0)) == "mapped");
      CHECK(outcome(allocator.map(fixture.view(50, 1050), second, 1, 0)) == "mapped");
      CHECK(outcome(allocator.map(fixture.buf, second, 1, 999)) == "ok");
      CHECK(outcome(allocator.map(fixture.buf, second, 1, 1100)) == "ok");
    }
  }
  CHECK(fixture.map(Access::write).bytes().size() == nbytes);
}

TEST_CASE("disjoint maps live side by side and end in any order") {
  Mapped fixture;
  auto expected = fixture.bytes;
  Mapping a = fixture.map(Access::write, 1000, 0);
  Mapping b = fixture.map(Access::read, 1000, 1000);
  Mapping c = fixture.map(Access::overwrite, 1000, 2000);
  std::ranges::fill(a.bytes(), std::byte{0xA1});
  std::ranges::fill(c.bytes(), std::byte{0xC1});
  CHECK(std::ranges::equal(b.bytes(), std::span(fixture.bytes).subspan(1000, 1000)));
  REQUIRE(message(b.unmap()) == "ok");
  REQUIRE(message(a.unmap()) == "ok");
  CHECK(std::ranges::count(c.bytes(), std::byte{0xC1}) == 1000);
  REQUIRE(message(c.unmap()) == "ok");
  std::fill_n(expected.begin(), 1000, std::byte{0xA1});
  std::fill_n(expected.begin() + 2000, 1000, std::byte{0xC1});
  CHECK(native::content(fixture.stream.allocator, fixture.buf) == expected);
}

TEST_CASE("the device does not write what the host has mapped, nor read what it writes") {
  Mapped fixture;
  opencl::Allocator& allocator = fixture.stream.allocator;
  const std::vector<std::byte> some(64);
  std::vector<std::byte> sink(nbytes);
  const auto refused = [&](const char* what, const Result<void>& result) {
    CAPTURE(what);
    CHECK(outcome(result) == "mapped");
  };
  for (const Access access : every_access) {
    const bool host_writes = access != Access::read;
    const Mapping map = fixture.map(access, 100, 1000);
    const ClBuffer meeting = fixture.view(64, 1099);
    refused("copyin", allocator.copyin(meeting, some));
    refused("fill", allocator.fill(meeting, std::byte{1}));
    refused("transfer into", allocator.transfer(meeting, fixture.other, 64));
    refused("fill of all", allocator.fill(fixture.buf, std::byte{1}));
    CHECK(outcome(allocator.copyout(std::span(sink).first(64), meeting)) == (host_writes ? "mapped" : "ok"));
    CHECK(outcome(allocator.copyout(sink, fixture.buf)) == (host_writes ? "mapped" : "ok"));
    CHECK(outcome(allocator.transfer(fixture.other, meeting, 64)) == (host_writes ? "mapped" : "ok"));

    // Beside the mapped bytes everything works.
    const ClBuffer beside = fixture.view(64, 1100);
    const ClBuffer before = fixture.view(1000, 0);
    const std::vector<std::byte> same(fixture.bytes.begin() + 1100, fixture.bytes.begin() + 1164);
    CHECK(outcome(allocator.copyin(beside, same)) == "ok");
    CHECK(outcome(allocator.copyout(std::span(sink).first(64), beside)) == "ok");
    CHECK(outcome(allocator.copyout(std::span(sink).first(1000), before)) == "ok");
    CHECK(outcome(allocator.transfer(fixture.other, beside, 64)) == "ok");
    // No more than the bytes that a copy touches count.
    const ClBuffer across = fixture.view(200, 950);
    CHECK(outcome(allocator.copyout(std::span(sink).first(50), across)) == "ok");
    CHECK(outcome(allocator.copyin(across, std::span(fixture.bytes).subspan(950, 50))) == "ok");
    if (access == Access::overwrite) {
      std::ranges::copy(std::span(fixture.bytes).subspan(1000, 100), map.bytes().begin());
    }
  }
  CHECK(native::content(allocator, fixture.buf) == fixture.bytes);
  CHECK(outcome(allocator.fill(fixture.buf, std::byte{1})) == "ok");
}

TEST_CASE("the driver counts as many maps as there are") {
  Mapped fixture;
  const auto count = [&](cl_uint expected) { return native::settled_maps(fixture.buf.root(), expected); };
  CHECK(count(0) == 0);
  {
    Mapping a = fixture.map(Access::read, 10, 0);
    CHECK(count(1) == 1);
    Mapping b = fixture.map(Access::write, 10, 10);
    CHECK(count(2) == 2);
    a = std::move(b);
    REQUIRE(message(fixture.stream.allocator.synchronize()) == "ok");
    CHECK(count(1) == 1);
    CHECK(outcome(fixture.stream.allocator.map(fixture.buf, Access::read, 10, 0)) == "ok");
    CHECK(outcome(fixture.stream.allocator.map(fixture.buf, Access::read, 10, 10)) == "mapped");
  }
  REQUIRE(message(fixture.stream.allocator.synchronize()) == "ok");
  CHECK(count(0) == 0);
}

TEST_CASE("a second unmap does nothing") {
  Mapped fixture;
  Mapping map = fixture.map(Access::read);
  REQUIRE(message(map.unmap()) == "ok");
  CHECK(map.bytes().empty());
  REQUIRE(message(map.unmap()) == "ok");
  REQUIRE(message(fixture.stream.allocator.synchronize()) == "ok");
  CHECK(native::settled_maps(fixture.buf.root(), 0) == 0);
}

TEST_CASE("a buffer freed while it is mapped ends with the map") {
  native::Stream stream;
  auto buf = stream.allocator.alloc(nbytes);
  REQUIRE(message(buf) == "ok");
  REQUIRE(message(stream.allocator.fill(*buf, std::byte{0x55})) == "ok");
  const auto root = retained(buf->root());
  auto a = stream.allocator.map(*buf, Access::write, 100, 0);
  auto b = stream.allocator.map(*buf, Access::read, 100, 100);
  REQUIRE(message(a) == "ok");
  REQUIRE(message(b) == "ok");
  stream.allocator.free(std::move(*buf), nbytes);
  CHECK(references(root.get()) > 1);
  CHECK(std::ranges::count(b->bytes(), std::byte{0x55}) == 100);
  std::ranges::fill(a->bytes(), std::byte{0x56});
  REQUIRE(message(a->unmap()) == "ok");
  CHECK(references(root.get()) > 1);
  REQUIRE(message(b->unmap()) == "ok");
  REQUIRE(message(stream.allocator.synchronize()) == "ok");
  CHECK(settled(root.get(), 1) == 1);
  CHECK(native::settled_maps(root.get(), 0) == 0);
}

TEST_CASE("another instance's buffer is not mapped") {
  Mapped fixture;
  native::Stream other;
  CHECK(outcome(other.allocator.map(fixture.buf, Access::read, 1, 0)) == "wrong_allocator");
}

TEST_CASE("a Buffer maps like its allocator") {
  native::Stream stream;
  auto buffer = Buffer::create(pack(stream.allocator), 300);
  REQUIRE(message(buffer) == "ok");
  REQUIRE(message(buffer->fill(std::byte{0x12})) == "ok");
  {
    auto map = buffer->map(Access::write, 100, 50);
    REQUIRE(message(map) == "ok");
    CHECK(std::ranges::count(map->bytes(), std::byte{0x12}) == 100);
    CHECK(outcome(buffer->map(Access::read)) == "mapped");
    CHECK(outcome(buffer->fill(std::byte{1})) == "mapped");
    std::ranges::fill(map->bytes(), std::byte{0x13});
  }
  std::vector<std::byte> back(300);
  REQUIRE(message(buffer->copyout(back)) == "ok");
  CHECK(std::ranges::count(back, std::byte{0x13}) == 100);
}
