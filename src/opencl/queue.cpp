// SPDX-License-Identifier: MIT
#include <berth/opencl/queue.hpp>

#include "handle.hpp"
#include "wait.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

template <class T>
bool retain_handle(void* native) noexcept {
  if (!process::may_release()) return true;  // nor is it released
  const auto retained = check(HandleTraits<T>::retain(static_cast<T>(native)), HandleTraits<T>::retain_call);
  if (!retained) report(retained.error());
  return retained.has_value();
}
template <class T>
void release_handle(void* native) noexcept {
  release(static_cast<T>(native));
}

Result<bool> event_complete(void* native) noexcept {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const auto status = query<cl_int>(static_cast<cl_event>(native), CL_EVENT_COMMAND_EXECUTION_STATUS);
  if (!status) return fail(status.error());
  // A negative status is the error with which the command ended (OpenCL 3.0, clGetEventInfo).
  if (*status < 0) return fail(error(*status, "clGetEventInfo", Doing::moving));
  return *status == CL_COMPLETE;
}
Result<void> event_wait(void* native) noexcept {
  if (auto usable = process::usable(backend); !usable) return usable;
  return wait_for(static_cast<cl_event>(native), Doing::moving);
}

Result<void> queue_wait(void* native) noexcept {
  if (auto usable = process::usable(backend); !usable) return usable;
  return check(clFinish(static_cast<cl_command_queue>(native)), "clFinish", Doing::moving);
}

constexpr HandleKind queue_kind{backend, &retain_handle<cl_command_queue>, &release_handle<cl_command_queue>,
                                nullptr, &queue_wait};
constexpr HandleKind event_kind{backend, &retain_handle<cl_event>, &release_handle<cl_event>, &event_complete,
                                &event_wait};

}  // namespace

Queue adopt_queue(cl_command_queue queue) noexcept { return Queue::adopt(queue_kind, queue); }
Queue borrow_queue(cl_command_queue queue) noexcept { return Queue::borrow(queue_kind, queue); }
cl_command_queue native_queue(const Queue& queue) noexcept {
  return static_cast<cl_command_queue>(queue.native(queue_kind));
}

Event adopt_event(cl_event event) noexcept { return Event::adopt(event_kind, event); }
Event borrow_event(cl_event event) noexcept { return Event::borrow(event_kind, event); }
cl_event native_event(const Event& event) noexcept { return static_cast<cl_event>(event.native(event_kind)); }

}  // namespace berth::inline BERTH_ABI::opencl
