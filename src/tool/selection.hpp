// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "inventory.hpp"

namespace berth::tool {

/// What `--device` accepts, for the help.
inline constexpr const char* device_help =
    "A device's number as `berth devices` shows it, or a part of its name, its platform's or its framework's "
    "(default: every device)";

/// The devices that the user wants: the one with that number, those whose name, platform or framework
/// contains the text, or, for an empty text, all that can be opened. Host memory alone does not count as a
/// device unless asked for.
[[nodiscard]] Outcome<std::vector<const FoundDevice*>> select_devices(const Inventory& inventory,
                                                                      const std::string& wanted);

}  // namespace berth::tool
