// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/disk/writable_file.hpp>
#include <berth/io/exact.hpp>
#include <berth/io/os_error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

#include "open.hpp"

namespace berth::inline BERTH_ABI::disk {
namespace {

using detail::backend;

// The most that is held in host memory, or mapped, at a time.
constexpr std::size_t piece_bytes = std::size_t{4} << 20U;
constexpr std::size_t mapped_bytes = std::size_t{64} << 20U;

int flags_for(WriteMode mode) noexcept {
  switch (mode) {
    case WriteMode::existing:
      return O_WRONLY;
    case WriteMode::create:
      return O_WRONLY | O_CREAT;
    case WriteMode::replace:
      return O_WRONLY | O_CREAT | O_TRUNC;
  }
  return O_WRONLY;
}

// Hands `step(nbytes, byte_offset)` one piece of `nbytes` after the other. The error has the numbers of the
// whole.
template <class Step>
Result<void> in_pieces(std::size_t nbytes, std::size_t piece, Step step) {
  for (std::size_t done = 0; done < nbytes;) {
    const std::size_t now = std::min(piece, nbytes - done);
    if (const Result<void> moved = step(now, done); !moved) {
      return fail(Error(moved.error()).asking(nbytes).after(done + moved.error().done().value_or(0)));
    }
    done += now;
  }
  return {};
}

// From the bytes themselves, which the host sees.
Result<void> write_mapped(int fd, std::uint64_t position, const Buffer& buf) {
  PackedAllocator allocator = buf.allocator();
  return in_pieces(buf.nbytes(), mapped_bytes, [&](std::size_t nbytes, std::size_t at) -> Result<void> {
    auto mapping = allocator.map(buf.handle(), Access::read, nbytes, at);
    if (!mapping) return fail(mapping.error());
    const auto written = io::write_exact(fd, position + at, mapping->bytes(), backend);
    const auto unmapped = mapping->unmap();
    return written ? unmapped : written;
  });
}

// Through host memory: all at once where there are no views, since a copy is a prefix.
Result<void> write_copied(int fd, std::uint64_t position, const Buffer& buf) {
  PackedAllocator allocator = buf.allocator();
  const bool views = allocator.supports_offset();
  const std::size_t piece = views ? std::min(piece_bytes, buf.nbytes()) : buf.nbytes();
  const std::unique_ptr<std::byte[]> host(new (std::nothrow) std::byte[piece]);
  if (!host) return fail(Error(Errc::out_of_memory, "host").in("write").asking(piece));
  return in_pieces(buf.nbytes(), piece, [&](std::size_t nbytes, std::size_t at) -> Result<void> {
    const std::span<std::byte> bytes(host.get(), nbytes);
    if (views) {
      const auto part = allocator.offset(buf.handle(), nbytes, at);
      if (!part) return fail(part.error());
      if (auto copied = allocator.copyout(bytes, *part); !copied) return copied;
    } else if (auto copied = allocator.copyout(bytes, buf.handle()); !copied) {
      return copied;
    }
    return io::write_exact(fd, position + at, bytes, backend);
  });
}

}  // namespace

Result<WritableFile> WritableFile::open(const std::string& path, WriteMode mode) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::open_file(path, flags_for(mode));
  if (!opened) return fail(opened.error());
  return WritableFile(std::move(opened->fd));
}

Result<WritableFile> WritableFile::adopt(int fd) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::adopt_file(fd, detail::Use::write);
  if (!opened) return fail(opened.error());
  return WritableFile(std::move(opened->fd));
}

Result<WritableFile> WritableFile::borrow(int fd) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::borrow_file(fd, detail::Use::write);
  if (!opened) return fail(opened.error());
  return WritableFile(std::move(opened->fd));
}

Result<void> WritableFile::write(const Buffer& buf, std::uint64_t byte_offset) const {
  constexpr const char* call = "write";
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (buf.empty())
    return fail(Error(Errc::invalid_argument, backend).in(call).because("the Buffer is empty"));
  if (auto inside = checks::range(buf.nbytes(), byte_offset, io::max_file_bytes, backend, call); !inside) {
    return inside;
  }
  if (buf.nbytes() == 0) return {};
  const bool mapped = buf.allocator().info().shares_host_memory && buf.allocator().supports_map();
  return mapped ? write_mapped(fd_.get(), byte_offset, buf) : write_copied(fd_.get(), byte_offset, buf);
}

Result<void> WritableFile::sync() const {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (::fdatasync(fd_.get()) == 0) return {};
  return fail(io::os_error(errno, "fdatasync", backend));
}

}  // namespace berth::inline BERTH_ABI::disk
