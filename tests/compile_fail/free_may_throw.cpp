// expect: noexcept|constraints not satisfied
// SPDX-License-Identifier: MIT
#include <berth/core/packed_allocator.hpp>

struct Model : berth::PackedAllocator {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  void free(berth::PackedBuffer, std::size_t, const berth::BufferSpec&) noexcept {}
#else
  void free(berth::PackedBuffer, std::size_t, const berth::BufferSpec&) {}
#endif
};

berth::PackedAllocator made() { return berth::pack(Model()); }
