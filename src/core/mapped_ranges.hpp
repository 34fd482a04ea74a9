// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mutex.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

namespace berth::inline BERTH_ABI::detail {

/// The parts of one allocation that the host has mapped. Thread-safe; asking costs one load while there are
/// none. Byte offsets are from the start of the allocation.
class MappedRanges {
 public:
  /// Enters a range; false when it overlaps one that is live.
  [[nodiscard]] bool begin(std::size_t byte_offset, std::size_t nbytes, bool writes) BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    for (const Range& live : ranges_) {
      if (live.meets(byte_offset, nbytes)) return false;
    }
    ranges_.push_back({byte_offset, nbytes, writes});
    count_.store(ranges_.size(), std::memory_order_release);
    return true;
  }
  void end(std::size_t byte_offset, std::size_t nbytes) noexcept BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto ended = std::ranges::find_if(
        ranges_, [&](const Range& live) { return live.byte_offset == byte_offset && live.nbytes == nbytes; });
    if (ended != ranges_.end()) ranges_.erase(ended);
    count_.store(ranges_.size(), std::memory_order_release);
  }
  /// Whether a command that reads, or writes, the range would meet a map: one that writes, or, for a command
  /// that writes, any.
  [[nodiscard]] bool forbids(std::size_t byte_offset, std::size_t nbytes, bool writes) const noexcept
      BERTH_EXCLUDES(mutex_) {
    if (empty()) [[likely]]
      return false;
    const MutexLock lock(mutex_);
    return std::ranges::any_of(ranges_, [&](const Range& live) {
      return (writes || live.writes) && live.meets(byte_offset, nbytes);
    });
  }
  [[nodiscard]] bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }

 private:
  struct Range {
    std::size_t byte_offset;
    std::size_t nbytes;
    bool writes;
    [[nodiscard]] bool meets(std::size_t from, std::size_t size) const noexcept {
      return from < byte_offset + nbytes && byte_offset < from + size;
    }
  };

  mutable Mutex mutex_;
  std::vector<Range> ranges_ BERTH_GUARDED_BY(mutex_);
  std::atomic<std::size_t> count_{0};
};

}  // namespace berth::inline BERTH_ABI::detail
