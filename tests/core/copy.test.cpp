// SPDX-License-Identifier: MIT
#include <berth/core/copy.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"

using namespace berth;
using models::Counts;
using models::Cut;
using RichA = models::Rich<'a'>;
using RichB = models::Rich<'b'>;
using Bytes = std::vector<std::byte>;

namespace {

constexpr std::size_t piece = std::size_t{4} << 20U;

// Bytes without a short period, so that a shifted or repeated piece shows.
Bytes noise(std::size_t nbytes, std::uint32_t seed) {
  Bytes bytes(nbytes);
  for (std::byte& byte : bytes) {
    seed = seed * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(seed >> 24U);
  }
  return bytes;
}
Bytes content(const Buffer& buffer) {
  Bytes bytes(buffer.nbytes());
  REQUIRE(outcome(buffer.copyout(bytes)) == "ok");
  return bytes;
}

// Whether it holds these bytes; a failing test does not print megabytes.
bool holds(const Buffer& buffer, const Bytes& bytes) { return content(buffer) == bytes; }

template <Allocator A>
Buffer made(const A& model, std::size_t nbytes, std::uint32_t seed = 1) {
  auto buffer = Buffer::create(pack(model), nbytes);
  REQUIRE(buffer);
  REQUIRE(outcome(buffer->copyin(noise(nbytes, seed))) == "ok");
  static_cast<void>(model.state().calls());
  return std::move(*buffer);
}
Buffer view_of(Buffer& buffer, std::size_t nbytes, std::size_t byte_offset) {
  auto view = buffer.view(nbytes, byte_offset);
  REQUIRE(view);
  return std::move(*view);
}

std::string path(const Result<CopyPath>& copied) {
  return copied ? std::string(to_string(*copied)) : "failed: " + outcome(copied);
}

// Leaves, of what a copy may use, only these operations.
void only(models::State& state, const std::vector<std::string>& offered) {
  for (const char* operation : {"offset", "transfer", "copy_from_disk", "extent", "map"})
    state.offer(operation, false);
  for (const std::string& operation : offered) state.offer(operation, true);
}

// What each side has, as the expectation sees it.
struct Side {
  bool transfer;
  bool copy_from_disk;
  bool extent;
  bool shares;
  bool map;
  bool offset;

  static Side of(unsigned bits) {
    return {(bits & 1U) != 0, (bits & 2U) != 0,  (bits & 4U) != 0,
            (bits & 8U) != 0, (bits & 16U) != 0, (bits & 32U) != 0};
  }
  void set(models::State& state) const {
    state.offer("transfer", transfer);
    state.offer("copy_from_disk", copy_from_disk);
    state.offer("extent", extent);
    state.offer("map", map);
    state.offer("offset", offset);
    state.info.shares_host_memory = shares;
  }
};

// Copies from `from` to a RichA with every combination of what the two sides have. `transferable` says
// whether a transfer between them works, `from_mask` which bits of Side mean something to `from`.
template <Allocator From>
void check_every_combination(const From& from, const RichA& to, bool transferable, unsigned from_mask) {
  Buffer src = made(from, 1000, 1);
  Buffer dst = made(to, 1000, 2);
  std::uint32_t seed = 3;
  for (unsigned from_bits = 0; from_bits < 64; ++from_bits) {
    if ((from_bits & ~from_mask) != 0) continue;
    for (unsigned to_bits = 0; to_bits < 64; ++to_bits) {
      const Side source = Side::of(from_bits);
      const Side target = Side::of(to_bits);
      source.set(from.state());
      target.set(to.state());
      const Bytes reference = noise(1000, ++seed);
      REQUIRE(outcome(src.copyin(reference)) == "ok");
      static_cast<void>(to.state().calls());

      const char* expected = "bounce";
      if ((source.shares && source.map) || (target.shares && target.map)) expected = "shared_host";
      if (target.copy_from_disk && source.extent) expected = "disk";
      if (target.transfer && transferable) expected = "transfer";

      INFO("from " << from_bits << " to " << to_bits);
      REQUIRE(path(copy(dst, src)) == expected);
      REQUIRE(holds(dst, reference));
      REQUIRE(holds(src, reference));
      REQUIRE(to.state().open_maps() == 0);
      REQUIRE(from.state().open_maps() == 0);
    }
  }
}

// A copy with something refused: the error, nothing left open, and both sides as usable as before.
struct Refusal {
  models::State& state;
  const char* operation;
  int after = 0;
};
void check_refused(Buffer& dst, const Buffer& src, const Refusal& refusal,
                   const std::vector<models::State*>& states, const char* expected_path) {
  INFO(refusal.operation << " refused after " << refusal.after);
  refusal.state.refuse(refusal.operation, Errc::device_lost, refusal.after);
  const auto copied = copy(dst, src);
  REQUIRE_FALSE(copied);
  CHECK(copied.error().code() == Errc::device_lost);
  CHECK(copied.error().call() == refusal.operation);
  for (models::State* state : states) {
    CHECK(state->open_maps() == 0);
    state->refuse_nothing();
  }
  CHECK(path(copy(dst, src)) == expected_path);
  CHECK(holds(dst, content(src)));
  for (models::State* state : states) static_cast<void>(state->calls());
}

}  // namespace

TEST_CASE("the first path that both sides have is taken") {
  constexpr unsigned disk_bits = 4U | 32U;
  SECTION("one instance") {
    const RichA model;
    // Both sides are one, so the bits are set twice; the last counts.
    Buffer src = made(model, 1000, 1);
    Buffer dst = made(model, 1000, 2);
    for (unsigned bits = 0; bits < 64; ++bits) {
      const Side side = Side::of(bits);
      side.set(model.state());
      const Bytes reference = noise(1000, bits + 3);
      REQUIRE(outcome(src.copyin(reference)) == "ok");
      const char* expected = "bounce";
      if (side.shares && side.map) expected = "shared_host";
      if (side.copy_from_disk && side.extent) expected = "disk";
      if (side.transfer) expected = "transfer";
      REQUIRE(path(copy(dst, src)) == expected);
      REQUIRE(holds(dst, reference));
      REQUIRE(model.state().open_maps() == 0);
    }
  }
  SECTION("two instances of a backend, one of which reaches the other") {
    const RichA from;
    const RichA to;
    to.state().reaches.insert(from.info().instance);
    check_every_combination(from, to, true, 63);
  }
  SECTION("two instances of a backend that do not reach each other") {
    const RichA from;
    const RichA to;
    check_every_combination(from, to, false, 63);
  }
  SECTION("two backends") { check_every_combination(RichB(), RichA(), false, 63); }
  SECTION("a disk") { check_every_combination(models::Disk(), RichA(), false, disk_bits); }
}

TEST_CASE("each path makes just the calls that it needs") {
  RichA from;
  RichA to;
  to.state().reaches.insert(from.info().instance);
  Buffer src = made(from, 10);
  Buffer dst = made(to, 10);
  const auto calls = [&] { return std::pair(from.state().calls(), to.state().calls()); };
  using Calls = std::pair<Counts, Counts>;

  CHECK(path(copy(dst, src)) == "transfer");
  CHECK(calls() == Calls{{}, {{"transfer", 1}}});

  to.state().offer("transfer", false);
  CHECK(path(copy(dst, src)) == "disk");
  CHECK(calls() == Calls{{{"extent", 1}}, {{"copy_from_disk", 1}}});

  from.state().offer("extent", false);
  from.state().info.shares_host_memory = true;
  from.state().mapped_for = Access::overwrite;
  CHECK(path(copy(dst, src)) == "shared_host");
  CHECK(calls() == Calls{{{"map", 1}, {"unmap", 1}}, {{"copyin", 1}}});
  CHECK(from.state().mapped_for == Access::read);

  from.state().info.shares_host_memory = false;
  to.state().info.shares_host_memory = true;
  CHECK(path(copy(dst, src)) == "shared_host");
  CHECK(calls() == Calls{{{"copyout", 1}}, {{"map", 1}, {"unmap", 1}}});
  CHECK(to.state().mapped_for == Access::overwrite);

  to.state().info.shares_host_memory = false;
  CHECK(path(copy(dst, src)) == "bounce");
  CHECK(calls() == Calls{{{"offset", 1}, {"copyout", 1}}, {{"offset", 1}, {"copyin", 1}}});

  from.state().offer("offset", false);
  CHECK(path(copy(dst, src)) == "bounce");
  CHECK(calls() == Calls{{{"copyout", 1}}, {{"copyin", 1}}});
}

TEST_CASE("when a path does not apply after all, the next is tried") {
  const auto check = [](Errc code) {
    INFO(to_string(code));
    RichA from;
    RichA to;
    to.state().reaches.insert(from.info().instance);
    Buffer src = made(from, 100, 1);
    Buffer dst = made(to, 100, 2);
    to.state().refuse("transfer", code);
    CHECK(path(copy(dst, src)) == "disk");
    to.state().refuse("copy_from_disk", code);
    CHECK(path(copy(dst, src)) == "bounce");
    CHECK(holds(dst, noise(100, 1)));
    const auto calls = to.state().calls();
    CHECK(calls ==
          Counts{{"transfer", 2}, {"copy_from_disk", 2}, {"offset", 1}, {"copyin", 1}, {"copyout", 1}});
  };
  check(Errc::unsupported);
  check(Errc::wrong_allocator);
  check(Errc::wrong_backend);
}

TEST_CASE("any other error is the answer, and nothing else is tried") {
  for (int i = 0; i < errc_count; ++i) {
    const auto code = static_cast<Errc>(i);
    if (code == Errc::unsupported || code == Errc::wrong_allocator || code == Errc::wrong_backend) continue;
    INFO(to_string(code));
    RichA from;
    RichA to;
    to.state().reaches.insert(from.info().instance);
    Buffer src = made(from, 100, 1);
    Buffer dst = made(to, 100, 2);

    to.state().refuse("transfer", code);
    CHECK(outcome(copy(dst, src)) == to_string(code));
    CHECK(to.state().calls() == Counts{{"transfer", 1}});

    to.state().offer("transfer", false);
    to.state().refuse("copy_from_disk", code);
    CHECK(outcome(copy(dst, src)) == to_string(code));
    CHECK(to.state().calls() == Counts{{"copy_from_disk", 1}});
    CHECK(holds(dst, noise(100, 2)));
  }
}

TEST_CASE("a file that ends early is a short read") {
  models::Disk from;
  RichA to;
  auto src = Buffer::create(pack(from), 100);
  REQUIRE(src);
  REQUIRE(outcome(src->copyin(noise(60, 1))) == "ok");
  Buffer dst = made(to, 100);
  CHECK(message(copy(dst, *src)) == "a copy_from_disk: the file ended early, asked 100 bytes, 60 bytes done");
}

TEST_CASE("sizes must be equal") {
  RichA model;
  Buffer src = made(model, 5);
  Buffer dst = made(model, 4);
  CHECK(message(copy(dst, src)) == "a copy: invalid size, asked 5 bytes, must be 4 bytes");
  CHECK(message(copy(src, dst)) == "a copy: invalid size, asked 4 bytes, must be 5 bytes");
  CHECK(model.state().calls() == Counts{});
}

TEST_CASE("an empty Buffer cannot be copied") {
  RichA model;
  Buffer some = made(model, 4);
  Buffer none;
  CHECK(message(copy(some, none)) == "copy: invalid argument (a Buffer is empty)");
  CHECK(message(copy(none, some)) == "copy: invalid argument (a Buffer is empty)");
  CHECK(message(copy(none, none)) == "copy: invalid argument (a Buffer is empty)");
}

TEST_CASE("no bytes take no path") {
  RichA model;
  Buffer src = made(model, 0);
  Buffer dst = made(model, 0);
  CHECK(path(copy(dst, src)) == "none");
  CHECK(path(copy(dst, dst)) == "none");
  Buffer root = made(model, 8);
  Buffer view = view_of(root, 0, 3);
  static_cast<void>(model.state().calls());
  CHECK(path(copy(view, src)) == "none");
  CHECK(model.state().calls() == Counts{});
}

TEST_CASE("overlapping parts of one allocation are refused, adjacent ones are copied") {
  RichA model;
  Buffer root = made(model, 32, 1);
  Buffer first = view_of(root, 16, 0);
  Buffer last = view_of(root, 16, 16);
  Buffer middle = view_of(root, 16, 15);
  Buffer inner = view_of(middle, 1, 0);
  Buffer same_byte = view_of(first, 1, 15);
  static_cast<void>(model.state().calls());

  CHECK(outcome(copy(root, root)) == "overlap");
  CHECK(outcome(copy(first, middle)) == "overlap");
  CHECK(outcome(copy(middle, first)) == "overlap");
  CHECK(outcome(copy(middle, last)) == "overlap");
  CHECK(outcome(copy(inner, same_byte)) == "overlap");
  CHECK(model.state().calls() == Counts{});
  CHECK(holds(root, noise(32, 1)));

  for (const char* off : {"", "transfer", "extent", "offset"}) {
    model.state().offer(off, false);
    CHECK(outcome(copy(last, first)) == "ok");
    CHECK(holds(last, content(first)));
    CHECK(outcome(last.copyin(noise(16, 7))) == "ok");
    CHECK(outcome(copy(first, last)) == "ok");
    CHECK(holds(first, noise(16, 7)));
  }
}

TEST_CASE("a view is copied and nothing beside it") {
  for (const char* through : {"transfer", "disk", "shared_host", "bounce"}) {
    INFO(through);
    RichB from;
    RichA to;
    if (through != std::string("disk")) from.state().offer("extent", false);
    from.state().info.shares_host_memory = through == std::string("shared_host");
    Buffer root = made(to, 100, 1);
    Buffer view = view_of(root, 30, 40);
    Bytes expected = noise(100, 1);
    Bytes reference;
    if (through == std::string("transfer")) {
      Buffer src = made(to, 50, 2);
      Buffer part = view_of(src, 30, 15);
      REQUIRE(path(copy(view, part)) == through);
      reference = content(part);
    } else {
      Buffer src = made(from, 50, 2);
      Buffer part = view_of(src, 30, 15);
      REQUIRE(path(copy(view, part)) == through);
      reference = content(part);
    }
    const Bytes source = noise(50, 2);
    CHECK(reference == Bytes(source.begin() + 15, source.begin() + 45));
    std::copy(reference.begin(), reference.end(), expected.begin() + 40);
    CHECK(holds(root, expected));
  }
}

TEST_CASE("a bounce goes in pieces through views, with an odd tail") {
  for (const std::size_t nbytes : {piece - 1, piece, piece + 1, 2 * piece + 12345}) {
    RichB from;
    RichA to;
    only(from.state(), {"offset"});
    only(to.state(), {"offset"});
    Buffer src = made(from, nbytes, 1);
    Buffer dst = made(to, nbytes, 2);
    CHECK(path(copy(dst, src)) == "bounce");

    std::vector<Cut> expected;
    for (std::size_t done = 0; done < nbytes; done += piece) {
      expected.push_back({std::min(piece, nbytes - done), done, false});
    }
    CHECK(from.state().cuts() == expected);
    CHECK(to.state().cuts() == expected);
    const int pieces = static_cast<int>(expected.size());
    CHECK(from.state().calls() == Counts{{"offset", pieces}, {"copyout", pieces}});
    CHECK(to.state().calls() == Counts{{"offset", pieces}, {"copyin", pieces}});
    CHECK(holds(dst, noise(nbytes, 1)));
  }
}

TEST_CASE("a bounce goes in one piece when a side has no views") {
  const std::size_t nbytes = 2 * piece + 12345;
  for (const bool source_has_views : {false, true}) {
    RichB from;
    RichA to;
    only(from.state(), {});
    only(to.state(), {});
    from.state().offer("offset", source_has_views);
    to.state().offer("offset", !source_has_views);
    Buffer src = made(from, nbytes, 1);
    Buffer dst = made(to, nbytes, 2);
    CHECK(path(copy(dst, src)) == "bounce");
    CHECK(from.state().calls() == Counts{{"copyout", 1}});
    CHECK(to.state().calls() == Counts{{"copyin", 1}});
    CHECK(holds(dst, noise(nbytes, 1)));
  }
}

TEST_CASE("between allocators without any refinement a copy bounces") {
  models::Plain<models::SmallBuffer> from;
  models::Plain<models::MoveOnlyBuffer> to;
  Buffer src = made(from, 100, 1);
  Buffer dst = made(to, 100, 2);
  CHECK(path(copy(dst, src)) == "bounce");
  CHECK(holds(dst, noise(100, 1)));
}

TEST_CASE("the failure of any step is returned, and both sides stay usable") {
  RichB from;
  RichA to;
  models::State& source = from.state();
  models::State& target = to.state();
  const std::vector<models::State*> states{&source, &target};

  SECTION("disk") {
    Buffer src = made(from, 100, 1);
    Buffer dst = made(to, 100, 2);
    check_refused(dst, src, {source, "extent"}, states, "disk");
    check_refused(dst, src, {target, "copy_from_disk"}, states, "disk");
  }
  SECTION("mapped source") {
    only(source, {"map"});
    only(target, {});
    source.info.shares_host_memory = true;
    Buffer src = made(from, 100, 1);
    Buffer dst = made(to, 100, 2);
    check_refused(dst, src, {source, "map"}, states, "shared_host");
    check_refused(dst, src, {target, "copyin"}, states, "shared_host");
    check_refused(dst, src, {source, "unmap"}, states, "shared_host");
  }
  SECTION("mapped destination") {
    only(source, {});
    only(target, {"map"});
    target.info.shares_host_memory = true;
    Buffer src = made(from, 100, 1);
    Buffer dst = made(to, 100, 2);
    check_refused(dst, src, {target, "map"}, states, "shared_host");
    check_refused(dst, src, {source, "copyout"}, states, "shared_host");
    check_refused(dst, src, {target, "unmap"}, states, "shared_host");
  }
  SECTION("bounce in pieces") {
    only(source, {"offset"});
    only(target, {"offset"});
    Buffer src = made(from, 2 * piece + 1, 1);
    Buffer dst = made(to, 2 * piece + 1, 2);
    for (int done = 0; done < 3; ++done) {
      check_refused(dst, src, {source, "offset", done}, states, "bounce");
      check_refused(dst, src, {target, "offset", done}, states, "bounce");
      check_refused(dst, src, {source, "copyout", done}, states, "bounce");
      check_refused(dst, src, {target, "copyin", done}, states, "bounce");
    }
  }
  SECTION("bounce in one piece") {
    only(source, {});
    only(target, {});
    Buffer src = made(from, 100, 1);
    Buffer dst = made(to, 100, 2);
    check_refused(dst, src, {source, "copyout"}, states, "bounce");
    check_refused(dst, src, {target, "copyin"}, states, "bounce");
  }
}

TEST_CASE("of a failed copy and a failed unmap, the copy is told") {
  RichB from;
  RichA to;
  only(from.state(), {"map"});
  only(to.state(), {});
  from.state().info.shares_host_memory = true;
  Buffer src = made(from, 100, 1);
  Buffer dst = made(to, 100, 2);
  to.state().refuse("copyin", Errc::device_lost);
  from.state().refuse("unmap", Errc::driver);
  CHECK(message(copy(dst, src)) == "a copyin: the device is lost (told to refuse)");
  CHECK(from.state().open_maps() == 0);
}

TEST_CASE("every path has a name") {
  CHECK(to_string(CopyPath::none) == "none");
  CHECK(to_string(CopyPath::transfer) == "transfer");
  CHECK(to_string(CopyPath::disk) == "disk");
  CHECK(to_string(CopyPath::shared_host) == "shared_host");
  CHECK(to_string(CopyPath::bounce) == "bounce");
}
