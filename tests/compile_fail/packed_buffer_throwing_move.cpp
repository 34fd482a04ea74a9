// expect: is_nothrow_move_constructible|constraints not satisfied
// SPDX-License-Identifier: MIT
#include <berth/core/packed_buffer.hpp>

struct Handle {
  Handle() = default;
#ifdef BERTH_COMPILE_FAIL_CONTROL
  Handle(Handle&&) noexcept {}
#else
  Handle(Handle&&) {}
#endif
  [[nodiscard]] std::size_t nbytes() const noexcept { return 0; }
  [[nodiscard]] berth::InstanceId instance() const noexcept { return {}; }
  [[nodiscard]] bool is_view() const noexcept { return false; }
};

berth::PackedBuffer made() { return berth::PackedBuffer(Handle()); }
