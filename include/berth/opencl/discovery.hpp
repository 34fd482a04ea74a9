// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/result.hpp>
#include <berth/opencl/types.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::inline BERTH_ABI::opencl {

enum class DeviceType : std::uint8_t { cpu, gpu, accelerator, other };

[[nodiscard]] BERTH_EXPORT std::string_view to_string(DeviceType type) noexcept;

/// A version as OpenCL's version strings give it.
struct Version {
  int major = 0;
  int minor = 0;
  friend constexpr auto operator<=>(Version, Version) = default;
};

/// What a device says of itself (`clGetDeviceInfo`). Sizes and alignments in bytes.
struct DeviceDescription {
  cl_device_id id = nullptr;
  std::string platform;  ///< name of its platform
  std::string name;
  std::string vendor;
  std::string driver_version;
  std::string version_text;
  Version version;
  DeviceType type = DeviceType::other;
  std::uint32_t compute_units = 0;
  std::uint64_t global_bytes = 0;
  std::uint64_t max_alloc_bytes = 0;
  std::size_t base_alignment = 0;  ///< CL_DEVICE_MEM_BASE_ADDR_ALIGN, which OpenCL gives in bits
  bool unified_memory = false;     ///< CL_DEVICE_HOST_UNIFIED_MEMORY; says nothing of zero copies
  bool available = false;          ///< CL_DEVICE_AVAILABLE
  bool compiler = false;           ///< CL_DEVICE_COMPILER_AVAILABLE
  bool out_of_order = false;       ///< host queues can run out of order
  bool svm_coarse = false;         ///< shared virtual memory, coarse-grained buffers
  bool svm_fine = false;           ///< shared virtual memory, fine-grained buffers
  std::string extensions;          ///< separated by spaces
};

/// One platform (driver) and its devices.
struct PlatformDescription {
  cl_platform_id id = nullptr;
  std::string name;
  std::string vendor;
  std::string version_text;
  std::vector<DeviceDescription> devices;
  std::optional<Error> problem;  ///< why `devices` is empty or incomplete
};

/// Every platform and device that the ICD loader finds. `no_device` when there is no platform. Thread-safe:
/// discovery is serialised, since drivers are not safe against threads that race into their initialisation
/// (seen on PoCL 3.1).
[[nodiscard]] BERTH_EXPORT Result<std::vector<PlatformDescription>> platforms();

/// The description of one device.
[[nodiscard]] BERTH_EXPORT Result<DeviceDescription> describe(cl_device_id device);

}  // namespace berth::inline BERTH_ABI::opencl
