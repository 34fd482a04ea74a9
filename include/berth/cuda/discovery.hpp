// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/identity.hpp>
#include <berth/core/result.hpp>
#include <berth/cuda/driver.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace berth::inline BERTH_ABI::cuda {

/// A version as CUDA numbers it.
struct Version {
  int major = 0;
  int minor = 0;
  friend constexpr auto operator<=>(Version, Version) = default;
};

/// What a device says of itself (`cuDeviceGet...`). Sizes in bytes.
struct DeviceDescription {
  int ordinal = 0;  ///< what `Allocator::open` takes; `CUDA_VISIBLE_DEVICES` renumbers
  std::string name;
  DeviceKey key;  ///< from its UUID
  Version compute_capability;
  std::uint32_t multiprocessors = 0;
  std::uint64_t total_bytes = 0;
  bool integrated = false;                  ///< its memory is the host's
  bool pageable_memory_access = false;      ///< reaches any host memory without registration
  bool host_register = false;               ///< reaches host memory that is registered
  bool read_only_host_register = false;     ///< and registers it for reading only
  bool registered_at_host_address = false;  ///< registered memory has the host's addresses
  bool virtual_memory = false;              ///< reserves addresses and maps memory there
};

/// The version of CUDA that the driver serves at most. A null `driver` is the process's own, here and below.
[[nodiscard]] BERTH_EXPORT Result<Version> driver_version(const Driver* driver = nullptr);

/// Every device that the driver sees. One that does not answer is left out and reported to the sink; the last
/// one's error comes back where none answers. `library_missing`, `symbol_missing` or `no_device` say why
/// there is none. Thread-safe.
[[nodiscard]] BERTH_EXPORT Result<std::vector<DeviceDescription>> devices(const Driver* driver = nullptr);

/// The description of one device; `no_device` when there is none of that number.
[[nodiscard]] BERTH_EXPORT Result<DeviceDescription> describe(int ordinal, const Driver* driver = nullptr);

}  // namespace berth::inline BERTH_ABI::cuda
