// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <utility>

namespace berth::inline BERTH_ABI::io {

/// Owns one file descriptor and closes it in the end. Move-only; -1 when empty.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Descriptor moved(std::move(other));
    std::swap(fd_, moved.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close();
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  /// Gives the descriptor up without closing it.
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  BERTH_EXPORT void close() noexcept;

  int fd_ = -1;
};

}  // namespace berth::inline BERTH_ABI::io
