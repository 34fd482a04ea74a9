// SPDX-License-Identifier: MIT
#include "store.hpp"

#include <berth/core/diagnostics.hpp>
#include <berth/core/process.hpp>
#include <berth/io/exact.hpp>
#include <berth/io/os_error.hpp>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "bytes.hpp"

namespace berth::inline BERTH_ABI::disk::detail {
namespace {

constexpr std::uint64_t round_up(std::uint64_t nbytes) noexcept {
  return (nbytes + Store::granularity - 1) / Store::granularity * Store::granularity;
}
constexpr std::uint64_t round_down(std::uint64_t nbytes) noexcept {
  return nbytes / Store::granularity * Store::granularity;
}

// A file that is full to the last byte leaves no room, and no wrapped size.
constexpr std::uint64_t room_behind(std::uint64_t nbytes) noexcept {
  const std::uint64_t begin = round_up(nbytes);
  return begin < io::max_file_bytes ? round_down(io::max_file_bytes - begin) : 0;
}

std::uint64_t total_bytes(int fd) noexcept {
  struct statvfs status{};
  if (::fstatvfs(fd, &status) != 0) return 0;
  return static_cast<std::uint64_t>(status.f_blocks) * status.f_frsize;
}

bool is_about_space(const Error& error) noexcept {
  return error.status() == ENOSPC || error.status() == EDQUOT || error.status() == EFBIG;
}

}  // namespace

Store::Store(Opened opened, std::uint64_t limit_bytes, bool unnamed) noexcept
    : file_(std::move(opened)),
      begin_(round_up(file_.nbytes)),
      room_(room_behind(file_.nbytes)),
      limit_(limit_bytes),
      unnamed_(unnamed),
      total_(detail::total_bytes(file_.fd.get())),
      instance_(next_instance_id()),
      file_bytes_(file_.nbytes) {}

Store::~Store() {
  if (unnamed_ || process::forked()) return;
  if (::ftruncate(fd(), static_cast<off_t>(file_.nbytes)) != 0) {
    report(io::os_error(errno, "ftruncate", backend));
  }
}

Result<void> Store::reserve(std::uint64_t first, std::uint64_t nbytes) {
  int status = 0;
  do {
    status = ::fallocate(fd(), 0, static_cast<off_t>(first), static_cast<off_t>(nbytes)) == 0 ? 0 : errno;
  } while (status == EINTR);
  if (status == 0) {
    file_bytes_ = std::max(file_bytes_, first + nbytes);
    return {};
  }
  if (status != EOPNOTSUPP && status != ENOSYS) return fail(io::os_error(status, "fallocate", backend));
  // Without a reservation the bytes are there, and the disk may turn out to be full when they are written.
  if (first + nbytes <= file_bytes_) return {};
  if (::ftruncate(fd(), static_cast<off_t>(first + nbytes)) != 0) {
    return fail(io::os_error(errno, "ftruncate", backend));
  }
  file_bytes_ = first + nbytes;
  return {};
}

Result<std::uint64_t> Store::take(std::size_t nbytes, bool zero) {
  const std::uint64_t rounded = round_up(nbytes);
  const Error full = Error(Errc::out_of_memory, backend).in("alloc").asking(nbytes);
  std::uint64_t first = 0;
  bool fresh = false;
  Result<void> ready;
  {
    const MutexLock lock(mutex_);
    const auto taken = runs_.take(rounded, std::min(limit_, room_));
    if (!taken) return fail(Error(full).limited_to(std::min(limit_, room_)).with_live(runs_.live()));
    first = begin_ + taken->first;
    fresh = taken->fresh;
    ready = reserve(first, rounded);
  }
  // What was never taken reads as zeros.
  if (ready && zero && !fresh) ready = fill_bytes(fd(), first, nbytes, std::byte{0});
  if (ready) return first;
  give_back(first);
  if (!is_about_space(ready.error())) return fail(Error(ready.error()).asking(nbytes));
  return fail(Error(full).caused_by(ready.error()));
}

bool Store::give_back(std::uint64_t first) noexcept {
  const MutexLock lock(mutex_);
  return first >= begin_ && runs_.give_back(first - begin_);
}

}  // namespace berth::inline BERTH_ABI::disk::detail
