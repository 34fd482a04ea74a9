// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/vector/launch.hpp>

void call(berth::Vector<float>& vector, const berth::device::Device& device) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto launch = berth::launching(device, in(vector));
  static_cast<void>(launch);
#else
  berth::launching(device, in(vector));
#endif
}
