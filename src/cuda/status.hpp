// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/error.hpp>
#include <berth/core/result.hpp>
#include <berth/cuda/driver.hpp>

namespace berth::inline BERTH_ABI::cuda {

inline constexpr const char* backend = "cuda";

/// Whether the status leaves the context unusable for good: "the process must be terminated and relaunched",
/// as cuda.h puts it.
[[nodiscard]] bool sticky(abi::Status status) noexcept;

/// The error for a status other than success. `call` is the entry point, a literal.
[[nodiscard]] Error error(const Driver& driver, abi::Status status, const char* call) noexcept;

/// Success, or the error.
[[nodiscard]] inline Result<void> check(const Driver& driver, abi::Status status, const char* call) noexcept {
  if (status == abi::success) [[likely]]
    return {};
  return fail(error(driver, status, call));
}

}  // namespace berth::inline BERTH_ABI::cuda
