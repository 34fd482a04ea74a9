// SPDX-License-Identifier: MIT
#pragma once

#include <berth/opencl/queue.hpp>

#include "status.hpp"

namespace berth::inline BERTH_ABI::opencl {

/// `invalid_argument` unless the queue is of the context and runs its commands in order.
[[nodiscard]] Result<void> check_queue(cl_context context, cl_command_queue queue, const char* call);

/// A reference of berth's own.
[[nodiscard]] Result<Queue> retained_queue(cl_command_queue queue);

}  // namespace berth::inline BERTH_ABI::opencl
