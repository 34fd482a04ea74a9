// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mutex.hpp>
#include <berth/core/reclaim.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace berth::inline BERTH_ABI::detail {

/// Where a backend's instance keeps one idle `Staging` between copies; it gives it back when the device's
/// memory runs out. Thread-safe; the lock is held across no call of the driver.
template <class Staging>
class StagingShelf final : public reclaim::Reclaimable {
 public:
  /// `in_device_memory`: the device's memory is the host's, so that pinned bytes are its own.
  explicit StagingShelf(bool in_device_memory) noexcept : in_device_memory_(in_device_memory) {}

  /// The one that is kept; null when there is none.
  [[nodiscard]] std::unique_ptr<Staging> take() noexcept BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return std::move(kept_);
  }
  /// Keeps it; when there is one already, that one goes.
  void put(std::unique_ptr<Staging> staging) noexcept BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::swap(kept_, staging);
  }

  std::uint64_t reclaim(std::uint64_t /*nbytes*/) noexcept override {
    const auto idle = take();
    return idle && in_device_memory_ ? idle->pinned_bytes() : 0;
  }

 private:
  const bool in_device_memory_;
  Mutex mutex_;
  std::unique_ptr<Staging> kept_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::inline BERTH_ABI::detail
