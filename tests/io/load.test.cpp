// SPDX-License-Identifier: MIT
// What `load` does with its ranges, over models that count, and through packing and adaptors.
#include <berth/adaptors/failing.hpp>
#include <berth/adaptors/limiting.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/core/packed_allocator.hpp>
#include <berth/io/load.hpp>

#include <array>

#include "disk/temporary.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"

using namespace berth;
using models::Counts;
using temporary::Nameless;
using temporary::random_bytes;
using Model = models::Rich<'a'>;
using Other = models::Rich<'b'>;
using Buf = Model::Buf;

namespace {

template <class A>
buffer_t<A> allocated(A& allocator, std::size_t nbytes) {
  auto buf = allocator.alloc(nbytes, BufferSpec{.zero = true});
  REQUIRE(message(buf) == "ok");
  return std::move(*buf);
}

struct Fixture {
  std::vector<std::byte> content = random_bytes(1000, 1);
  Nameless file{content};
  Model model;
  Buf a = allocated(model, 100);
  Buf b = allocated(model, 200);

  Fixture() { static_cast<void>(model.state().calls()); }
  Fixture(const Fixture&) = delete;
  ~Fixture() {
    model.free(a, 100);
    model.free(b, 200);
  }
  [[nodiscard]] std::span<const std::byte> part(std::size_t first, std::size_t nbytes) const {
    return std::span(content).subspan(first, nbytes);
  }
};

std::span<const std::byte> bytes_of(const Buf& buf, std::size_t first, std::size_t nbytes) {
  return {buf.data + first, nbytes};
}

TEST_CASE("each range is cut into chunks of its own, in order") {
  Fixture f;
  const std::array<LoadRange<Buf>, 3> ranges{{{f.file.extent(500, 100), &f.a, 0},
                                              {f.file.extent(0, 0), &f.b, 200},
                                              {f.file.extent(1, 50), &f.b, 7}}};
  std::vector<LoadProgress> seen;
  LoadOptions options;
  options.chunk = 40;
  options.progress = [&](const LoadProgress& progress) { seen.push_back(progress); };
  const auto loaded = f.model.load(ranges, options);
  REQUIRE(message(loaded) == "ok");
  CHECK(*loaded == DiskCopy{.direct = 0, .buffered = 150, .unbuffered = 0});
  CHECK(seen == std::vector<LoadProgress>{{40, 150}, {80, 150}, {100, 150}, {140, 150}, {150, 150}});
  CHECK(f.model.state().calls() == Counts{{"load", 1}, {"offset", 5}, {"copy_from_disk", 5}});
  CHECK(f.model.state().cuts() ==
        std::vector<models::Cut>{
            {40, 0, false}, {40, 40, false}, {20, 80, false}, {40, 7, false}, {10, 47, false}});
  CHECK(std::ranges::equal(bytes_of(f.a, 0, 100), f.part(500, 100)));
  CHECK(std::ranges::equal(bytes_of(f.b, 7, 50), f.part(1, 50)));
  CHECK(f.b.data[6] == std::byte{0});
  CHECK(f.b.data[57] == std::byte{0});
}

TEST_CASE("a chunk as large as can be takes each range at once") {
  Fixture f;
  const std::array<LoadRange<Buf>, 1> ranges{{{f.file.extent(0, 200), &f.b, 0}}};
  LoadOptions options;
  options.chunk = std::numeric_limits<std::size_t>::max();
  CHECK(message(f.model.load(ranges, options)) == "ok");
  CHECK(f.model.state().calls() == Counts{{"load", 1}, {"offset", 1}, {"copy_from_disk", 1}});
}

TEST_CASE("a byte that two ranges write is one of theirs") {
  Fixture f;
  const std::array<LoadRange<Buf>, 2> ranges{
      {{f.file.extent(0, 80), &f.a, 0}, {f.file.extent(500, 80), &f.a, 20}}};
  CHECK(message(f.model.load(ranges, {})) == "ok");
  for (std::size_t i = 0; i < 100; ++i) {
    const bool first = i < 80 && f.a.data[i] == f.content[i];
    const bool second = i >= 20 && f.a.data[i] == f.content[500 + i - 20];
    CHECK((first || second));
  }
}

TEST_CASE("a chunk that fails ends the load with the numbers of the whole") {
  Fixture f;
  const std::array<LoadRange<Buf>, 2> ranges{
      {{f.file.extent(0, 100), &f.a, 0}, {f.file.extent(100, 200), &f.b, 0}}};
  LoadOptions options;
  options.chunk = 60;
  std::uint64_t told = 0;
  options.progress = [&](const LoadProgress& progress) { told = progress.done; };

  SECTION("by the backend") {
    f.model.state().refuse("copy_from_disk", Errc::device_lost, 3);
    CHECK(message(f.model.load(ranges, options)) ==
          "a copy_from_disk: the device is lost (told to refuse), asked 300 bytes, 160 bytes done");
    CHECK(told == 160);
  }
  SECTION("by a view") {
    f.model.state().refuse("offset", Errc::out_of_memory, 1);
    CHECK(message(f.model.load(ranges, options)) ==
          "a offset: out of memory (told to refuse), asked 300 bytes, 60 bytes done");
  }
  SECTION("by a file that ends early, in the middle of a chunk") {
    f.file.resize(170);
    const auto loaded = f.model.load(ranges, options);
    REQUIRE(outcome(loaded) == "short_read");
    CHECK(loaded.error().asked() == 300U);
    CHECK(loaded.error().done() == 170U);
    CHECK(told == 160);
  }
  SECTION("by a file that is truncated meanwhile") {
    options.progress = [&](const LoadProgress& progress) {
      if (progress.done == 100) f.file.resize(0);
    };
    const auto loaded = f.model.load(ranges, options);
    REQUIRE(outcome(loaded) == "short_read");
    CHECK(loaded.error().done() == 100U);
    CHECK(std::ranges::equal(bytes_of(f.a, 0, 100), f.part(0, 100)));
  }
}

TEST_CASE("a stop after the last byte comes too late") {
  Fixture f;
  const std::array<LoadRange<Buf>, 1> ranges{{{f.file.extent(0, 100), &f.a, 0}}};
  std::stop_source source;
  LoadOptions options;
  options.chunk = 50;
  options.stop = source.get_token();
  options.progress = [&](const LoadProgress& progress) {
    if (progress.done == progress.total) source.request_stop();
  };
  CHECK(message(f.model.load(ranges, options)) == "ok");
  CHECK(message(f.model.load(ranges, options)) == "a load: cancelled, asked 100 bytes, 0 bytes done");
}

TEST_CASE("nothing moves when one range cannot be loaded") {
  Fixture f;
  Model second;
  Buf foreign = allocated(second, 10);
  const auto refused = [&](const LoadRange<Buf>& bad) {
    const std::array<LoadRange<Buf>, 2> ranges{{{f.file.extent(0, 10), &f.a, 0}, bad}};
    const auto loaded = f.model.load(ranges, {});
    CHECK(f.model.state().calls() == Counts{{"load", 1}});
    return outcome(loaded);
  };
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  CHECK(refused({f.file.extent(0, 101), &f.a, 0}) == "out_of_range");
  CHECK(refused({f.file.extent(0, 1), &f.a, 100}) == "out_of_range");
  CHECK(refused({f.file.extent(0, 50), &f.a, std::numeric_limits<std::size_t>::max() - 20}) ==
        "out_of_range");
  CHECK(refused({f.file.extent(0, most), &f.a, 0}) == "out_of_range");
  CHECK(refused({f.file.extent(most, 10), &f.a, 0}) == "out_of_range");
  CHECK(refused({f.file.extent(io::max_file_bytes - 5, 10), &f.a, 0}) == "out_of_range");
  CHECK(refused({f.file.extent(0, 10), nullptr, 0}) == "invalid_argument");
  CHECK(refused({f.file.extent(0, 10), &foreign, 0}) == "wrong_allocator");
  second.free(foreign, 10);
}

TEST_CASE("bytes that 64 bits cannot count are refused") {
  // Buffers of any size, without memory behind them.
  Model model;
  const Buf huge{{nullptr, static_cast<std::size_t>(io::max_file_bytes), model.info().instance, false}};
  const LoadRange<Buf> range{{0, 0, io::max_file_bytes}, &huge, 0};
  const std::vector<LoadRange<Buf>> ranges(3, range);
  CHECK(outcome(model.load(ranges, {})) == "invalid_size");
  CHECK(model.state().calls() == Counts{{"load", 1}});
}

TEST_CASE("a packed load reaches the typed buffers") {
  Fixture f;
  PackedAllocator packed = pack(f.model);
  PackedBuffer a(f.a);
  PackedBuffer b(f.b);
  const std::array<LoadRange<PackedBuffer>, 2> ranges{
      {{f.file.extent(5, 100), &a, 0}, {f.file.extent(300, 20), &b, 180}}};
  const auto loaded = packed.load(ranges);
  REQUIRE(message(loaded) == "ok");
  CHECK(loaded->total() == 120);
  CHECK(std::ranges::equal(bytes_of(f.a, 0, 100), f.part(5, 100)));
  CHECK(std::ranges::equal(bytes_of(f.b, 180, 20), f.part(300, 20)));
  static_cast<void>(f.model.state().calls());

  Other other;
  PackedBuffer foreign(allocated(other, 10));
  const std::array<LoadRange<PackedBuffer>, 2> strange{
      {{f.file.extent(0, 1), &a, 0}, {f.file.extent(0, 1), &foreign, 0}}};
  CHECK(message(packed.load(strange)) == "a load: wrong backend (the buffer is of another backend)");
  CHECK(f.model.state().calls().empty());
  const std::array<LoadRange<PackedBuffer>, 1> none{{{f.file.extent(0, 1), nullptr, 0}}};
  CHECK(outcome(packed.load(none)) == "invalid_argument");
  CHECK(message(packed.load({})) == "ok");

  CHECK(message(PackedAllocator().load(ranges)) ==
        "packed load: invalid argument (the PackedAllocator is empty)");
  CHECK(message(pack(models::Plain<models::SmallBuffer>()).load(ranges)) == "plain load: not supported");
  f.model.state().offer("load", false);
  CHECK(message(packed.load(ranges)) == "a load: not supported");
  other.free(std::move(*foreign.as<Other::Buf>()), 10);
}

TEST_CASE("adaptors forward, count and refuse loads") {
  Fixture f;
  const std::array<LoadRange<Buf>, 2> ranges{
      {{f.file.extent(0, 100), &f.a, 0}, {f.file.extent(9, 7), &f.b, 0}}};
  StatisticsAllocator counted(f.model);
  CHECK(message(counted.load(ranges, {})) == "ok");
  CHECK(counted.statistics().disk_bytes == 107);
  f.model.state().refuse("copy_from_disk", Errc::io);
  CHECK(outcome(counted.load(ranges, {})) == "io");
  CHECK(counted.statistics().disk_bytes == 107);
  f.model.state().refuse_nothing();

  FailingAllocator failing(f.model);
  failing.plan().fail_nth(1, Errc::device_lost);
  static_cast<void>(f.model.state().calls());
  CHECK(message(failing.load(ranges, {})) ==
        "failing load: the device is lost (told to fail), asked 107 bytes");
  CHECK(f.model.state().calls().empty());
  CHECK(message(failing.load(ranges, {})) == "ok");
  CHECK(failing.plan().calls() == 2);

  LimitingAllocator limited(f.model, 1000);
  static_cast<void>(f.model.state().calls());
  CHECK(message(limited.load(ranges, {})) == "ok");
  CHECK(f.model.state().calls()["load"] == 1);
}

}  // namespace
