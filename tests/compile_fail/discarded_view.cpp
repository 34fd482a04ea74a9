// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>

void call(berth::Buffer& buffer) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = buffer.view(1, 0);
  static_cast<void>(result);
#else
  buffer.view(1, 0);
#endif
}
