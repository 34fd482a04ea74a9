// SPDX-License-Identifier: MIT
#include <berth/io/exact.hpp>
#include <berth/io/os_error.hpp>

#include <algorithm>
#include <cerrno>

namespace berth::inline BERTH_ABI::io {
namespace {

// Linux moves at most 0x7ffff000 bytes a call; what other systems do above SSIZE_MAX is their own.
constexpr std::size_t most_at_once = std::size_t{1} << 30U;

// Calls `step(bytes done, bytes to do now)` until `nbytes` are done. The error has the numbers.
template <class Step>
Result<void> repeat(std::size_t nbytes, std::uint64_t position, const char* call, const char* backend,
                    const Error& at_the_end, Step step) {
  for (std::size_t done = 0; done < nbytes;) {
    const ssize_t n = step(done, std::min(nbytes - done, most_at_once));
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      const Error error = n == 0 ? at_the_end : os_error(errno, call, backend);
      return fail(Error(error).asking(nbytes).at(position).after(done));
    }
  }
  return {};
}

}  // namespace

Result<void> read_exact(const FileExtent& extent, std::uint64_t byte_offset, std::span<std::byte> dst,
                        const char* backend, const System& system) {
  constexpr const char* call = "pread";
  if (auto inside = check_extent(extent, dst.size(), byte_offset, backend, call); !inside) return inside;
  const std::uint64_t position = extent.offset + byte_offset;
  return repeat(dst.size(), position, call, backend, Error(Errc::short_read, backend).in(call),
                [&](std::size_t done, std::size_t nbytes) {
                  return system.pread(extent.fd, dst.data() + done, nbytes,
                                      static_cast<off_t>(position + done));
                });
}

Result<void> write_exact(int fd, std::uint64_t offset, std::span<const std::byte> src, const char* backend,
                         const System& system) {
  constexpr const char* call = "pwrite";
  if (auto inside = checks::range(src.size(), offset, max_file_bytes, backend, call); !inside) return inside;
  return repeat(src.size(), offset, call, backend,
                Error(Errc::io, backend).in(call).because("the file takes no more bytes"),
                [&](std::size_t done, std::size_t nbytes) {
                  return system.pwrite(fd, src.data() + done, nbytes, static_cast<off_t>(offset + done));
                });
}

}  // namespace berth::inline BERTH_ABI::io
