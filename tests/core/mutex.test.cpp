// SPDX-License-Identifier: MIT
#include <berth/core/mutex.hpp>

#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/scale.hpp"

using namespace berth;

namespace {

struct Counter {
  Mutex mutex;
  std::size_t value BERTH_GUARDED_BY(mutex) = 0;

  void add() BERTH_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    ++value;
  }
  std::size_t read() BERTH_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    return value;
  }
};

bool is_taken(Mutex& mutex) {
  bool taken = true;
  std::thread([&] {
    if (mutex.try_lock()) {
      taken = false;
      mutex.unlock();
    }
  }).join();
  return taken;
}

}  // namespace

TEST_CASE("a lock holds the mutex for its scope") {
  Mutex mutex;
  CHECK_FALSE(is_taken(mutex));
  {
    const MutexLock lock(mutex);
    CHECK(is_taken(mutex));
  }
  CHECK_FALSE(is_taken(mutex));
}

TEST_CASE("what a mutex guards is changed by one thread at a time") {
  Counter counter;
  const std::size_t each = scaled(20000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::size_t n = 0; n < each; ++n) counter.add();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(counter.read() == 4 * each);
}
