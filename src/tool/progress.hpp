// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace berth::tool {

/// Whether stderr is a terminal.
[[nodiscard]] bool stderr_is_terminal() noexcept;

/// One line on stderr that says how far the work is, renewed at most ten times a second and wiped at the end.
/// Where stderr is no terminal, a line each time.
class Progress {
 public:
  explicit Progress(bool shown) noexcept : shown_(shown) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  /// True when a line shown now would not come too soon after the last one.
  [[nodiscard]] bool due() const noexcept;
  /// Shows the line; without `due()`, does nothing.
  void show(std::string_view line);
  /// Wipes the line, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  bool shown_;
  bool dirty_ = false;
  std::optional<Clock::time_point> last_;
};

}  // namespace berth::tool
