// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/error.hpp>
#include <berth/core/process.hpp>
#include <berth/core/result.hpp>

#include "cl.hpp"

namespace berth::inline BERTH_ABI::opencl {

inline constexpr const char* backend = "opencl";

/// What was being done, since some statuses mean different things: CL_OUT_OF_RESOURCES is "no memory" when
/// memory is made, and a lost device when data moves.
enum class Doing : unsigned char { allocating, moving, other };

/// The constant's name; empty for an unknown one.
[[nodiscard]] const char* status_name(cl_int status) noexcept;

/// The error for a status other than CL_SUCCESS. `call` is the entry point, a literal.
[[nodiscard]] Error error(cl_int status, const char* call, Doing doing = Doing::other) noexcept;

/// Success, or the error.
[[nodiscard]] inline Result<void> check(cl_int status, const char* call,
                                        Doing doing = Doing::other) noexcept {
  if (status == CL_SUCCESS) return {};
  return fail(error(status, call, doing));
}

/// Once, when the drivers are initialised.
inline void hook_exit() noexcept {
  static const bool hooked = (process::register_exit_hook(), true);
  static_cast<void>(hooked);
}

}  // namespace berth::inline BERTH_ABI::opencl
