// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/mutex.hpp>

#pragma GCC diagnostic error "-Wunused-value"  // what clang calls it here

void call(berth::Mutex& mutex) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const berth::MutexLock lock{mutex};
#else
  berth::MutexLock{mutex};
#endif
}
