// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "exit_status.hpp"

namespace berth::tool {

struct TourOptions {
  std::string file;                    ///< empty: this program itself
  std::string device;                  ///< see `select_devices`
  std::optional<std::uint64_t> piece;  ///< bytes on the device at a time; absent: what suits the device
  bool json = false;                   ///< one object a line: a device
  std::optional<bool> progress;        ///< absent: for a large file on a terminal
};

/// `berth tour`: a file goes to each device, is counted there, comes back, and is compared with the host's.
[[nodiscard]] ExitStatus run_tour(const TourOptions& options);

}  // namespace berth::tool
