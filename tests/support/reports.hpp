// SPDX-License-Identifier: MIT
// Catches what goes to the diagnostic sink.
#pragma once

#include <berth/core/diagnostics.hpp>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

/// Replaces the sink while it lives, and keeps the messages.
class Reports {
 public:
  Reports() { berth::set_diagnostic_sink(&keep, this); }
  ~Reports() { berth::set_diagnostic_sink(nullptr); }
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  /// The messages since the last time that this was asked.
  [[nodiscard]] std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  static void keep(const berth::Error& error, void* self) noexcept {
    auto& reports = *static_cast<Reports*>(self);
    const std::lock_guard lock(reports.mutex_);
    reports.messages_.push_back(error.message());
  }

  std::mutex mutex_;
  std::vector<std::string> messages_;
};
