// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/packed_allocator.hpp>

void call(berth::PackedAllocator& allocator) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = allocator.alloc(64);
  static_cast<void>(result);
#else
  allocator.alloc(64);
#endif
}
