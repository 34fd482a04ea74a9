// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/packed_allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "histogram.hpp"

namespace berth::tool {

/// What a driver does otherwise than one would expect.
struct FoundQuirk {
  std::string name;
  std::string remedy;  ///< what berth does about it
};

/// A device as its driver describes it, not yet opened. Text that a driver has none of is empty.
struct FoundDevice {
  std::size_t number = 0;  ///< over all frameworks; what `--device` takes
  std::string framework;
  std::string platform;
  std::string name;
  std::string type;
  std::string vendor;
  std::string driver_version;
  std::string version;  ///< of the framework's language or API, as the device puts it
  std::uint32_t compute_units = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t max_alloc_bytes = 0;
  std::size_t base_alignment = 0;
  bool unified_memory = false;
  bool svm_coarse = false;
  bool svm_fine = false;
  std::string sharing;           ///< how it reaches the host's memory, where the flags above do not say it
  bool compiler = false;         ///< compiles kernels
  bool single_threaded = false;  ///< the driver breaks when several host threads use it
  std::vector<FoundQuirk> quirks;
  std::string unusable;  ///< why it cannot be opened, when that is known beforehand

  std::function<Result<PackedAllocator>()> open;
  /// How the tour counts bytes on it.
  std::function<Outcome<std::unique_ptr<Histogram>>(const PackedAllocator&)> histogram;

  /// "[0] NAME"
  [[nodiscard]] std::string title() const;
  /// "[0] NAME (FRAMEWORK, PLATFORM)"
  [[nodiscard]] std::string full_title() const;
};

/// One driver and its devices.
struct FoundPlatform {
  std::string name;
  std::string vendor;
  std::string version;
  std::string problem;  ///< why devices are missing; empty when none are
  std::vector<FoundDevice> devices;
};

/// One backend of berth.
struct FoundFramework {
  std::string name;
  std::string problem;  ///< why there is no platform
  std::string remedy;   ///< what to do about it
  std::vector<FoundPlatform> platforms;
};

/// Everything on this machine that berth can use or that should be known to be missing.
struct Inventory {
  std::vector<FoundFramework> frameworks;

  /// All devices in the order of their numbers.
  [[nodiscard]] std::vector<const FoundDevice*> devices() const;
};

[[nodiscard]] Inventory take_inventory();

/// The parts, not yet numbered.
[[nodiscard]] FoundFramework find_opencl();
[[nodiscard]] FoundFramework find_cuda();

/// The framework name of host memory, which every machine has.
inline constexpr const char* native_name = "Native";

}  // namespace berth::tool
