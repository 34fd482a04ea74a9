// SPDX-License-Identifier: MIT
#include "progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace berth::tool {
namespace {

constexpr std::chrono::milliseconds pause{100};
constexpr const char* wipe = "\r\x1b[K";

}  // namespace

bool stderr_is_terminal() noexcept { return ::isatty(STDERR_FILENO) == 1; }

bool Progress::due() const noexcept { return shown_ && (!last_ || Clock::now() - *last_ >= pause); }

void Progress::show(std::string_view line) {
  if (!due()) return;
  last_ = Clock::now();
  dirty_ = stderr_is_terminal();
  if (dirty_) {
    fmt::print(stderr, "{}{}", wipe, line);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

void Progress::clear() {
  if (dirty_) fmt::print(stderr, "{}", wipe);
  dirty_ = false;
}

}  // namespace berth::tool
