// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/error.hpp>

namespace berth::inline BERTH_ABI::io {

/// The constant's name ("ENOSPC"), a literal; empty for an unknown one.
[[nodiscard]] BERTH_EXPORT const char* errno_name(int status) noexcept;

/// `Errc::io` with the status that `errno` held after `call`. `call` and `backend` are literals.
[[nodiscard]] inline Error os_error(int status, const char* call, const char* backend) noexcept {
  return Error(Errc::io, backend).in(call).with_status(status, errno_name(status));
}

}  // namespace berth::inline BERTH_ABI::io
