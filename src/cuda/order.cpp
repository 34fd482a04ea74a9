// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/cuda/allocator.hpp>

#include "block.hpp"
#include "stream.hpp"

namespace berth::inline BERTH_ABI::cuda {

using detail::Context;
using detail::Current;

Result<void> Allocator::synchronize() {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("synchronize"); !usable) return usable;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return context.check(context.driver.stream_synchronize(stream_), "cuStreamSynchronize");
}

Result<abi::Stream> Allocator::same_context(const Queue& queue, const char* call) const {
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  const abi::Stream stream = native_queue(queue);
  if (stream == nullptr) {
    return fail(Error(queue ? Errc::wrong_backend : Errc::invalid_argument, backend)
                    .in(call)
                    .because(queue ? "the queue is of another backend" : "the queue is empty"));
  }
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  if (auto right = detail::check_stream(context, stream, call); !right) return fail(right.error());
  return stream;
}

Result<Allocator> Allocator::on(const Queue& queue) {
  const auto stream = same_context(queue, "on");
  if (!stream) return fail(stream.error());
  return Allocator(instance_, *stream);
}

Result<void> Allocator::record_use(const CudaBuffer& buf, const Queue& queue) {
  if (auto owned = checks::own(buf, instance_->info, "record_use"); !owned) return owned;
  const auto stream = same_context(queue, "record_use");
  if (!stream) return fail(stream.error());
  if (buf.block_ != nullptr) buf.block_->used_on(*stream);
  return {};
}

Result<Event> Allocator::record() {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("record"); !usable) return fail(usable.error());
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  auto event = detail::OwnedEvent::make(context);
  if (!event) return fail(event.error());
  if (auto recorded = context.check(context.driver.event_record(event->get(), stream_), "cuEventRecord");
      !recorded) {
    return fail(recorded.error());
  }
  return detail::shared_event(instance_->context, std::move(*event));
}

Result<void> Allocator::wait(const Event& event) {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("wait"); !usable) return usable;
  const Error invalid = Error(event ? Errc::wrong_backend : Errc::invalid_argument, backend).in("wait");
  const Driver* const driver = detail::driver_of(event);
  if (driver == nullptr) {
    return fail(Error(invalid).because(event ? "the event is of another backend" : "the event is empty"));
  }
  if (driver != &context.driver) {
    return fail(Error(Errc::invalid_argument, backend).in("wait").because("the event is of another driver"));
  }
  const Current current(context);
  if (!current.entered()) return current.entered();
  return context.check(context.driver.stream_wait_event(stream_, native_event(event), 0),
                       "cuStreamWaitEvent");
}

}  // namespace berth::inline BERTH_ABI::cuda
