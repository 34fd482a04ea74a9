// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/result.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace berth::inline BERTH_ABI {

/// A claim on a range of host memory that is linked to a device. Two devices, or two buffers of one, over the
/// same bytes are undefined (OpenCL 3.0, 5.2.1, CL_MEM_USE_HOST_PTR), so claims are process-wide and never
/// overlap, across backends. Adjacent ranges are fine. Move-only; destruction gives the range up.
/// Thread-safe.
class [[nodiscard]] HostRange {
 public:
  HostRange() = default;
  /// Claims `bytes`; `Errc::overlap` with the address and size of the live claim in the way. `backend` is a
  /// literal.
  [[nodiscard]] BERTH_EXPORT static Result<HostRange> claim(std::span<const std::byte> bytes,
                                                            const char* backend);

  HostRange(HostRange&& other) noexcept : begin_(std::exchange(other.begin_, nullptr)) {}
  HostRange& operator=(HostRange&& other) noexcept {
    HostRange moved(std::move(other));
    std::swap(begin_, moved.begin_);
    return *this;
  }
  ~HostRange() {
    if (begin_ != nullptr) give_up();
  }

  explicit operator bool() const noexcept { return begin_ != nullptr; }

  /// Leaves the range claimed for good, for when a device may touch it for ever. Empty afterwards.
  void keep_claimed() noexcept { begin_ = nullptr; }

 private:
  explicit HostRange(const std::byte* begin) noexcept : begin_(begin) {}
  BERTH_EXPORT void give_up() noexcept;

  const std::byte* begin_ = nullptr;
};

}  // namespace berth::inline BERTH_ABI
