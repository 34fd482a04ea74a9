// SPDX-License-Identifier: MIT
// Which calls the faults layer fails, and what they left undone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cl.hpp"
#include "entries.hpp"

namespace layers::faults {

/// Counts calls, and tells which one the rule fails. Thread-safe.
class Rule {
 public:
  void reset() {
    const std::lock_guard lock(mutex_);
    calls_ = {};
    fallible_ = 0;
    armed_ = false;
  }

  void set(const char* entry, std::uint64_t nth, std::uint64_t times, cl_int status) {
    const std::lock_guard lock(mutex_);
    entry_ = entry != nullptr ? entry : "";
    first_ = nth;
    times_ = times;
    status_ = status;
    seen_ = 0;
    failed_ = 0;
    last_.clear();
    armed_ = true;
  }

  void disarm() {
    const std::lock_guard lock(mutex_);
    armed_ = false;
  }

  /// Counts one call; the status that it has to fail with.
  std::optional<cl_int> called(Entry entry, bool fallible) {
    const std::lock_guard lock(mutex_);
    ++calls_[static_cast<std::size_t>(entry)];
    if (!fallible) return std::nullopt;
    ++fallible_;
    if (!armed_ || (!entry_.empty() && entry_ != to_string(entry))) return std::nullopt;
    ++seen_;
    if (seen_ < first_ || seen_ - first_ >= times_) return std::nullopt;
    ++failed_;
    last_ = to_string(entry);
    return status_;
  }

  [[nodiscard]] std::uint64_t calls(std::string_view entry) const {
    const std::lock_guard lock(mutex_);
    if (entry.empty()) return fallible_;
    for (std::size_t i = 0; i < entry_names.size(); ++i) {
      if (entry_names[i] == entry) return calls_[i];
    }
    return 0;
  }

  [[nodiscard]] std::pair<std::uint64_t, std::string> failed() const {
    const std::lock_guard lock(mutex_);
    return {failed_, last_};
  }

 private:
  mutable std::mutex mutex_;
  std::array<std::uint64_t, entry_names.size()> calls_{};
  std::uint64_t fallible_ = 0;
  bool armed_ = false;
  std::string entry_;
  std::uint64_t first_ = 0;
  std::uint64_t times_ = 0;
  cl_int status_ = CL_SUCCESS;
  std::uint64_t seen_ = 0;
  std::uint64_t failed_ = 0;
  std::string last_;
};

/// Releases and unmaps that were failed, so that the driver's objects can be given back later. Thread-safe.
class Refused {
 public:
  void keep(std::function<void()> undone) {
    const std::lock_guard lock(mutex_);
    undone_.push_back(std::move(undone));
  }
  std::uint64_t settle() {
    std::vector<std::function<void()>> undone;
    {
      const std::lock_guard lock(mutex_);
      undone = std::exchange(undone_, {});
    }
    for (const auto& one : undone) one();
    return undone.size();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> undone_;
};

}  // namespace layers::faults
