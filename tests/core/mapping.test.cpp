// SPDX-License-Identifier: MIT
#include <berth/core/mapping.hpp>

#include <array>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"

using namespace berth;

namespace {

static_assert(!std::is_copy_constructible_v<Mapping> && !std::is_copy_assignable_v<Mapping>);
static_assert(std::is_nothrow_move_constructible_v<Mapping> && std::is_nothrow_move_assignable_v<Mapping>);

std::array<std::byte, 8> first_bytes;
std::array<std::byte, 4> second_bytes;

// What was unmapped: the name, and the bytes.
struct Unmapped {
  char name;
  const std::byte* data;
  std::size_t nbytes;
  friend bool operator==(const Unmapped&, const Unmapped&) = default;
};
std::vector<Unmapped> unmapped;

// As large as a state may be, so that a lost byte shows.
struct State {
  char name;
  std::array<char, Mapping::state_bytes - 1> padding;
};
static_assert(sizeof(State) == Mapping::state_bytes);

Result<void> unmap(const State& state, std::span<std::byte> bytes) noexcept {
  for (const char c : state.padding) {
    if (c != state.name) return fail(Error(Errc::io).because("the state is broken"));
  }
  unmapped.push_back({state.name, bytes.data(), bytes.size()});
  return {};
}
Result<void> refuse(const State& state, std::span<std::byte> bytes) noexcept {
  unmapped.push_back({state.name, bytes.data(), bytes.size()});
  return fail(Error(Errc::driver, "test").in("unmap").with_status(-5, "NO"));
}

Mapping mapped(char name, std::span<std::byte> bytes,
               Result<void> (*how)(const State&, std::span<std::byte>) noexcept = unmap) {
  State state{name, {}};
  state.padding.fill(name);
  return {bytes, state, how};
}
const Unmapped first{'1', first_bytes.data(), 8};
const Unmapped second{'2', second_bytes.data(), 4};

}  // namespace

TEST_CASE("a mapping is unmapped once, at the end of its scope") {
  unmapped.clear();
  {
    const Mapping mapping = mapped('1', first_bytes);
    CHECK(mapping.bytes().data() == first_bytes.data());
    CHECK(mapping.bytes().size() == 8);
    CHECK(unmapped.empty());
  }
  CHECK(unmapped == std::vector{first});
}

TEST_CASE("unmap unmaps now, and a second time does nothing") {
  Reports reports;
  unmapped.clear();
  {
    Mapping mapping = mapped('1', first_bytes);
    CHECK(outcome(mapping.unmap()) == "ok");
    CHECK(unmapped == std::vector{first});
    CHECK(mapping.bytes().empty());
    CHECK(outcome(mapping.unmap()) == "ok");
  }
  CHECK(unmapped == std::vector{first});
  CHECK(reports.take().empty());
}

TEST_CASE("unmap returns a failure, and does not try again") {
  Reports reports;
  unmapped.clear();
  {
    Mapping mapping = mapped('1', first_bytes, refuse);
    CHECK(message(mapping.unmap()) == "unmap: NO (-5)");
    CHECK(outcome(mapping.unmap()) == "ok");
  }
  CHECK(unmapped == std::vector{first});
  CHECK(reports.take().empty());
}

TEST_CASE("a failure in the destructor goes to the sink") {
  Reports reports;
  unmapped.clear();
  {
    const Mapping mapping = mapped('1', first_bytes, refuse);
  }
  CHECK(unmapped == std::vector{first});
  CHECK(reports.take() == std::vector<std::string>{"unmap: NO (-5)"});
}

TEST_CASE("a mapping moves, and what it leaves is empty") {
  unmapped.clear();
  {
    Mapping source = mapped('1', first_bytes);
    const Mapping target = std::move(source);
    CHECK(source.bytes().empty());  // NOLINT(bugprone-use-after-move): documented
    CHECK(target.bytes().size() == 8);
    CHECK(outcome(source.unmap()) == "ok");
    CHECK(unmapped.empty());
  }
  CHECK(unmapped == std::vector{first});
}

TEST_CASE("assignment unmaps what was there") {
  unmapped.clear();
  {
    Mapping mapping = mapped('1', first_bytes);
    mapping = mapped('2', second_bytes);
    CHECK(unmapped == std::vector{first});
    CHECK(mapping.bytes().data() == second_bytes.data());
    mapping = Mapping();
    CHECK(unmapped == std::vector{first, second});
    CHECK(mapping.bytes().empty());
    mapping = mapped('1', first_bytes);
  }
  CHECK(unmapped == std::vector{first, second, first});
}

TEST_CASE("a mapping moved to itself stays, and two swap") {
  unmapped.clear();
  {
    Mapping one = mapped('1', first_bytes);
    Mapping& same = one;
    one = std::move(same);
    CHECK(unmapped.empty());
    CHECK(one.bytes().size() == 8);
    std::swap(one, same);
    CHECK(unmapped.empty());
    CHECK(one.bytes().size() == 8);

    Mapping two = mapped('2', second_bytes);
    std::swap(one, two);
    CHECK(unmapped.empty());
    CHECK(outcome(one.unmap()) == "ok");
    CHECK(unmapped == std::vector{second});
    Mapping none;
    std::swap(two, none);
    CHECK(two.bytes().empty());
  }
  CHECK(unmapped == std::vector{second, first});
}

TEST_CASE("a range that needs no unmapping has none") {
  Mapping mapping(first_bytes);
  CHECK(mapping.bytes().size() == 8);
  CHECK(outcome(mapping.unmap()) == "ok");
  CHECK(mapping.bytes().empty());
  CHECK(outcome(Mapping().unmap()) == "ok");
}
