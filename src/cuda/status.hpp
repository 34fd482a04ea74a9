// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/error.hpp>
#include <berth/core/result.hpp>
#include <berth/cuda/driver.hpp>

#include <cstdint>

namespace berth::inline BERTH_ABI::cuda {

inline constexpr const char* backend = "cuda";

/// What a status says of calls to come.
enum class Damage : std::uint8_t {
  none,
  context,  ///< the context is gone
  process,  ///< no context of the process works again
};

/// cuda.h says of most statuses of faults that the process must be terminated; of uncorrectable ECC and
/// NVLink errors it does not say, and they are taken for such.
[[nodiscard]] Damage damage(abi::Status status) noexcept;
[[nodiscard]] inline bool sticky(abi::Status status) noexcept { return damage(status) != Damage::none; }

/// The error for a status other than success. `call` is the entry point, a literal.
[[nodiscard]] Error error(const Driver& driver, abi::Status status, const char* call) noexcept;

/// Success, or the error.
[[nodiscard]] inline Result<void> check(const Driver& driver, abi::Status status, const char* call) noexcept {
  if (status == abi::success) [[likely]]
    return {};
  return fail(error(driver, status, call));
}

}  // namespace berth::inline BERTH_ABI::cuda
