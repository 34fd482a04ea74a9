// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/identity.hpp>
#include <berth/core/mutex.hpp>
#include <berth/core/result.hpp>

#include <cstddef>
#include <cstdint>

#include "first_fit.hpp"
#include "open.hpp"

namespace berth::inline BERTH_ABI::disk::detail {

/// A scratch file and which of its bytes are taken. Thread-safe.
class Store {
 public:
  static constexpr std::uint64_t granularity = 4096;

  /// Space behind the bytes that the file holds, at most `limit_bytes` of it. The file is cut back to what it
  /// held when this goes, unless `unnamed`, since then it goes too.
  Store(Opened opened, std::uint64_t limit_bytes, bool unnamed) noexcept;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  [[nodiscard]] int fd() const noexcept { return file_.fd.get(); }
  [[nodiscard]] InstanceId instance() const noexcept { return instance_; }
  [[nodiscard]] std::uint64_t device() const noexcept { return file_.device; }
  /// The largest run that a file has room for.
  [[nodiscard]] std::uint64_t max_bytes() const noexcept { return room_; }
  /// Bytes of the file system; 0 when it does not say.
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return total_; }

  /// The first byte, in the file, of `nbytes` that are the caller's now; `nbytes` is more than 0 and at most
  /// `max_bytes()`. They exist, so that reading them is no short read, and have their place on the disk where
  /// the file system can reserve it. `out_of_memory` when they do not.
  [[nodiscard]] Result<std::uint64_t> take(std::size_t nbytes, bool zero) BERTH_EXCLUDES(mutex_);
  /// False when no run of the caller's begins there.
  bool give_back(std::uint64_t first) noexcept BERTH_EXCLUDES(mutex_);

 private:
  Result<void> reserve(std::uint64_t first, std::uint64_t nbytes) BERTH_REQUIRES(mutex_);

  const Opened file_;
  const std::uint64_t begin_;  // of the space, in the file
  const std::uint64_t room_;
  const std::uint64_t limit_;
  const bool unnamed_;
  const std::uint64_t total_;
  const InstanceId instance_;
  Mutex mutex_;
  FirstFit runs_ BERTH_GUARDED_BY(mutex_);             // from begin_ on
  std::uint64_t file_bytes_ BERTH_GUARDED_BY(mutex_);  // how large the file was made
};

}  // namespace berth::inline BERTH_ABI::disk::detail
