// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/framework.hpp>

#include <memory>

namespace berth::inline BERTH_ABI::opencl {

/// The framework "OpenCL": the available devices of every platform, in the loader's order, each with a
/// context and a queue of its own. A device that does not open is left out and reported to the sink. The same
/// object every time.
[[nodiscard]] BERTH_EXPORT std::shared_ptr<device::Framework> framework();

}  // namespace berth::inline BERTH_ABI::opencl
