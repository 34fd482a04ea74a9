// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "context.hpp"
#include "registration.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

// A copy of memory that the driver does not know as pinned may be asynchronous in part; one of pinned memory
// is wholly (CUDA driver API, "API synchronization behavior"). Waiting for the stream is right for both. The
// context must be current.

/// Waits for a copy on `stream`. If the wait fails, for the whole context: a driver that answers to neither
/// is not copying.
[[nodiscard]] inline Result<void> finish_copy(const Context& context, abi::Stream stream) noexcept {
  const Driver& driver = context.driver;
  auto done = context.check(driver.stream_synchronize(stream), "cuStreamSynchronize");
  if (!done && !context.lost()) context.told(driver.ctx_synchronize(), "cuCtxSynchronize");
  return done;
}

/// Memory as the device sees it, and where the host does; null where it does not.
struct Place {
  abi::DevicePtr address;
  const std::byte* host;
};

/// Host to device, done on return.
[[nodiscard]] inline Result<void> copy_in(const Context& context, abi::Stream stream, Place dest,
                                          std::span<const std::byte> src) noexcept {
  const auto queued =
      in_pieces(dest.host, src.data(), src.size(), [&](std::size_t byte_offset, std::size_t nbytes) {
        return context.check(context.driver.memcpy_htod_async(dest.address + byte_offset,
                                                              src.data() + byte_offset, nbytes, stream),
                             "cuMemcpyHtoDAsync");
      });
  const auto done = finish_copy(context, stream);
  return queued ? done : queued;
}

/// Device to host, done on return.
[[nodiscard]] inline Result<void> copy_out(const Context& context, abi::Stream stream,
                                           std::span<std::byte> dest, Place src) noexcept {
  const auto queued =
      in_pieces(src.host, dest.data(), dest.size(), [&](std::size_t byte_offset, std::size_t nbytes) {
        return context.check(context.driver.memcpy_dtoh_async(dest.data() + byte_offset,
                                                              src.address + byte_offset, nbytes, stream),
                             "cuMemcpyDtoHAsync");
      });
  const auto done = finish_copy(context, stream);
  return queued ? done : queued;
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
