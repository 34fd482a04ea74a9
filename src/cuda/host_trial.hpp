// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/identity.hpp>
#include <berth/core/mutex.hpp>
#include <berth/device/host_link.hpp>

#include <cstddef>
#include <memory>

#include "context.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// How a device can reach memory of the host's, by its attributes.
struct HostReach {
  bool pageable = false;             ///< any page
  bool registers = false;            ///< what is registered
  bool registers_read_only = false;  ///< also for reading only
};

/// What a link between the host's memory and a device is, tried on memory of its own: once for each device of
/// a driver, by the first who asks. Thread-safe.
class HostTrial {
 public:
  HostTrial(std::shared_ptr<const Context> context, const DeviceKey& device, const HostReach& reach) noexcept;
  HostTrial(const HostTrial&) = delete;
  HostTrial& operator=(const HostTrial&) = delete;
  ~HostTrial();

  /// `unsupported` when neither side sees the other's bytes. A failure of the driver's is forgotten.
  [[nodiscard]] Result<device::LinkInfo> run() BERTH_EXCLUDES(mutex_);

  /// Whether memory is linked without registering it: the device says so, and no trial showed otherwise.
  [[nodiscard]] bool pageable() const;

 private:
  class Memory;

  [[nodiscard]] Result<device::LinkInfo> try_both() BERTH_REQUIRES(mutex_);

  const std::shared_ptr<const Context> context_;
  const DeviceKey device_;
  const HostReach reach_;
  Mutex mutex_;
  // The driver may wait for all that the context does before it takes memory back: that has time.
  std::unique_ptr<Memory> kept_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::inline BERTH_ABI::cuda::detail
