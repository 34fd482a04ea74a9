// SPDX-License-Identifier: MIT
#pragma once

#include "exit_status.hpp"

namespace berth::tool {

struct DevicesOptions {
  bool json = false;
};

/// `berth devices`: what was found, what each supports, and why something is missing.
[[nodiscard]] ExitStatus run_devices(const DevicesOptions& options);

}  // namespace berth::tool
