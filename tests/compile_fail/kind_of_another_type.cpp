// expect: no matching function|deduced conflicting
// SPDX-License-Identifier: MIT
#include <berth/host_ptr/host_ptr.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
constexpr auto kind = berth::float32;
#else
constexpr auto kind = berth::float64;
#endif

auto call(const berth::device::Device& device, const berth::BigArray<float>& array) {
  return berth::host_ptr::of_bigarray(device, kind, array);
}
