// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/host_link.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "byte_counts.hpp"
#include "file.hpp"
#include "histogram.hpp"
#include "inventory.hpp"
#include "steps.hpp"

namespace berth::tool {

/// What came of counting the file where it lies: mapped for reading and attached to the device, with no copy
/// of berth's.
struct InPlaceTour {
  std::optional<device::LinkInfo> link;  ///< absent for an empty file, and where the device refused
  std::string refused;                   ///< why it did
  std::uint64_t bytes_not_moved = 0;     ///< that the copies of the tour did move to the device
  ByteCounts counts;

  [[nodiscard]] bool done() const noexcept { return link.has_value(); }
};

/// Counts a piece of the file in place and adds to `tour` and `times`. A refusal is no complaint.
[[nodiscard]] Outcome<void> count_in_place(const device::Device& device, const InputFile& file,
                                           std::uint64_t offset, std::uint64_t nbytes, Histogram& histogram,
                                           StepTimes& times, InPlaceTour& tour);

}  // namespace berth::tool
