// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/framework.hpp>

#include <memory>

namespace berth::inline BERTH_ABI::host {

/// The framework "Native": one device, the host's own memory. The same object every time.
[[nodiscard]] BERTH_EXPORT std::shared_ptr<device::Framework> framework();

}  // namespace berth::inline BERTH_ABI::host
