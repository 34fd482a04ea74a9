// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/mapping.hpp>

void call(berth::Mapping& mapping) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = mapping.unmap();
  static_cast<void>(result);
#else
  mapping.unmap();
#endif
}
