// SPDX-License-Identifier: MIT
// The number of operations of a long test: sanitizers run a part of it (BERTH_TEST_SCALE).
#pragma once

#include <cstddef>
#include <cstdlib>

/// `full` times BERTH_TEST_SCALE (1 where it is not set), at least 1.
inline std::size_t scaled(std::size_t full) {
  const char* text = std::getenv("BERTH_TEST_SCALE");
  const double factor = text != nullptr ? std::strtod(text, nullptr) : 1.0;
  const auto count = static_cast<std::size_t>(static_cast<double>(full) * factor);
  return count > 0 ? count : 1;
}
