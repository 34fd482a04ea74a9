// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/disk/file.hpp>

#include <fcntl.h>

#include "open.hpp"

namespace berth::inline BERTH_ABI::disk {

using detail::backend;

Result<File> File::open(const std::string& path) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::open_file(path, O_RDONLY);
  if (!opened) return fail(opened.error());
  return File(std::move(opened->fd), opened->nbytes);
}

Result<File> File::adopt(int fd) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::adopt_file(fd, detail::Use::read);
  if (!opened) return fail(opened.error());
  return File(std::move(opened->fd), opened->nbytes);
}

Result<File> File::borrow(int fd) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::borrow_file(fd, detail::Use::read);
  if (!opened) return fail(opened.error());
  return File(std::move(opened->fd), opened->nbytes);
}

Result<FileExtent> File::extent(std::uint64_t byte_offset, std::uint64_t nbytes) const {
  if (auto inside = checks::range(nbytes, byte_offset, nbytes_, backend, "extent"); !inside) {
    return fail(inside.error());
  }
  return FileExtent{fd_.get(), byte_offset, nbytes};
}

}  // namespace berth::inline BERTH_ABI::disk
