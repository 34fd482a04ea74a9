// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <sys/types.h>

#include <cstddef>

namespace berth::inline BERTH_ABI::io {

/// The calls with which files are read and written, as POSIX has them: what was done, or -1 and `errno`. A
/// table, so that a test can hand in a system that interrupts, falls short or fails.
struct System {
  ssize_t (*pread)(int fd, void* bytes, std::size_t nbytes, off_t offset);
  ssize_t (*pwrite)(int fd, const void* bytes, std::size_t nbytes, off_t offset);
};

/// The operating system's own.
BERTH_EXPORT extern const System posix;

}  // namespace berth::inline BERTH_ABI::io
