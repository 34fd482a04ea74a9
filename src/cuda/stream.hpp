// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/result.hpp>
#include <berth/cuda/abi.hpp>

#include <cstdint>

namespace berth::inline BERTH_ABI::cuda::detail {

class Context;

// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: handles that are no addresses.
inline constexpr std::uintptr_t legacy_stream = 1;
inline constexpr std::uintptr_t per_thread_stream = 2;

/// The stream under a handle that is not null: the legacy default stream has two names.
[[nodiscard]] inline abi::Stream named(abi::Stream stream) noexcept {
  return stream != nullptr ? stream : reinterpret_cast<abi::Stream>(legacy_stream);
}

[[nodiscard]] inline bool is_default(abi::Stream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) <= per_thread_stream;
}

[[nodiscard]] inline bool is_per_thread(abi::Stream stream) noexcept {
  return reinterpret_cast<std::uintptr_t>(stream) == per_thread_stream;
}

/// `invalid_argument` unless the stream is one of the context's, which is current.
[[nodiscard]] Result<void> check_stream(const Context& context, abi::Stream stream, const char* call);

}  // namespace berth::inline BERTH_ABI::cuda::detail
