// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/cuda/driver.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "status.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// The fault that ended a driver's work in this process; 0 when there was none. One for all contexts of a
/// driver that live at one time.
using Fault = std::atomic<abi::Status>;
[[nodiscard]] std::shared_ptr<Fault> fault_of(const Driver& driver);

/// One context that berth works in, and whether it still works. Shared by an allocator and its events.
class Context {
 public:
  /// What the end of this does.
  enum class Ownership : std::uint8_t {
    primary,   ///< gives one reference to the device's primary context back
    adopted,   ///< destroys the context
    borrowed,  ///< nothing
  };

  Context(const Driver& table, abi::Context native, abi::Device on, Ownership ownership)
      : driver(table), handle(native), device(on), ownership_(ownership), fault_(fault_of(table)) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  /// Success unless a call met a fault that the context does not survive.
  [[nodiscard]] Result<void> usable(const char* call) const noexcept;
  [[nodiscard]] bool lost() const noexcept {
    return fault_->load(std::memory_order_acquire) != abi::success || gone_.load(std::memory_order_acquire);
  }

  /// Success, or the error; a fault of the context is remembered, and told to the sink the first time.
  [[nodiscard]] Result<void> check(abi::Status status, const char* call) const noexcept {
    if (status == abi::success) [[likely]]
      return {};
    return fail(failure(status, call));
  }
  /// The same for a call whose failure nobody is told otherwise: it goes to the sink. Whether there was none.
  bool told(abi::Status status, const char* call) const noexcept;

  /// Lets this context's device read and write the memory of `peer`'s: once for each direction. False where
  /// there is no way. Needs this context to be current.
  [[nodiscard]] bool reaches(const Context& peer) const noexcept BERTH_EXCLUDES(mutex_);

  const Driver& driver;
  const abi::Context handle;
  const abi::Device device;

 private:
  [[nodiscard]] Error failure(abi::Status status, const char* call) const noexcept;

  const Ownership ownership_;
  const std::shared_ptr<Fault> fault_;
  mutable std::atomic<bool> gone_{false};
  // Handles come again for other contexts: a peer is who has its identity.
  const std::shared_ptr<const int> identity_ = std::make_shared<const int>();
  struct Peer {
    std::weak_ptr<const int> identity;
    bool reached;
  };
  mutable Mutex mutex_;
  mutable std::vector<Peer> peers_ BERTH_GUARDED_BY(mutex_);
};

/// Makes a context the calling thread's current one for a scope.
class [[nodiscard]] Current {
 public:
  explicit Current(const Context& context) noexcept;
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current();

  [[nodiscard]] const Result<void>& entered() const noexcept { return entered_; }
  /// For where nobody is told otherwise: a failure goes to the sink.
  [[nodiscard]] bool entered_or_told() const noexcept;

 private:
  const Context& context_;
  bool pushed_ = false;
  Result<void> entered_;
};

}  // namespace berth::inline BERTH_ABI::cuda::detail
