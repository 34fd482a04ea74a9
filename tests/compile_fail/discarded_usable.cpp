// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/process.hpp>

void call() {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = berth::process::usable("test");
  static_cast<void>(result);
#else
  berth::process::usable("test");
#endif
}
