// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <span>

#include "context.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

// A copy of memory that the driver does not know as pinned may be asynchronous in part; one of pinned memory
// is wholly (CUDA driver API, "API synchronization behavior"). Waiting for the stream is right for both. The
// context must be current.

/// Waits for a copy on `stream`. Nothing touches the host's side of it afterwards, even if the wait fails.
[[nodiscard]] inline Result<void> finish_copy(const Context& context, abi::Stream stream) noexcept {
  const Driver& driver = context.driver;
  auto done = context.check(driver.stream_synchronize(stream), "cuStreamSynchronize");
  if (!done && !context.lost()) context.told(driver.ctx_synchronize(), "cuCtxSynchronize");
  return done;
}

/// Host to device, done on return.
[[nodiscard]] inline Result<void> copy_in(const Context& context, abi::Stream stream, abi::DevicePtr dest,
                                          std::span<const std::byte> src) noexcept {
  const Driver& driver = context.driver;
  if (auto queued =
          context.check(driver.memcpy_htod_async(dest, src.data(), src.size(), stream), "cuMemcpyHtoDAsync");
      !queued) {
    return queued;
  }
  return finish_copy(context, stream);
}

/// Device to host, done on return.
[[nodiscard]] inline Result<void> copy_out(const Context& context, abi::Stream stream,
                                           std::span<std::byte> dest, abi::DevicePtr src) noexcept {
  const Driver& driver = context.driver;
  if (auto queued =
          context.check(driver.memcpy_dtoh_async(dest.data(), src, dest.size(), stream), "cuMemcpyDtoHAsync");
      !queued) {
    return queued;
  }
  return finish_copy(context, stream);
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
