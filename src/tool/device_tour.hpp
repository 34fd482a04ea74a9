// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/file_extent.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "byte_counts.hpp"
#include "file.hpp"
#include "in_place.hpp"
#include "inventory.hpp"
#include "progress.hpp"
#include "steps.hpp"

namespace berth::tool {

/// The host's own count of the file, from bytes that it read for itself.
struct Reference {
  ByteCounts counts;
  Nanoseconds time{};  ///< of the counting alone
};

/// What came of the tour of one device.
struct DeviceTour {
  std::uint64_t piece_bytes = 0;
  std::uint64_t pieces = 0;
  std::string means;  ///< what counted: "OpenCL kernel"
  ByteCounts counts;
  DiskCopy loaded;              ///< how the file's bytes reached the device
  std::uint64_t copied_in = 0;  ///< those that came through memory of the tour's: the device loads no files
  bool bytes_equal = true;
  InPlaceTour in_place;
  StepTimes times;
};

[[nodiscard]] Outcome<Reference> make_reference(const InputFile& file, Progress& progress);

/// Takes the whole file to the device and back, a piece at a time, and then counts it once more where it
/// lies: `wanted_piece` bytes, or by default a
/// quarter of the device's memory, at most its largest allocation and 64 MiB.
[[nodiscard]] Outcome<DeviceTour> tour_device(const FoundDevice& device, const InputFile& file,
                                              std::optional<std::uint64_t> wanted_piece, Progress& progress);

}  // namespace berth::tool
