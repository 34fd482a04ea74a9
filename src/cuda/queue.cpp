// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>
#include <berth/cuda/queue.hpp>

#include <atomic>
#include <new>
#include <optional>

#include "event.hpp"
#include "stream.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

// The driver counts no references, so an event's handle is this, which does.
struct EventObject {
  std::atomic<std::size_t> references{1};
  const Driver& driver;
  std::shared_ptr<const detail::Context> context;  // null for an event that the caller made
  abi::Event event;
  bool owned;
};

bool retain_event(void* native) noexcept {
  static_cast<EventObject*>(native)->references.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void release_event(void* native) noexcept {
  auto* const object = static_cast<EventObject*>(native);
  if (object->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::unique_ptr<EventObject> last(object);
  if (!object->owned || !process::may_release()) return;
  if (object->context == nullptr) {
    const auto destroyed =
        check(object->driver, object->driver.event_destroy(object->event), "cuEventDestroy");
    if (!destroyed) report(destroyed.error());
    return;
  }
  const detail::Context& context = *object->context;
  if (context.lost()) return;
  const detail::Current current(context);
  if (current.entered_or_told()) context.told(object->driver.event_destroy(object->event), "cuEventDestroy");
}

// Calls `ask` with the event's context current, where that is known.
template <class Ask>
Result<abi::Status> asked(const EventObject& object, const char* call, Ask ask) noexcept {
  if (object.context == nullptr) {
    if (auto usable = process::usable(backend); !usable) return fail(usable.error());
    const abi::Status status = ask(object.event);
    if (status == abi::success || status == abi::not_ready) return status;
    return fail(error(object.driver, status, call));
  }
  if (auto usable = object.context->usable(call); !usable) return fail(usable.error());
  const detail::Current current(*object.context);
  if (!current.entered()) return fail(current.entered().error());
  const abi::Status status = ask(object.event);
  if (status == abi::not_ready) return status;
  if (auto right = object.context->check(status, call); !right) return fail(right.error());
  return status;
}

Result<bool> event_complete(void* native) noexcept {
  const auto& object = *static_cast<const EventObject*>(native);
  const auto status = asked(object, "cuEventQuery", object.driver.event_query);
  if (!status) return fail(status.error());
  return *status == abi::success;
}
Result<void> event_wait(void* native) noexcept {
  const auto& object = *static_cast<const EventObject*>(native);
  const auto status = asked(object, "cuEventSynchronize", object.driver.event_synchronize);
  if (!status) return fail(status.error());
  return {};
}

constexpr HandleKind queue_kind{backend, nullptr, nullptr};
constexpr HandleKind event_kind{backend, &retain_event, &release_event, &event_complete, &event_wait};

const EventObject* object_of(const Event& event) noexcept {
  return static_cast<const EventObject*>(event.native(event_kind));
}

Event users_event(abi::Event event, const Driver* driver, bool owned) noexcept {
  if (event == nullptr) return {};
  if (driver == nullptr) {
    const auto own = cuda::driver();
    if (!own) return {};
    driver = *own;
  }
  auto* const object = new (std::nothrow) EventObject{1, *driver, nullptr, event, owned};
  return object != nullptr ? Event::adopt(event_kind, object) : Event();
}

}  // namespace

namespace detail {

Result<OwnedEvent> OwnedEvent::make(const Context& context) noexcept {
  abi::Event event = nullptr;
  if (auto made =
          context.check(context.driver.event_create(&event, abi::event_disable_timing), "cuEventCreate");
      !made) {
    return fail(made.error());
  }
  return OwnedEvent(context, event);
}

OwnedEvent::~OwnedEvent() {
  if (event_ == nullptr || !process::may_release() || context_->lost()) return;
  const Current current(*context_);
  if (current.entered_or_told()) context_->told(context_->driver.event_destroy(event_), "cuEventDestroy");
}

Result<Event> shared_event(std::shared_ptr<const Context> context, OwnedEvent event) noexcept {
  const Driver& driver = context->driver;
  auto* const object = new (std::nothrow) EventObject{1, driver, std::move(context), event.get(), true};
  if (object == nullptr) {
    return fail(Error(Errc::out_of_memory, "host").in("record").asking(sizeof(EventObject)));
  }
  static_cast<void>(event.release());
  return Event::adopt(event_kind, object);
}

const Driver* driver_of(const Event& event) noexcept {
  const EventObject* const object = object_of(event);
  return object != nullptr ? &object->driver : nullptr;
}

}  // namespace detail

Queue borrow_queue(abi::Stream stream) noexcept { return Queue::borrow(queue_kind, detail::named(stream)); }
abi::Stream native_queue(const Queue& queue) noexcept {
  return static_cast<abi::Stream>(queue.native(queue_kind));
}

Event adopt_event(abi::Event event, const Driver* driver) noexcept {
  return users_event(event, driver, true);
}
Event borrow_event(abi::Event event, const Driver* driver) noexcept {
  return users_event(event, driver, false);
}
abi::Event native_event(const Event& event) noexcept {
  const EventObject* const object = object_of(event);
  return object != nullptr ? object->event : nullptr;
}

}  // namespace berth::inline BERTH_ABI::cuda
