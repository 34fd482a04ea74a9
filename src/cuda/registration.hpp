// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/result.hpp>
#include <berth/cuda/abi.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "context.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

struct Pin;

/// Host memory that the driver has pinned and a context's device reaches (`cuMemHostRegister`). Parts of what
/// berth registered share its registration, which ends with the last of them; memory that somebody else
/// pinned is used as it is, and stays theirs. Move-only, thread-safe.
class Registration {
 public:
  struct Request {
    std::span<std::byte> bytes;  ///< not empty
    bool read_only;              ///< the device only reads it
    std::size_t chunk_bytes;     ///< of which one call of the driver's registers at most; whole pages
  };

  Registration() = default;
  /// The context must be current. `overlap` when somebody's registration covers some of the bytes and not
  /// all, or is for reading only; `unsupported` when the driver registers no such memory, or the addresses of
  /// its chunks do not join. Nothing of what failed stays registered.
  [[nodiscard]] static Result<Registration> take(std::shared_ptr<const Context> context,
                                                 const Request& request);

  Registration(Registration&& other) noexcept
      : pin_(std::exchange(other.pin_, nullptr)), address_(other.address_) {}
  Registration& operator=(Registration&& other) noexcept {
    Registration moved(std::move(other));
    std::swap(pin_, moved.pin_);
    std::swap(address_, moved.address_);
    return *this;
  }
  ~Registration() { static_cast<void>(release()); }

  /// Gives it up. False when the memory stays registered although nobody uses it: the driver did not let go.
  [[nodiscard]] bool release() noexcept;
  /// Where the context's device sees the memory.
  [[nodiscard]] abi::DevicePtr address() const noexcept { return address_; }
  /// The device may use the memory for ever: its registration does not end.
  void keep() noexcept { pin_ = nullptr; }

 private:
  Registration(Pin* pin, abi::DevicePtr address) noexcept : pin_(pin), address_(address) {}

  Pin* pin_ = nullptr;  // null when it is somebody else's
  abi::DevicePtr address_ = 0;
};

/// Registrations of berth's that are alive, or in the making.
extern std::atomic<std::size_t> live_registrations;

/// How many of `nbytes` at `host` lie before the next border of a registered chunk.
[[nodiscard]] std::size_t before_border(const void* host, std::size_t nbytes) noexcept;

/// Calls `copy(byte_offset, nbytes)` for each piece of a copy between two places, given as the host sees them
/// and null where it does not: a call of the driver's moves bytes of one registration, or of none. Stops at
/// the first failure.
template <class Copy>
[[nodiscard]] Result<void> in_pieces(const void* a, const void* b, std::size_t nbytes, Copy copy) {
  const auto piece = [&](std::size_t done) {
    std::size_t size = nbytes - done;
    if (live_registrations.load(std::memory_order_acquire) == 0) [[likely]]
      return size;
    for (const void* const host : {a, b}) {
      if (host != nullptr) size = before_border(static_cast<const std::byte*>(host) + done, size);
    }
    return size;
  };
  for (std::size_t done = 0; done < nbytes;) {
    const std::size_t size = piece(done);
    if (auto copied = copy(done, size); copied) {
      done += size;
    } else if (copied.error().status() != abi::invalid_value || piece(done) >= size) {
      return copied;
    }  // else another thread has begun to register the memory since: once more, in smaller pieces
  }
  return {};
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
