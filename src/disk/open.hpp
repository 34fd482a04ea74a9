// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/result.hpp>
#include <berth/io/descriptor.hpp>

#include <cstdint>
#include <string>

namespace berth::inline BERTH_ABI::disk::detail {

inline constexpr const char* backend = "disk";

/// A regular file, open.
struct Opened {
  io::Descriptor fd;
  std::uint64_t nbytes = 0;
  std::uint64_t device = 0;  ///< of the file system that it is on (`st_dev`)
};

/// What the descriptor must allow.
enum class Use : std::uint8_t { read, write, read_and_write };

/// Opens a path with `flags` of open(2). What exists must be a regular file: nothing else is even opened,
/// since opening a FIFO waits and opening a device may do something.
[[nodiscard]] Result<Opened> open_file(const std::string& path, int flags);

/// A new file without a name in that directory, for reading and writing.
[[nodiscard]] Result<Opened> open_unnamed(const std::string& directory);

/// Takes over a descriptor that suits; on failure the caller keeps it.
[[nodiscard]] Result<Opened> adopt_file(int fd, Use use);

/// The same, with a duplicate.
[[nodiscard]] Result<Opened> borrow_file(int fd, Use use);

}  // namespace berth::inline BERTH_ABI::disk::detail
