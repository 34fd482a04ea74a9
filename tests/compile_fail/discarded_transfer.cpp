// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/packed_allocator.hpp>

void call(berth::PackedAllocator& allocator, const berth::PackedBuffer& buf) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = allocator.transfer(buf, buf, 1);
  static_cast<void>(result);
#else
  allocator.transfer(buf, buf, 1);
#endif
}
