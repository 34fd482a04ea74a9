// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

namespace berth::inline BERTH_ABI {

/// Whether a host read of a vector whose device is newer fetches the bytes by itself. On when the process
/// starts; a vector's own switch (`Vector::set_auto_sync`) must be on too. Host writes fetch regardless,
/// since the device's bytes would be lost. Process-wide, thread-safe.
BERTH_EXPORT void set_auto_sync(bool on) noexcept;
[[nodiscard]] BERTH_EXPORT bool auto_sync() noexcept;

}  // namespace berth::inline BERTH_ABI
