// expect: alignof\(B\)|alignof\(std::max_align_t\)
// SPDX-License-Identifier: MIT
#include <berth/core/packed_buffer.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
constexpr std::size_t alignment = alignof(std::max_align_t);
#else
constexpr std::size_t alignment = 2 * alignof(std::max_align_t);
#endif

struct alignas(alignment) Handle {
  [[nodiscard]] std::size_t nbytes() const noexcept { return 0; }
  [[nodiscard]] berth::InstanceId instance() const noexcept { return {}; }
  [[nodiscard]] bool is_view() const noexcept { return false; }
};

berth::PackedBuffer made() { return berth::PackedBuffer(Handle{}); }
