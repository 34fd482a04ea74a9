// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace berth::tool {

/// Objects keep the order in which their members were written.
using Json = nlohmann::ordered_json;

/// Text, or null where there is none.
[[nodiscard]] inline Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// Prints a value on one line. Bytes that are not UTF-8 (a driver's name, a path) become U+FFFD.
inline void print_json_line(const Json& value) {
  fmt::print("{}\n", value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace berth::tool
