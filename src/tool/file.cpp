// SPDX-License-Identifier: MIT
#include "file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "text.hpp"

namespace berth::tool {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

Complaint cannot(const char* what, const std::string& path, int error) {
  return complain(fmt::format("cannot {} {}: {}", what, printable(path), reason(error)));
}

const char* kind(mode_t mode) noexcept {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "something else";
}

// `pread` that goes on after a signal.
ssize_t read_some(int fd, std::span<std::byte> bytes, std::uint64_t offset) noexcept {
  ssize_t got = 0;
  do {
    got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Outcome<InputFile> InputFile::open(const std::string& path) {
  const auto irregular = [&path](mode_t mode) {
    return complain(fmt::format("{} is {}, not a regular file", printable(path), kind(mode)));
  };
  // Before `open`, which may wait for a FIFO's writer or set a device going.
  struct stat before{};
  if (::stat(path.c_str(), &before) != 0) return cannot("open", path, errno);
  if (!S_ISREG(before.st_mode)) return irregular(before.st_mode);

  InputFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.fd_ < 0) return cannot("open", path, errno);
  if (::fstat(file.fd_, &file.facts_) != 0) return cannot("examine", path, errno);
  if (!S_ISREG(file.facts_.st_mode)) return irregular(file.facts_.st_mode);

  if (file.nbytes() == 0) {
    std::array<std::byte, 1> probe{};
    const ssize_t got = read_some(file.fd_, probe, 0);
    if (got < 0) return cannot("read", path, errno);
    if (got > 0) {
      return complain(
          fmt::format("{} has bytes but no size, as the kernel's own files have; copy it to a regular file",
                      printable(path)));
    }
  }
  return file;
}

bool InputFile::changed() const noexcept {
  const auto same = [](const timespec& a, const timespec& b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
  };
  struct stat now{};
  return ::fstat(fd_, &now) != 0 || now.st_size != facts_.st_size || !same(now.st_mtim, facts_.st_mtim);
}

Outcome<InputFile::Mapped> InputFile::map(std::uint64_t offset, std::uint64_t nbytes) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t lead = offset % page;
  const std::size_t length = nbytes + lead;
  void* const memory =
      ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd_, static_cast<off_t>(offset - lead));
  if (memory == MAP_FAILED) return cannot("map", path_, errno);
  std::shared_ptr<const void> owner(memory, [length](void* mapped) { ::munmap(mapped, length); });
  return Mapped{{static_cast<const std::uint8_t*>(memory) + lead, nbytes}, std::move(owner)};
}

Outcome<void> InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = read_some(fd_, bytes, offset);
    if (got < 0) return cannot("read", path_, errno);
    if (got == 0) {
      return complain(
          fmt::format("{} ended after {} of its {}: it shrank while it was read, or its size is not true",
                      printable(path_), grouped(offset), counted(nbytes(), "byte")));
    }
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace berth::tool
