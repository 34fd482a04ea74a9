// SPDX-License-Identifier: MIT
#include <berth/core/host_range.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <sstream>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/scale.hpp"

using namespace berth;

namespace {

static_assert(!std::is_copy_constructible_v<HostRange> && !std::is_copy_assignable_v<HostRange>);
static_assert(std::is_nothrow_move_constructible_v<HostRange> &&
              std::is_nothrow_move_assignable_v<HostRange>);

std::array<std::byte, 256> memory;

std::span<const std::byte> bytes(std::size_t first, std::size_t last) {
  return std::span(memory).subspan(first, last - first);
}
HostRange claimed(std::span<const std::byte> range) {
  auto claim = HostRange::claim(range, "test");
  REQUIRE(claim);
  return std::move(*claim);
}
// Whether a range could be claimed now. Gives it up again.
bool is_free(std::span<const std::byte> range) { return HostRange::claim(range, "test").has_value(); }

std::span<const std::byte> at(std::uintptr_t address, std::size_t nbytes) {
  return {reinterpret_cast<const std::byte*>(address), nbytes};
}

}  // namespace

TEST_CASE("ranges that share a byte overlap, whichever is first") {
  struct Case {
    const char* name;
    std::size_t first, last;
  };
  const Case cases[] = {
      {"equal", 100, 200},           {"inside", 120, 180},          {"the first byte", 100, 101},
      {"the last byte", 199, 200},   {"around", 50, 250},           {"around, same begin", 100, 250},
      {"around, same end", 50, 200}, {"across the begin", 50, 101}, {"across the end", 199, 250},
  };
  for (const Case& other : cases) {
    INFO(other.name);
    {
      const HostRange live = claimed(bytes(100, 200));
      CHECK_FALSE(is_free(bytes(other.first, other.last)));
    }
    {
      const HostRange live = claimed(bytes(other.first, other.last));
      CHECK_FALSE(is_free(bytes(100, 200)));
    }
    CHECK(is_free(bytes(100, 200)));
  }
}

TEST_CASE("adjacent ranges do not overlap") {
  const HostRange middle = claimed(bytes(100, 200));
  const HostRange before = claimed(bytes(99, 100));
  const HostRange after = claimed(bytes(200, 201));
  CHECK(is_free(bytes(0, 99)));
  CHECK(is_free(bytes(201, 256)));
  CHECK_FALSE(is_free(bytes(98, 100)));
  CHECK_FALSE(is_free(bytes(200, 202)));
}

TEST_CASE("a range between two others is checked against both") {
  const HostRange low = claimed(bytes(0, 10));
  const HostRange high = claimed(bytes(20, 30));
  CHECK(is_free(bytes(10, 20)));
  CHECK_FALSE(is_free(bytes(9, 20)));
  CHECK_FALSE(is_free(bytes(10, 21)));
  CHECK_FALSE(is_free(bytes(5, 25)));
}

TEST_CASE("the overlap tells the live claim in the way") {
  const HostRange live = claimed(bytes(100, 200));
  std::ostringstream expected;
  expected << "opencl claim: overlapping memory, asked 10 bytes, at 0x" << std::hex
           << reinterpret_cast<std::uintptr_t>(memory.data() + 100)
           << ", shares bytes with a range of 100 bytes";
  CHECK(message(HostRange::claim(bytes(150, 160), "opencl")) == expected.str());
  const auto around = HostRange::claim(bytes(50, 250), "opencl");
  REQUIRE_FALSE(around);
  CHECK(around.error().position() == reinterpret_cast<std::uintptr_t>(memory.data() + 100));
  CHECK(around.error().limit() == 100);
}

TEST_CASE("a failed claim claims nothing") {
  const HostRange live = claimed(bytes(100, 200));
  CHECK_FALSE(is_free(bytes(50, 150)));
  CHECK(is_free(bytes(50, 100)));
}

TEST_CASE("null, empty and wrapping ranges are refused") {
  CHECK(outcome(HostRange::claim({}, "test")) == "invalid_argument");
  CHECK(outcome(HostRange::claim(bytes(100, 100), "test")) == "invalid_argument");
  CHECK(outcome(HostRange::claim(at(0, 16), "test")) == "invalid_argument");
  CHECK(outcome(HostRange::claim(at(UINTPTR_MAX - 15, 32), "test")) == "invalid_argument");
  CHECK(outcome(HostRange::claim(at(4096, SIZE_MAX), "test")) == "invalid_argument");
  CHECK(HostRange::claim(at(4096, SIZE_MAX), "test").error().reason() == "the range wraps around");
}

TEST_CASE("a range at the top of the address space does not wrap in the comparison") {
  const HostRange top = claimed(at(UINTPTR_MAX - 31, 31));
  CHECK_FALSE(is_free(at(UINTPTR_MAX - 1, 1)));
  CHECK(is_free(at(UINTPTR_MAX - 32, 1)));
  const HostRange low = claimed(at(1, 8));
  CHECK(is_free(at(9, 1)));
}

TEST_CASE("a claim is given up by destruction and by assignment, once") {
  CHECK_FALSE(HostRange());
  {
    HostRange first = claimed(bytes(0, 10));
    CHECK(first);
    HostRange moved = std::move(first);
    CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): documented
    CHECK(moved);
    CHECK_FALSE(is_free(bytes(0, 10)));

    HostRange& same = moved;
    moved = std::move(same);
    CHECK(moved);
    CHECK_FALSE(is_free(bytes(0, 10)));

    moved = claimed(bytes(20, 30));
    CHECK(is_free(bytes(0, 10)));
    CHECK_FALSE(is_free(bytes(20, 30)));

    moved = HostRange();
    CHECK_FALSE(moved);
    CHECK(is_free(bytes(20, 30)));

    first = claimed(bytes(0, 10));
  }
  CHECK(is_free(bytes(0, 10)));
}

TEST_CASE("a range that a device may touch for ever stays claimed") {
  static std::array<std::byte, 64> kept;  // nobody else's bytes, ever
  {
    HostRange claim = claimed(kept);
    claim.keep_claimed();
    CHECK_FALSE(claim);
  }
  CHECK(outcome(HostRange::claim(kept, "test")) == "overlap");
}

TEST_CASE("of threads that claim the same bytes one at a time has them") {
  constexpr int count = 4;
  const std::size_t rounds = scaled(2000);
  std::atomic<int> holders{0};
  std::atomic<int> wrong{0};
  std::atomic<std::size_t> won{0};
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      for (std::size_t round = 0; round < rounds; ++round) {
        // All share byte 100; each also has one of its own, which nobody may refuse.
        const auto own = static_cast<std::size_t>(i);
        if (!is_free(bytes(own, own + 1))) ++wrong;
        if (auto claim = HostRange::claim(bytes(100 - own, 101 + own), "test")) {
          if (++holders != 1) ++wrong;
          --holders;
          ++won;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(won > 0);
  CHECK(is_free(bytes(0, 256)));
}
