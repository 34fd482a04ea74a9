// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/queue.hpp>
#include <berth/cuda/abi.hpp>

/// CUDA's streams and events as berth's. The driver counts no references: what is borrowed the caller keeps
/// alive, and a stream can be borrowed only. It must outlive the allocator's handles made with it (`on`), the
/// allocations with which it was recorded (`record_use`), and an adaptor that keeps such blocks.
namespace berth::inline BERTH_ABI::cuda {

struct Driver;

/// The caller keeps the stream alive. A null stream is the legacy default one, as everywhere in CUDA.
[[nodiscard]] BERTH_EXPORT Queue borrow_queue(abi::Stream stream) noexcept;
/// Null when the queue is empty or another backend's. The legacy default stream is `CU_STREAM_LEGACY`.
[[nodiscard]] BERTH_EXPORT abi::Stream native_queue(const Queue& queue) noexcept;

/// Takes the event over: destroyed with the last copy. Empty when there is no memory for the handle, or, for
/// a null `driver`, no driver in the process; the event is the caller's then.
[[nodiscard]] BERTH_EXPORT Event adopt_event(abi::Event event, const Driver* driver = nullptr) noexcept;
/// The same, but the caller keeps the event alive.
[[nodiscard]] BERTH_EXPORT Event borrow_event(abi::Event event, const Driver* driver = nullptr) noexcept;
/// Null when the event is empty or another backend's.
[[nodiscard]] BERTH_EXPORT abi::Event native_event(const Event& event) noexcept;

}  // namespace berth::inline BERTH_ABI::cuda
