// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::tool {

/// "21.6 GiB"; exact below 1 KiB.
[[nodiscard]] std::string binary_size(std::uint64_t nbytes);

/// "104,869,945"
[[nodiscard]] std::string grouped(std::uint64_t number);

/// "1 piece", "3 pieces"
[[nodiscard]] std::string counted(std::uint64_t number, std::string_view noun);

/// A whole number of bytes above 0, also in binary units: "1000003", "64M", "64MiB". Nothing for anything
/// else.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

/// Whether `text` contains `part`, ASCII letters compared without case.
[[nodiscard]] bool contains_ignoring_case(std::string_view text, std::string_view part);

/// The text with control characters as "?", fit for a terminal.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace berth::tool
