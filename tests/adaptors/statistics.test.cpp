// SPDX-License-Identifier: MIT
#include <berth/adaptors/statistics.hpp>
#include <berth/core/buffer.hpp>

#include <barrier>
#include <thread>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"
#include "support/scale.hpp"

using namespace berth;
using Upstream = models::Rich<'a'>;
using Watched = StatisticsAllocator<Upstream>;

namespace {

models::RichBuffer<'a'> allocated(Watched& watched, std::size_t nbytes, const BufferSpec& spec = {}) {
  auto buf = watched.alloc(nbytes, spec);
  REQUIRE(message(buf) == "ok");
  return *buf;
}

}  // namespace

TEST_CASE("nothing was seen at first") { CHECK(Watched(Upstream()).statistics() == Statistics{}); }

TEST_CASE("live, peak and total") {
  Watched watched{Upstream()};
  auto a = allocated(watched, 100);
  auto b = allocated(watched, 50);
  CHECK(watched.statistics().bytes == Counter{150, 150, 150});
  CHECK(watched.statistics().allocations == Counter{2, 2, 2});
  watched.free(a, 100, {});
  CHECK(watched.statistics().bytes == Counter{50, 150, 150});
  CHECK(watched.statistics().allocations == Counter{1, 2, 2});
  auto c = allocated(watched, 60);
  CHECK(watched.statistics().bytes == Counter{110, 150, 210});
  CHECK(watched.statistics().allocations == Counter{2, 2, 3});
  auto d = allocated(watched, 41);
  CHECK(watched.statistics().bytes == Counter{151, 151, 251});
  CHECK(watched.statistics().allocations == Counter{3, 3, 4});
  for (const auto& buf : {b, c, d}) watched.free(buf, buf.nbytes(), {});
  CHECK(watched.statistics() == Statistics{.bytes = {0, 151, 251}, .allocations = {0, 3, 4}});
}

TEST_CASE("failures are counted, and nothing else of them") {
  Upstream upstream;
  Watched watched(upstream);
  upstream.state().refuse("alloc", Errc::out_of_memory);
  for (int i = 0; i < 3; ++i) CHECK(outcome(watched.alloc(10, {})) == "out_of_memory");
  CHECK(watched.statistics() == Statistics{.bytes = {}, .allocations = {}, .failures = 3});
}

TEST_CASE("empty allocations and wrapped memory are not counted") {
  Watched watched{Upstream()};
  std::byte memory[64];
  const BufferSpec wrap{.external_ptr = memory};
  auto empty = allocated(watched, 0);
  auto wrapped = allocated(watched, 64, wrap);
  CHECK(watched.statistics() == Statistics{});
  watched.free(empty, 0, {});
  watched.free(wrapped, 64, wrap);
  CHECK(watched.statistics() == Statistics{});
}

TEST_CASE("a free of a view or of another's buffer is not counted") {
  Reports reports;
  Watched watched{Upstream()};
  Watched other{Upstream()};
  auto buf = allocated(watched, 50);
  auto theirs = allocated(other, 30);
  auto view = watched.offset(buf, 50, 0);
  REQUIRE(message(view) == "ok");
  const Statistics before = watched.statistics();
  watched.free(*view, 50, {});
  watched.free(theirs, 30, {});
  CHECK(watched.statistics() == before);
  CHECK(other.statistics().bytes.current == 30);
  CHECK(reports.take().size() == 2);
  watched.free(buf, 50, {});
  other.free(theirs, 30, {});
}

TEST_CASE("bytes moved are counted when they moved") {
  Upstream upstream;
  Watched watched(upstream);
  auto a = allocated(watched, 100);
  auto b = allocated(watched, 100);
  const std::vector<std::byte> src(70);
  std::vector<std::byte> dst(30);
  models::TemporaryFile file;
  file.write(src, 0);
  const FileExtent extent{file.fd(), 0, 70};
  watched.reset();

  REQUIRE(message(watched.copyin(a, src)) == "ok");
  REQUIRE(message(watched.copyin(a, {})) == "ok");
  REQUIRE(message(watched.copyout(dst, a)) == "ok");
  REQUIRE(message(watched.copyout(dst, a)) == "ok");
  REQUIRE(message(watched.transfer(b, a, 11)) == "ok");
  REQUIRE(message(watched.copy_from_disk(b, extent, 5)) == "ok");
  Statistics expected{.bytes = {200, 200, 0},
                      .allocations = {2, 2, 0},
                      .failures = 0,
                      .copyin_bytes = 70,
                      .copyout_bytes = 60,
                      .transfer_bytes = 11,
                      .disk_bytes = 5};
  CHECK(watched.statistics() == expected);

  // What failed moved nothing.
  for (const char* operation : {"copyin", "copyout", "transfer", "copy_from_disk"}) {
    upstream.state().refuse(operation, Errc::device_lost);
  }
  CHECK(outcome(watched.copyin(a, src)) == "device_lost");
  CHECK(outcome(watched.copyout(dst, a)) == "device_lost");
  CHECK(outcome(watched.transfer(b, a, 11)) == "device_lost");
  CHECK(outcome(watched.copy_from_disk(b, extent, 5)) == "device_lost");
  CHECK(watched.statistics() == expected);
  watched.free(a, 100, {});
  watched.free(b, 100, {});
}

TEST_CASE("reset keeps what lives") {
  Upstream upstream;
  Watched watched(upstream);
  auto a = allocated(watched, 100);
  auto b = allocated(watched, 50);
  watched.free(b, 50, {});
  upstream.state().refuse("alloc", Errc::out_of_memory);
  CHECK_FALSE(watched.alloc(1, {}).has_value());
  upstream.state().refuse_nothing();
  REQUIRE(message(watched.copyin(a, std::vector<std::byte>(10))) == "ok");
  watched.reset();
  CHECK(watched.statistics() == Statistics{.bytes = {100, 100, 0}, .allocations = {1, 1, 0}});
  auto c = allocated(watched, 5);
  CHECK(watched.statistics() == Statistics{.bytes = {105, 105, 5}, .allocations = {2, 2, 1}});
  watched.free(a, 100, {});
  watched.free(c, 5, {});
  watched.reset();
  CHECK(watched.statistics() == Statistics{});
}

TEST_CASE("copies and handles on other queues share the counters") {
  models::Native queue;
  Watched watched{Upstream()};
  Watched copy = watched;
  auto handle = watched.on(Queue::borrow(models::queue_kind, &queue));
  REQUIRE(message(handle) == "ok");
  auto a = allocated(copy, 40);
  auto b = allocated(*handle, 50);
  REQUIRE(message(handle->copyin(b, std::vector<std::byte>(7))) == "ok");
  CHECK(watched.statistics().bytes.current == 90);
  CHECK(watched.statistics().copyin_bytes == 7);
  CHECK(copy.statistics() == handle->statistics());
  watched.free(b, 50, {});
  handle->free(a, 40, {});
  CHECK(watched.statistics().bytes == Counter{0, 90, 90});
}

TEST_CASE("threads are all counted") {
  constexpr std::uint64_t threads = 8;
  const std::size_t rounds = scaled(2000);
  Watched watched{Upstream()};
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  {
    std::vector<std::jthread> workers;
    for (std::uint64_t t = 0; t < threads; ++t) {
      workers.emplace_back([&] {
        const std::vector<std::byte> bytes(3);
        start.arrive_and_wait();
        for (std::size_t round = 0; round < rounds; ++round) {
          auto buf = watched.alloc(10, {});
          if (!buf) continue;
          static_cast<void>(watched.copyin(*buf, bytes).has_value());
          const Statistics now = watched.statistics();  // one consistent snapshot
          if (now.bytes.current != 10 * now.allocations.current ||
              now.bytes.total != 10 * now.allocations.total) {
            watched.free(*buf, 9, {});  // shows in the sums below
          } else {
            watched.free(*buf, 10, {});
          }
        }
      });
    }
  }
  const Statistics seen = watched.statistics();
  CHECK(seen.bytes.current == 0);
  CHECK(seen.allocations.current == 0);
  CHECK(seen.allocations.total == threads * rounds);
  CHECK(seen.bytes.total == 10 * threads * rounds);
  CHECK(seen.copyin_bytes == 3 * threads * rounds);
  CHECK(seen.allocations.peak <= threads);
  CHECK(seen.failures == 0);
}
