// SPDX-License-Identifier: MIT
#pragma once

#include "../histogram.hpp"

namespace berth::tool {

/// A kernel for the device of a CUDA allocator, compiled by the driver and launched once.
[[nodiscard]] Outcome<std::unique_ptr<Histogram>> cuda_histogram(const PackedAllocator& allocator);

}  // namespace berth::tool
