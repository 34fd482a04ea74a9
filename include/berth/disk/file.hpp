// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/file_extent.hpp>
#include <berth/core/result.hpp>
#include <berth/io/descriptor.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace berth::inline BERTH_ABI::disk {

/// An existing regular file, open for reading; never created, never grown. Its extents are valid while it is
/// open. Holds the size that the file had when it was opened: what a file grows later is seen by opening it
/// anew, and one that shrinks gives `short_read`. Move-only; closed in the end. Its const members may be
/// called on several threads.
class BERTH_EXPORT File {
 public:
  /// `io` with the system's status when there is none, or no permission; `invalid_argument`, with what it is,
  /// when the path is no regular file (directory, FIFO, device, socket). Symbolic links are followed.
  [[nodiscard]] static Result<File> open(const std::string& path);
  /// Takes over a descriptor of the caller's; on failure the caller keeps it. It must be of a regular file,
  /// readable, and without O_DIRECT, whose rules of alignment extents do not know: else `invalid_argument`.
  [[nodiscard]] static Result<File> adopt(int fd);
  /// The same, with a duplicate of its own.
  [[nodiscard]] static Result<File> borrow(int fd);

  File(File&& other) noexcept : fd_(std::move(other.fd_)), nbytes_(std::exchange(other.nbytes_, 0)) {}
  File& operator=(File&& other) noexcept {
    File moved(std::move(other));
    std::swap(fd_, moved.fd_);
    std::swap(nbytes_, moved.nbytes_);
    return *this;
  }

  [[nodiscard]] std::uint64_t nbytes() const noexcept { return nbytes_; }
  /// All of it.
  [[nodiscard]] FileExtent extent() const noexcept { return {fd_.get(), 0, nbytes_}; }
  /// A part; `out_of_range` beyond `nbytes()`.
  [[nodiscard]] Result<FileExtent> extent(std::uint64_t byte_offset, std::uint64_t nbytes) const;

 private:
  File(io::Descriptor fd, std::uint64_t nbytes) noexcept : fd_(std::move(fd)), nbytes_(nbytes) {}

  io::Descriptor fd_;
  std::uint64_t nbytes_;
};

}  // namespace berth::inline BERTH_ABI::disk
