// SPDX-License-Identifier: MIT
// Files and folders of a test's own, written and read without berth.
#pragma once

#include <berth/core/file_extent.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace temporary {

/// Bytes that a seed makes, the same each time.
inline std::vector<std::byte> random_bytes(std::size_t nbytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(nbytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// A folder that goes with everything in it.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "berth-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

/// A file without a name, open for reading and writing.
class Nameless {
 public:
  explicit Nameless(std::span<const std::byte> bytes = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "berth-test-XXXXXX").string();
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    REQUIRE(fd_ >= 0);
    REQUIRE(::unlink(name.c_str()) == 0);
    write(bytes, 0);
  }
  Nameless(const Nameless&) = delete;
  Nameless& operator=(const Nameless&) = delete;
  ~Nameless() { ::close(fd_); }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::uint64_t nbytes() const {
    struct stat status{};
    REQUIRE(::fstat(fd_, &status) == 0);
    return static_cast<std::uint64_t>(status.st_size);
  }
  [[nodiscard]] berth::FileExtent extent() const { return {fd_, 0, nbytes()}; }
  [[nodiscard]] berth::FileExtent extent(std::uint64_t offset, std::uint64_t size) const {
    return {fd_, offset, size};
  }
  void write(std::span<const std::byte> bytes, std::uint64_t offset) const {
    if (bytes.empty()) return;
    REQUIRE(::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
            static_cast<ssize_t>(bytes.size()));
  }
  /// Sets the size; what is new is a hole.
  void resize(std::uint64_t size) const { REQUIRE(::ftruncate(fd_, static_cast<off_t>(size)) == 0); }

 private:
  int fd_ = -1;
};

inline void write_file(const std::string& path, std::span<const std::byte> bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  const ssize_t n = ::write(fd, bytes.data(), bytes.size());
  ::close(fd);
  REQUIRE(n == static_cast<ssize_t>(bytes.size()));
}

inline std::vector<std::byte> read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  struct stat status{};
  REQUIRE(::fstat(fd, &status) == 0);
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  const ssize_t n = ::read(fd, bytes.data(), bytes.size());
  ::close(fd);
  REQUIRE(n == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

/// Descriptors that the process has open.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace temporary
