// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <cstdint>

namespace berth::inline BERTH_ABI {

/// A run of existing bytes in an open file, as plain data. Owns nothing: the file must stay open while it is
/// used.
struct FileExtent {
  int fd = -1;               ///< descriptor open for reading
  std::uint64_t offset = 0;  ///< first byte in the file
  std::uint64_t nbytes = 0;  ///< length

  friend constexpr bool operator==(const FileExtent&, const FileExtent&) = default;
};

/// What `copy_from_disk` moved, in bytes by the path they took.
struct DiskCopy {
  std::uint64_t direct = 0;      ///< from the file straight to where the device sees them
  std::uint64_t buffered = 0;    ///< through the page cache and a staging chunk
  std::uint64_t unbuffered = 0;  ///< O_DIRECT or io_uring into a staging chunk

  [[nodiscard]] constexpr std::uint64_t total() const noexcept { return direct + buffered + unbuffered; }
  constexpr DiskCopy& operator+=(const DiskCopy& more) noexcept {
    direct += more.direct;
    buffered += more.buffered;
    unbuffered += more.unbuffered;
    return *this;
  }
  friend constexpr bool operator==(const DiskCopy&, const DiskCopy&) = default;
};

}  // namespace berth::inline BERTH_ABI
