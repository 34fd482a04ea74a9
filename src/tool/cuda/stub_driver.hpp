// SPDX-License-Identifier: MIT
#pragma once

#include <berth/cuda/driver.hpp>

namespace berth::tool {

/// A driver whose calls succeed and do nothing, so that what is measured is the way to them. One device; its
/// primary context is always current.
[[nodiscard]] const cuda::Driver& stub_driver() noexcept;
/// The same, where another context is current on every thread.
[[nodiscard]] const cuda::Driver& stub_driver_elsewhere() noexcept;

}  // namespace berth::tool
