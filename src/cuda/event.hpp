// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/queue.hpp>

#include <memory>
#include <utility>

#include "context.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// Owns one event of a context, which must outlive it. Move-only.
class OwnedEvent {
 public:
  OwnedEvent() = default;
  /// The context must be current.
  [[nodiscard]] static Result<OwnedEvent> make(const Context& context) noexcept;

  OwnedEvent(OwnedEvent&& other) noexcept
      : context_(other.context_), event_(std::exchange(other.event_, nullptr)) {}
  OwnedEvent& operator=(OwnedEvent&& other) noexcept {
    OwnedEvent moved(std::move(other));
    std::swap(context_, moved.context_);
    std::swap(event_, moved.event_);
    return *this;
  }
  ~OwnedEvent();

  [[nodiscard]] abi::Event get() const noexcept { return event_; }
  /// Gives the event up without destroying it.
  abi::Event release() noexcept { return std::exchange(event_, nullptr); }

 private:
  OwnedEvent(const Context& context, abi::Event event) noexcept : context_(&context), event_(event) {}

  const Context* context_ = nullptr;
  abi::Event event_ = nullptr;
};

/// An event that keeps its context.
[[nodiscard]] Result<Event> shared_event(std::shared_ptr<const Context> context, OwnedEvent event) noexcept;

/// The table that an event was made with; null when it is empty or another backend's.
[[nodiscard]] const Driver* driver_of(const Event& event) noexcept;

}  // namespace berth::inline BERTH_ABI::cuda::detail
