// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/host_ptr/host_ptr.hpp>

void call(berth::Vector<float>& vector, const berth::device::Device& device) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = berth::host_ptr::attach(vector, device);
  static_cast<void>(result);
#else
  berth::host_ptr::attach(vector, device);
#endif
}
