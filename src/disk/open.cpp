// SPDX-License-Identifier: MIT
#include "open.hpp"

#include <berth/io/os_error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace berth::inline BERTH_ABI::disk::detail {
namespace {

constexpr mode_t new_file_mode = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH;

Failure refused(const char* call, const char* why) {
  return fail(Error(Errc::invalid_argument, backend).in(call).because(why));
}

const char* reason_for(int status) noexcept {
  switch (status) {
    case ENOENT:
      return "no such file or directory";
    case EACCES:
    case EPERM:
      return "no permission";
    case EISDIR:
      return "the path is a directory";
    case EROFS:
      return "the file system is read-only";
    case EMFILE:
    case ENFILE:
      return "too many files are open";
    default:
      return "";
  }
}

Failure failed(int status, const char* call) {
  return fail(io::os_error(status, call, backend).because(reason_for(status)));
}

// Null when it is one.
const char* why_no_regular_file(mode_t mode) noexcept {
  if (S_ISREG(mode)) return nullptr;
  if (S_ISDIR(mode)) return "a directory, not a regular file";
  if (S_ISFIFO(mode)) return "a pipe or FIFO, not a regular file";
  if (S_ISSOCK(mode)) return "a socket, not a regular file";
  if (S_ISCHR(mode)) return "a character device, not a regular file";
  if (S_ISBLK(mode)) return "a block device, not a regular file";
  return "not a regular file";
}

Result<void> check_path(const std::string& path) {
  if (path.empty()) return refused("open", "the path is empty");
  if (path.find('\0') != std::string::npos) return refused("open", "the path holds a zero byte");
  return {};
}

// Takes over the descriptor of a regular file; leaves any other to the caller.
Result<Opened> take(int fd, const char* call) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return failed(errno, "fstat");
  if (const char* why = why_no_regular_file(status.st_mode)) return refused(call, why);
  return Opened{io::Descriptor(fd), static_cast<std::uint64_t>(status.st_size),
                static_cast<std::uint64_t>(status.st_dev)};
}

// Takes over the descriptor of a regular file; closes any other.
Result<Opened> take_or_close(int fd) {
  io::Descriptor owned(fd);
  auto taken = take(fd, "open");
  if (taken) static_cast<void>(owned.release());
  return taken;
}

Result<void> check_flags(int fd, Use use) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return failed(errno, "fcntl");
  const int access = flags & O_ACCMODE;
  const bool path_only = (flags & O_PATH) != 0;
  if (use != Use::write && (path_only || access == O_WRONLY))
    return refused("adopt", "the descriptor is not open for reading");
  if (use != Use::read && (path_only || access == O_RDONLY))
    return refused("adopt", "the descriptor is not open for writing");
  if (use != Use::read && (flags & O_APPEND) != 0)
    return refused("adopt", "the descriptor is open for appending (O_APPEND)");
  if ((flags & O_DIRECT) != 0)
    return refused("adopt", "the descriptor is open for direct transfers (O_DIRECT)");
  return {};
}

}  // namespace

Result<Opened> open_file(const std::string& path, int flags) {
  if (auto usable = check_path(path); !usable) return fail(usable.error());
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    if (const char* why = why_no_regular_file(status.st_mode)) return refused("open", why);
  } else if (errno != ENOENT || (flags & O_CREAT) == 0) {
    return failed(errno, "open");
  }
  // O_NONBLOCK has no meaning for a regular file; it is for what may have taken its place meanwhile.
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, new_file_mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return failed(errno, "open");
  return take_or_close(fd);
}

Result<Opened> open_unnamed(const std::string& directory) {
  if (auto usable = check_path(directory); !usable) return fail(usable.error());
  int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  // File systems without O_TMPFILE say EOPNOTSUPP, kernels without it EISDIR (open(2)).
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string name = directory + "/berth-XXXXXX";
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0 && ::unlink(name.c_str()) != 0) {
      const io::Descriptor closed(fd);
      return failed(errno, "unlink");
    }
  }
  if (fd < 0) return failed(errno, "open");
  return take_or_close(fd);
}

Result<Opened> adopt_file(int fd, Use use) {
  if (auto suits = check_flags(fd, use); !suits) return fail(suits.error());
  return take(fd, "adopt");
}

Result<Opened> borrow_file(int fd, Use use) {
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return failed(errno, "fcntl");
  io::Descriptor duplicate(own);
  auto taken = adopt_file(own, use);
  if (taken) static_cast<void>(duplicate.release());
  return taken;
}

}  // namespace berth::inline BERTH_ABI::disk::detail
