// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>

namespace berth::tool {

using Nanoseconds = std::chrono::nanoseconds;

/// Time since it was made, by a clock that never jumps.
class Stopwatch {
 public:
  [[nodiscard]] Nanoseconds elapsed() const noexcept { return Clock::now() - start_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

[[nodiscard]] constexpr double milliseconds(Nanoseconds time) noexcept {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace berth::tool
