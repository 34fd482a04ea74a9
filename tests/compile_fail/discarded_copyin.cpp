// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/packed_allocator.hpp>

void call(berth::PackedAllocator& allocator, const berth::PackedBuffer& buf) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = allocator.copyin(buf, {});
  static_cast<void>(result);
#else
  allocator.copyin(buf, {});
#endif
}
