// SPDX-License-Identifier: MIT
#pragma once

#include <sys/stat.h>
#include <berth/core/file_extent.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "outcome.hpp"

namespace berth::tool {

/// A regular file, open for reading.
class InputFile {
 public:
  /// Refuses what is no regular file, and what claims to be empty and is not (files of /proc).
  [[nodiscard]] static Outcome<InputFile> open(const std::string& path);

  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), facts_(other.facts_) {}
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The size when it was opened.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return static_cast<std::uint64_t>(facts_.st_size); }

  /// Whether it is not what it was when it was opened, by its size and its times.
  [[nodiscard]] bool changed() const noexcept;

  /// A run of its bytes; this must stay open while it is used.
  [[nodiscard]] FileExtent extent(std::uint64_t offset, std::uint64_t nbytes) const noexcept {
    return {.fd = fd_, .offset = offset, .nbytes = nbytes};
  }

  /// Bytes of the file in memory, for reading.
  struct Mapped {
    std::span<const std::uint8_t> bytes;
    std::shared_ptr<const void> owner;  ///< unmaps
  };
  /// Whoever touches bytes past the end of a file that has shrunk since is killed.
  [[nodiscard]] Outcome<Mapped> map(std::uint64_t offset, std::uint64_t nbytes) const;

  /// Fills all of `bytes` from `offset` on; a file that ends before that is a complaint.
  [[nodiscard]] Outcome<void> read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(std::string path, int fd) noexcept : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  struct stat facts_{};  // when it was opened
};

}  // namespace berth::tool
