// expect: is_nothrow_move_constructible|constraints not satisfied
// SPDX-License-Identifier: MIT
#include <berth/core/packed_allocator.hpp>

struct Handle {
  [[nodiscard]] std::size_t nbytes() const noexcept { return 0; }
  [[nodiscard]] berth::InstanceId instance() const noexcept { return {}; }
  [[nodiscard]] bool is_view() const noexcept { return false; }
};

struct Model {
  using buffer_type = Handle;

  Model() = default;
#ifdef BERTH_COMPILE_FAIL_CONTROL
  Model(Model&&) noexcept {}
#else
  Model(Model&&) {}
#endif

  [[nodiscard]] berth::Result<Handle> alloc(std::size_t, const berth::BufferSpec&) { return Handle{}; }
  void free(Handle, std::size_t, const berth::BufferSpec&) noexcept {}
  [[nodiscard]] berth::Result<void> copyin(const Handle&, std::span<const std::byte>) { return {}; }
  [[nodiscard]] berth::Result<void> copyout(std::span<std::byte>, const Handle&) { return {}; }
  [[nodiscard]] berth::Result<std::uintptr_t> addr(const Handle&) { return 0; }
  [[nodiscard]] berth::AllocatorInfo info() const { return {}; }
  [[nodiscard]] berth::Result<void> synchronize() { return {}; }
};

berth::PackedAllocator made() { return berth::pack(Model()); }
