// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mutex.hpp>
#include <berth/core/packed_allocator.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::inline BERTH_ABI::device {

/// One device of a framework: what it is called, its memory, and the queues on which work for it runs. A
/// cheap handle; copies are the same device. Thread-safe.
class BERTH_EXPORT Device {
 public:
  /// `allocator` draws on the device's memory and orders on its first queue.
  Device(std::string framework, std::size_t index, std::string name, PackedAllocator allocator);

  /// "OpenCL", "CUDA", "Native", or the user's own.
  [[nodiscard]] std::string_view framework() const noexcept;
  /// The position in the framework's list, from 0.
  [[nodiscard]] std::size_t index() const noexcept;
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] PackedAllocator allocator() const noexcept;

  /// Tells that work for this device also runs on `queue`; what waits for the device's work waits for it too.
  /// Registering a queue twice does nothing; an empty one is `invalid_argument`.
  [[nodiscard]] Result<void> register_queue(const Queue& queue);
  /// The reverse, for a queue that will get no more work, before the caller destroys one that its backend
  /// does not count. False when it was not registered. What the queue holds now is no longer waited for.
  bool unregister_queue(const Queue& queue);
  /// The registered queues, in order of registration; the allocator's own is not among them unless
  /// registered.
  [[nodiscard]] std::vector<Queue> queues() const;
  /// Waits for the work that the allocator's queue and the registered ones hold now. A failure of one does
  /// not keep it from waiting for the others; the first is returned.
  [[nodiscard]] Result<void> synchronize() const;
  /// The same for the registered queues alone.
  [[nodiscard]] Result<void> synchronize_registered() const;

  /// The same device, not merely an equal one.
  friend bool operator==(const Device& a, const Device& b) noexcept { return a.state_ == b.state_; }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace berth::inline BERTH_ABI::device
