// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/buffer.hpp>
#include <berth/core/config.hpp>
#include <berth/core/result.hpp>
#include <berth/io/descriptor.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace berth::inline BERTH_ABI::disk {

/// What `WritableFile::open` does with what is there.
enum class WriteMode : std::uint8_t {
  existing,  ///< the file must exist; its bytes stay
  create,    ///< made when it does not exist; the bytes of one that does stay
  replace,   ///< made when it does not exist, emptied when it does
};

/// A regular file, open for writing, to save buffers in. Move-only; closed in the end. `write` may be called
/// on several threads, for ranges that do not overlap.
class BERTH_EXPORT WritableFile {
 public:
  /// Errors as of `File::open`. A file that is made can be read and written by all whom the umask lets.
  [[nodiscard]] static Result<WritableFile> open(const std::string& path,
                                                 WriteMode mode = WriteMode::existing);
  /// Takes over a descriptor of the caller's; on failure the caller keeps it. It must be of a regular file,
  /// writable, without O_DIRECT, and without O_APPEND, under which Linux writes at the end whatever the
  /// offset: else `invalid_argument`.
  [[nodiscard]] static Result<WritableFile> adopt(int fd);
  /// The same, with a duplicate of its own.
  [[nodiscard]] static Result<WritableFile> borrow(int fd);

  /// Saves all of `buf` at `byte_offset` of the file, after the work queued so far on the buffer's queue. The
  /// file grows where it must; a gap before `byte_offset` reads as zeros. Takes bounded host memory where
  /// `buf` has views. `io`, with the bytes asked and done, when the system takes less (no space, a limit):
  /// what the file holds in the rest of the range is then unspecified. A failure of the buffer's allocator is
  /// passed on with the same numbers.
  [[nodiscard]] Result<void> write(const Buffer& buf, std::uint64_t byte_offset) const;
  /// Returns when what was written is on the disk (`fdatasync`). Some systems find out only here that they
  /// could not write.
  [[nodiscard]] Result<void> sync() const;

 private:
  explicit WritableFile(io::Descriptor fd) noexcept : fd_(std::move(fd)) {}

  io::Descriptor fd_;
};

}  // namespace berth::inline BERTH_ABI::disk
