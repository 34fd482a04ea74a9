// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/process.hpp>
#include <berth/cuda/discovery.hpp>

namespace berth::inline BERTH_ABI::cuda {

/// Once, when a driver is initialised.
inline void hook_exit() noexcept {
  static const bool hooked = (process::register_exit_hook(), true);
  static_cast<void>(hooked);
}

/// The caller's table, initialised, or for null the process's own.
[[nodiscard]] Result<const Driver*> resolve(const Driver* driver);

/// What a device says of itself.
[[nodiscard]] Result<DeviceDescription> describe_device(const Driver& driver, abi::Device device);

}  // namespace berth::inline BERTH_ABI::cuda
