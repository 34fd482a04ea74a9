// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/file_extent.hpp>
#include <berth/core/result.hpp>
#include <berth/io/exact.hpp>
#include <berth/io/os_error.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <utility>

namespace berth::inline BERTH_ABI::testing {

/// A file without a name, for laws that need one; gone in the end.
class ScratchFile {
 public:
  /// `io` when there is no place for temporary files.
  [[nodiscard]] static Result<ScratchFile> holding(std::span<const std::byte> bytes) {
    std::FILE* const stream = std::tmpfile();
    if (stream == nullptr) return fail(io::os_error(errno, "tmpfile", "testing"));
    ScratchFile file(stream, bytes.size());
    if (auto written = file.write(bytes, 0); !written) return fail(written.error());
    return file;
  }

  /// Everything that it held at first.
  [[nodiscard]] FileExtent extent() const noexcept { return extent(0, nbytes_); }
  [[nodiscard]] FileExtent extent(std::uint64_t byte_offset, std::uint64_t nbytes) const noexcept {
    return {::fileno(stream_.get()), byte_offset, nbytes};
  }
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes, std::uint64_t byte_offset) const {
    return io::write_exact(extent().fd, byte_offset, bytes, "testing");
  }
  /// Leaves the first `nbytes`; extents stay as they were.
  [[nodiscard]] Result<void> truncate(std::uint64_t nbytes) const {
    if (::ftruncate(extent().fd, static_cast<off_t>(nbytes)) == 0) return {};
    return fail(io::os_error(errno, "ftruncate", "testing"));
  }

 private:
  struct Close {
    void operator()(std::FILE* stream) const noexcept { std::fclose(stream); }
  };
  ScratchFile(std::FILE* stream, std::uint64_t nbytes) noexcept : stream_(stream), nbytes_(nbytes) {}

  std::unique_ptr<std::FILE, Close> stream_;
  std::uint64_t nbytes_;
};

}  // namespace berth::inline BERTH_ABI::testing
