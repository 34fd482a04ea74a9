// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>

/// Allocators that do next to nothing, so that what is measured is the way to them. All three do the same
/// work, behind functions that the caller's compiler cannot see.
namespace berth::tool {

/// A buffer as small as a backend's usually is.
class StubBuffer {
 public:
  StubBuffer(std::uint64_t handle, std::size_t nbytes, InstanceId instance) noexcept
      : handle_(handle), nbytes_(nbytes), instance_(instance) {}

  [[nodiscard]] std::uint64_t handle() const noexcept { return handle_; }
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }
  [[nodiscard]] InstanceId instance() const noexcept { return instance_; }
  [[nodiscard]] bool is_view() const noexcept { return false; }

 private:
  std::uint64_t handle_;
  std::size_t nbytes_;
  InstanceId instance_;
};

/// What is live.
struct StubState {
  InstanceId instance = next_instance_id();
  std::uint64_t allocations = 0;
  std::uint64_t live_bytes = 0;
};

/// berth's concept. A handle; the state must outlive it.
class StubAllocator {
 public:
  using buffer_type = StubBuffer;

  explicit StubAllocator(StubState& state) noexcept : state_(&state) {}

  [[nodiscard]] Result<StubBuffer> alloc(std::size_t nbytes, const BufferSpec& spec = {});
  void free(StubBuffer buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept;
  [[nodiscard]] Result<void> copyin(const StubBuffer& buf, std::span<const std::byte> src);
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const StubBuffer& buf);
  [[nodiscard]] Result<std::uintptr_t> addr(const StubBuffer& buf);
  [[nodiscard]] AllocatorInfo info() const;
  [[nodiscard]] Result<void> synchronize();

 private:
  StubState* state_;
};

static_assert(Allocator<StubAllocator>);

/// The same two calls as C++ virtual functions.
class VirtualAllocator {
 public:
  virtual ~VirtualAllocator() = default;
  [[nodiscard]] virtual Result<StubBuffer> alloc(std::size_t nbytes, const BufferSpec& spec) = 0;
  virtual void free(StubBuffer buf, std::size_t nbytes, const BufferSpec& spec) noexcept = 0;

 protected:
  VirtualAllocator() = default;
  VirtualAllocator(const VirtualAllocator&) = default;
  VirtualAllocator& operator=(const VirtualAllocator&) = default;
};

[[nodiscard]] std::unique_ptr<VirtualAllocator> make_virtual_stub(StubState& state);

/// The standard library's type-erased allocator; without a spec, and a pointer for a buffer.
[[nodiscard]] std::unique_ptr<std::pmr::memory_resource> make_pmr_stub(StubState& state);

}  // namespace berth::tool
