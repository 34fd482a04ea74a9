// SPDX-License-Identifier: MIT
#include "bytes.hpp"

#include <berth/io/exact.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "open.hpp"

namespace berth::inline BERTH_ABI::disk::detail {
namespace {

constexpr std::size_t piece_bytes = std::size_t{64} << 10U;

// The bytes that the kernel copied by itself. It need not: it may lack the call, or refuse these two files;
// and where it fails, reading and writing tell better why.
std::uint64_t copy_in_kernel(int fd, std::uint64_t position, const FileExtent& source) noexcept {
  std::uint64_t done = 0;
  while (done < source.nbytes) {
    auto from = static_cast<off64_t>(source.offset + done);
    auto to = static_cast<off64_t>(position + done);
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(source.nbytes - done, 1U << 30U));
    const ssize_t n = ::copy_file_range(source.fd, &from, fd, &to, most, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::uint64_t>(n);
  }
  return done;
}

// The error of one piece, with the numbers of the whole.
Failure failed(const Error& error, std::uint64_t asked, std::uint64_t before, std::uint64_t done) {
  return fail(Error(error).asking(asked).after(before + done));
}

}  // namespace

Result<void> fill_bytes(int fd, std::uint64_t position, std::uint64_t nbytes, std::byte value) {
  std::array<std::byte, piece_bytes> bytes;
  bytes.fill(value);
  for (std::uint64_t done = 0; done < nbytes;) {
    const auto piece = std::span(bytes).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), nbytes - done)));
    if (auto written = io::write_exact(fd, position + done, piece, backend); !written) {
      return failed(written.error(), nbytes, done, written.error().done().value_or(0));
    }
    done += piece.size();
  }
  return {};
}

Result<void> copy_bytes(int fd, std::uint64_t position, const FileExtent& source) {
  std::array<std::byte, piece_bytes> bytes;
  for (std::uint64_t done = copy_in_kernel(fd, position, source); done < source.nbytes;) {
    const auto piece = std::span(bytes).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), source.nbytes - done)));
    const auto read = io::read_exact(source, done, piece, backend);
    const auto got = read ? piece.size() : static_cast<std::size_t>(read.error().done().value_or(0));
    if (auto written = io::write_exact(fd, position + done, piece.first(got), backend); !written) {
      return failed(written.error(), source.nbytes, done, written.error().done().value_or(0));
    }
    if (!read) return failed(read.error(), source.nbytes, done, got);
    done += piece.size();
  }
  return {};
}

}  // namespace berth::inline BERTH_ABI::disk::detail
