// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "status.hpp"

namespace berth::inline BERTH_ABI::opencl {

/// Queues a fill with equal bytes.
[[nodiscard]] Result<void> enqueue_fill(cl_command_queue queue, cl_mem mem, std::byte value,
                                        std::size_t byte_offset, std::size_t nbytes, Doing doing);

}  // namespace berth::inline BERTH_ABI::opencl
