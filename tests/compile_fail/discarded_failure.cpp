// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/result.hpp>

void call() {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = berth::fail(berth::Error(berth::Errc::io));
  static_cast<void>(result);
#else
  berth::fail(berth::Error(berth::Errc::io));
#endif
}
