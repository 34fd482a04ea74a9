// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/copy.hpp>

void call(berth::Buffer& dst, const berth::Buffer& src) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = berth::copy(dst, src);
  static_cast<void>(result);
#else
  berth::copy(dst, src);
#endif
}
