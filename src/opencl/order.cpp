// SPDX-License-Identifier: MIT
// Order between queues.
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/allocator.hpp>

#include <algorithm>

#include "block.hpp"
#include "query.hpp"
#include "stream.hpp"

namespace berth::inline BERTH_ABI::opencl {

Result<void> check_queue(cl_context context, cl_command_queue queue, const char* call) {
  const Error invalid = Error(Errc::invalid_argument, backend).in(call);
  if (context == nullptr || queue == nullptr)
    return fail(Error(invalid).because("the context or queue is null"));
  const auto own = query<cl_context>(queue, CL_QUEUE_CONTEXT);
  if (!own) return fail(own.error());
  if (*own != context) return fail(Error(invalid).because("the queue is of another context"));
  const auto properties = query<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES);
  if (!properties) return fail(properties.error());
  if ((*properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
    return fail(Error(invalid).because("the queue runs out of order"));
  }
  return {};
}

Result<Queue> retained_queue(cl_command_queue queue) {
  auto handle = Handle<cl_command_queue>::borrow(queue);
  if (!handle) return fail(handle.error());
  return adopt_queue(handle->release());
}

Result<cl_command_queue> Allocator::same_context(const Queue& queue, const char* call) const {
  const cl_command_queue native = native_queue(queue);
  if (native == nullptr) {
    return fail(Error(queue ? Errc::wrong_backend : Errc::invalid_argument, backend)
                    .in(call)
                    .because(queue ? "the queue is of another backend" : "the queue is empty"));
  }
  if (auto right = check_queue(context(), native, call); !right) return fail(right.error());
  return native;
}

Result<Allocator> Allocator::on(const Queue& queue) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const auto native = same_context(queue, "on");
  if (!native) return fail(native.error());
  const auto device = query<cl_device_id>(*native, CL_QUEUE_DEVICE);
  if (!device) return fail(device.error());
  if (*device != instance_->device) {
    return fail(Error(Errc::invalid_argument, backend).in("on").because("the queue is of another device"));
  }
  auto own = retained_queue(*native);
  if (!own) return fail(own.error());
  return Allocator(instance_, std::move(*own));
}

Result<void> Allocator::record_use(const ClBuffer& buf, const Queue& queue) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto owned = checks::own(buf, info(), "record_use"); !owned) return owned;
  const auto native = same_context(queue, "record_use");
  if (!native) return fail(native.error());
  // The driver itself keeps an object until the commands that use it are done, on whatever queue (OpenCL 3.0,
  // clReleaseMemObject). Only memory of the caller's, which free has to wait for, needs the queues by name.
  if (buf.block_ == nullptr) return {};
  const detail::Block& whole = buf.block_->parent != nullptr ? *buf.block_->parent : *buf.block_;
  detail::External* const external = whole.external.get();
  if (external == nullptr) return {};
  auto own = retained_queue(*native);
  if (!own) return fail(own.error());
  const MutexLock lock(external->mutex);
  if (std::ranges::find(external->queues, *own) == external->queues.end()) {
    external->queues.push_back(std::move(*own));
  }
  return {};
}

Result<Event> Allocator::record() {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  cl_event event = nullptr;
  if (auto marked = check(clEnqueueMarkerWithWaitList(queue(), 0, nullptr, &event),
                          "clEnqueueMarkerWithWaitList", Doing::moving);
      !marked) {
    return fail(marked.error());
  }
  Event recorded = adopt_event(event);
  // Unsubmitted, it would never complete for a queue that waits on it.
  if (auto flushed = check(clFlush(queue()), "clFlush", Doing::moving); !flushed)
    return fail(flushed.error());
  return recorded;
}

Result<void> Allocator::wait(const Event& event) {
  if (auto usable = process::usable(backend); !usable) return usable;
  const cl_event native = native_event(event);
  if (native == nullptr) {
    return fail(Error(event ? Errc::wrong_backend : Errc::invalid_argument, backend)
                    .in("wait")
                    .because(event ? "the event is of another backend" : "the event is empty"));
  }
  const auto own = query<cl_context>(native, CL_EVENT_CONTEXT);
  if (!own) return fail(own.error());
  if (*own != context()) {
    return fail(Error(Errc::invalid_argument, backend).in("wait").because("the event is of another context"));
  }
  return check(clEnqueueBarrierWithWaitList(queue(), 1, &native, nullptr), "clEnqueueBarrierWithWaitList",
               Doing::moving);
}

}  // namespace berth::inline BERTH_ABI::opencl
