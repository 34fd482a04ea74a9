// expect: nodiscard
// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>

void call(berth::PackedAllocator allocator) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  const auto result = berth::Buffer::create(std::move(allocator), 64);
  static_cast<void>(result);
#else
  berth::Buffer::create(std::move(allocator), 64);
#endif
}
