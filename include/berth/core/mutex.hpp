// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <mutex>

// Clang checks these at compile time (-Wthread-safety); other compilers see nothing.
#if defined(__clang__)
#define BERTH_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define BERTH_THREAD_ANNOTATION(x)
#endif

/// The member may be touched only with the mutex held.
#define BERTH_GUARDED_BY(mutex) BERTH_THREAD_ANNOTATION(guarded_by(mutex))
/// The function may be called only with the mutex held.
#define BERTH_REQUIRES(...) BERTH_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
/// The function takes the mutex itself.
#define BERTH_EXCLUDES(...) BERTH_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace berth::inline BERTH_ABI {

/// `std::mutex` whose use clang can check.
class BERTH_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() BERTH_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void unlock() BERTH_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() BERTH_THREAD_ANNOTATION(try_acquire_capability(true)) {
    return mutex_.try_lock();
  }

 private:
  std::mutex mutex_;
};

/// Holds a `Mutex` for a scope. Must be named.
class [[nodiscard]] BERTH_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  [[nodiscard]] explicit MutexLock(Mutex& mutex) BERTH_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() BERTH_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace berth::inline BERTH_ABI
