// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/file_extent.hpp>
#include <berth/core/result.hpp>

#include <cstddef>
#include <cstdint>

namespace berth::inline BERTH_ABI::disk::detail {

/// Writes `nbytes` of one value at `position` of an open file. Errors as of `io::write_exact`.
[[nodiscard]] Result<void> fill_bytes(int fd, std::uint64_t position, std::uint64_t nbytes, std::byte value);

/// Copies all of `source` to `position` of an open file, within the kernel where it can. The two must not
/// overlap. Errors as of `io::read_exact` and `io::write_exact`.
[[nodiscard]] Result<void> copy_bytes(int fd, std::uint64_t position, const FileExtent& source);

}  // namespace berth::inline BERTH_ABI::disk::detail
