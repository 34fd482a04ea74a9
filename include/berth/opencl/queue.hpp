// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/queue.hpp>
#include <berth/opencl/types.hpp>

/// OpenCL's queues and events as berth's. Counted by `clRetain...` and `clRelease...`.
namespace berth::inline BERTH_ABI::opencl {

/// Takes over one reference of the caller's.
[[nodiscard]] BERTH_EXPORT Queue adopt_queue(cl_command_queue queue) noexcept;
/// Retains its own reference.
[[nodiscard]] BERTH_EXPORT Queue borrow_queue(cl_command_queue queue) noexcept;
/// Null when the queue is empty or another backend's. Not retained.
[[nodiscard]] BERTH_EXPORT cl_command_queue native_queue(const Queue& queue) noexcept;

/// Takes over one reference of the caller's.
[[nodiscard]] BERTH_EXPORT Event adopt_event(cl_event event) noexcept;
/// Retains its own reference.
[[nodiscard]] BERTH_EXPORT Event borrow_event(cl_event event) noexcept;
/// Null when the event is empty or another backend's. Not retained.
[[nodiscard]] BERTH_EXPORT cl_event native_event(const Event& event) noexcept;

}  // namespace berth::inline BERTH_ABI::opencl
