// SPDX-License-Identifier: MIT
#pragma once

#include "../histogram.hpp"

namespace berth::tool {

/// A kernel for the device of an OpenCL allocator, compiled and launched once.
[[nodiscard]] Outcome<std::unique_ptr<Histogram>> opencl_histogram(const PackedAllocator& allocator);

}  // namespace berth::tool
