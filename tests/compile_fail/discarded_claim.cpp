// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/host_range.hpp>

void call(std::span<const std::byte> bytes) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = berth::HostRange::claim(bytes, "test");
  static_cast<void>(result);
#else
  berth::HostRange::claim(bytes, "test");
#endif
}
