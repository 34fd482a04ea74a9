// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/framework.hpp>

#include <memory>

namespace berth::inline BERTH_ABI::cuda {

/// The framework "CUDA": the driver's devices in its order, each on its primary context, with a stream of its
/// own. A device that does not open is left out and reported to the sink. `devices()` says apart why there is
/// none: `library_missing`, `symbol_missing`, `no_device`. The same object every time.
[[nodiscard]] BERTH_EXPORT std::shared_ptr<device::Framework> framework();

}  // namespace berth::inline BERTH_ABI::cuda
