// expect: a buffer larger than PackedBuffer::capacity does not fit in place
// SPDX-License-Identifier: MIT
#include <berth/core/packed_buffer.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
constexpr std::size_t size = berth::PackedBuffer::capacity;
#else
constexpr std::size_t size = berth::PackedBuffer::capacity + 1;
#endif

struct Handle {
  [[nodiscard]] std::size_t nbytes() const noexcept { return 0; }
  [[nodiscard]] berth::InstanceId instance() const noexcept { return {}; }
  [[nodiscard]] bool is_view() const noexcept { return false; }
  std::byte bytes[size];
};

berth::PackedBuffer made() { return berth::PackedBuffer(Handle{}); }
