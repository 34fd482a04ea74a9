// SPDX-License-Identifier: MIT
#include <berth/opencl/queue.hpp>

#include "handle.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

template <class T>
constexpr HandleKind kind{
    backend,
    [](void* native) noexcept {
      if (process::may_release()) HandleTraits<T>::retain(static_cast<T>(native));
    },
    [](void* native) noexcept { release(static_cast<T>(native)); },
};

}  // namespace

Queue adopt_queue(cl_command_queue queue) noexcept { return Queue::adopt(kind<cl_command_queue>, queue); }
Queue borrow_queue(cl_command_queue queue) noexcept { return Queue::borrow(kind<cl_command_queue>, queue); }
cl_command_queue native_queue(const Queue& queue) noexcept {
  return static_cast<cl_command_queue>(queue.native(kind<cl_command_queue>));
}

Event adopt_event(cl_event event) noexcept { return Event::adopt(kind<cl_event>, event); }
Event borrow_event(cl_event event) noexcept { return Event::borrow(kind<cl_event>, event); }
cl_event native_event(const Event& event) noexcept {
  return static_cast<cl_event>(event.native(kind<cl_event>));
}

}  // namespace berth::inline BERTH_ABI::opencl
