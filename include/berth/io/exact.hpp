// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/checks.hpp>
#include <berth/core/config.hpp>
#include <berth/core/file_extent.hpp>
#include <berth/core/result.hpp>
#include <berth/io/system.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

/// Whole runs of a file, through the page cache. Thread-safe: the descriptor's own position is neither used
/// nor moved.
namespace berth::inline BERTH_ABI::io {

/// No file has a byte at this offset or behind it.
inline constexpr std::uint64_t max_file_bytes = std::numeric_limits<std::int64_t>::max();

/// `out_of_range` unless the first `nbytes` of `extent`, from `byte_offset` on, lie within it and below
/// `max_file_bytes`. Cannot wrap. `backend` and `call` are literals.
[[nodiscard]] inline Result<void> check_extent(const FileExtent& extent, std::uint64_t nbytes,
                                               std::uint64_t byte_offset, const char* backend,
                                               const char* call) noexcept {
  if (auto inside = checks::range(nbytes, byte_offset, extent.nbytes, backend, call); !inside) return inside;
  if (auto inside = checks::range(extent.nbytes, extent.offset, max_file_bytes, backend, call); !inside) {
    return inside;
  }
  return {};
}

/// Fills `dst` with the bytes of `extent` from `byte_offset` on. However many calls it takes: a signal and a
/// partial read end nothing. 0 bytes make no call.
///
/// `out_of_range` as of `check_extent`, and nothing is read. `short_read` when the file ends first, `io` when
/// the system refuses: both with the position in the file, the bytes asked and the bytes done; `dst` holds
/// the file's bytes so far and is unspecified behind them.
[[nodiscard]] BERTH_EXPORT Result<void> read_exact(const FileExtent& extent, std::uint64_t byte_offset,
                                                   std::span<std::byte> dst, const char* backend,
                                                   const System& system = posix);

/// Writes all of `src` at `offset` of an open file, which grows where it must. `io`, with the position, the
/// bytes asked and the bytes done, when the system refuses (no space, a limit, a descriptor that cannot be
/// written); `out_of_range` beyond `max_file_bytes`, and nothing is written.
[[nodiscard]] BERTH_EXPORT Result<void> write_exact(int fd, std::uint64_t offset,
                                                    std::span<const std::byte> src, const char* backend,
                                                    const System& system = posix);

}  // namespace berth::inline BERTH_ABI::io
