// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace berth::tool {

/// What the program answers to the shell.
enum class ExitStatus : std::uint8_t {
  success = 0,
  failed = 1,  ///< the work was done, and a result is wrong: bytes differ, a law is broken
  error = 2,   ///< the work could not be done: bad arguments, no file, no device
};

/// The graver of the two.
[[nodiscard]] constexpr ExitStatus worse(ExitStatus a, ExitStatus b) noexcept { return a < b ? b : a; }

}  // namespace berth::tool
