// SPDX-License-Identifier: MIT
// Adaptors in a forked child: no call waits for a lock that a thread of the parent held, and none acts.
#include <berth/adaptors/lru.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/host/allocator.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/catch.hpp"
#include "support/outcome.hpp"

using namespace berth;

namespace {

/// Whether a forked child that runs `scenario` ends by itself, and finds it right.
template <class Scenario>
bool right_in_child(const Scenario& scenario) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // a call that waits would wait for ever
    ::_exit(scenario() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

/// Runs `work` on another thread while forks happen: some meet it with the lock held.
template <class Work>
class Busy {
 public:
  explicit Busy(Work work)
      : thread_([this, work]() mutable {
          while (!stop_) work();
        }) {}
  ~Busy() {
    stop_ = true;
    thread_.join();
  }
  Busy(const Busy&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

constexpr int forks = 50;

}  // namespace

TEST_CASE("a cache in a forked child answers forked, frees nothing and hangs on nothing") {
  auto cache = LruAllocator<host::Allocator>::create(*host::Allocator::open());
  REQUIRE(message(cache) == "ok");
  auto live = cache->alloc(100);
  REQUIRE(message(live) == "ok");
  const Busy busy([shared = *cache]() mutable {
    if (auto buf = shared.alloc(64)) shared.free(*buf, 64);
  });
  for (int i = 0; i < forks; ++i) {
    CHECK(right_in_child([&] {
      cache->free(*live, 100);
      return outcome(cache->alloc(64)) == "forked" && cache->trim(0) == 0 &&
             cache->statistics() == LruStatistics{};
    }));
  }
  cache->free(*live, 100);
}

TEST_CASE("statistics in a forked child hang on nothing") {
  StatisticsAllocator counted(*host::Allocator::open());
  auto live = counted.alloc(100);
  REQUIRE(message(live) == "ok");
  const Busy busy([shared = counted]() mutable {
    if (auto buf = shared.alloc(64)) shared.free(*buf, 64);
  });
  for (int i = 0; i < forks; ++i) {
    CHECK(right_in_child([&] {
      counted.free(*live, 100);
      counted.reset();
      return outcome(counted.alloc(64)) == "forked" && counted.statistics() == Statistics{};
    }));
  }
  counted.free(*live, 100);
}
