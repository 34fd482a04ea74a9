// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "exit_status.hpp"

namespace berth::tool {

struct CheckCommandOptions {
  std::string device;  ///< see `select_devices`
  std::string law;     ///< only this one; empty for all
  bool list = false;   ///< names the laws instead
  bool json = false;   ///< one object a line: a law's result on a device
};

/// `berth check`: holds the laws of `Allocator` against devices.
[[nodiscard]] ExitStatus run_check(const CheckCommandOptions& options);

}  // namespace berth::tool
