// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/result.hpp>

#include <string_view>
#include <utility>

namespace berth::inline BERTH_ABI {

/// What berth does with one backend's native handles. One constant object a backend and kind of handle; it
/// says whose handle it is. A backend whose driver does not count leaves `retain` and `release` null: the
/// caller keeps the handle alive. `complete` is for events only.
struct HandleKind {
  const char* backend;  ///< "opencl", "cuda", a user's own: a literal
  bool (*retain)(
      void* native) noexcept;  ///< takes one more reference; false, and told to the sink, if it cannot
  void (*release)(void* native) noexcept;  ///< gives one back; reports its own failures to the sink
  Result<bool> (*complete)(void* native) noexcept =
      nullptr;  ///< whether the work before the event has finished
  /// Blocks the host until it has; of a queue, until the work that it holds now has.
  Result<void> (*wait)(void* native) noexcept = nullptr;

  friend bool operator==(const HandleKind& a, const HandleKind& b) noexcept {
    return &a == &b || (std::string_view(a.backend) == b.backend && a.retain == b.retain &&
                        a.release == b.release && a.complete == b.complete && a.wait == b.wait);
  }
};

/// A native handle held in place, counted by its backend's rules. The base of `Queue` and `Event`; copies
/// share the native object. Empty when default-constructed or moved from.
template <class Tag>
class NativeHandle {
 public:
  NativeHandle() = default;
  /// Takes over one reference, which the caller owned.
  [[nodiscard]] static NativeHandle adopt(const HandleKind& kind, void* native) noexcept {
    return NativeHandle(&kind, native);
  }
  /// Takes a reference of its own where the backend counts; else the caller keeps `native` alive.
  [[nodiscard]] static NativeHandle borrow(const HandleKind& kind, void* native) noexcept {
    if (native != nullptr && kind.retain != nullptr && !kind.retain(native)) return {};
    return NativeHandle(&kind, native);
  }

  NativeHandle(const NativeHandle& other) noexcept : NativeHandle(other.kind_, other.native_) {
    if (native_ != nullptr && kind_->retain != nullptr && !kind_->retain(native_)) native_ = nullptr;
  }
  NativeHandle(NativeHandle&& other) noexcept
      : kind_(std::exchange(other.kind_, nullptr)), native_(std::exchange(other.native_, nullptr)) {}
  NativeHandle& operator=(NativeHandle other) noexcept {
    swap(*this, other);
    return *this;
  }
  ~NativeHandle() {
    if (native_ != nullptr && kind_->release != nullptr) kind_->release(native_);
  }
  friend void swap(NativeHandle& a, NativeHandle& b) noexcept {
    std::swap(a.kind_, b.kind_);
    std::swap(a.native_, b.native_);
  }

  explicit operator bool() const noexcept { return native_ != nullptr; }

  /// The native handle when it is of this kind; null otherwise.
  [[nodiscard]] void* native(const HandleKind& kind) const noexcept {
    return kind_ != nullptr && *kind_ == kind ? native_ : nullptr;
  }
  /// Whether the work before this event has finished; a failure of that work is its error. `unsupported` for
  /// what is no event, or a backend that cannot tell.
  [[nodiscard]] Result<bool> complete() const noexcept {
    if (kind_ != nullptr && kind_->complete != nullptr) return kind_->complete(native_);
    return fail(Error(Errc::unsupported, kind_ != nullptr ? kind_->backend : "").in("complete"));
  }
  /// Blocks the host until the work before this event, or the work that this queue holds now, has finished.
  [[nodiscard]] Result<void> wait() const noexcept {
    if (kind_ != nullptr && kind_->wait != nullptr) return kind_->wait(native_);
    return fail(Error(Errc::unsupported, kind_ != nullptr ? kind_->backend : "").in("wait"));
  }
  /// The backend's name; empty when there is no handle.
  [[nodiscard]] std::string_view backend() const noexcept { return kind_ != nullptr ? kind_->backend : ""; }

  friend bool operator==(const NativeHandle& a, const NativeHandle& b) noexcept {
    return a.native_ == b.native_;
  }

 private:
  NativeHandle(const HandleKind* kind, void* native) noexcept
      : kind_(native != nullptr ? kind : nullptr), native_(native) {}

  const HandleKind* kind_ = nullptr;
  void* native_ = nullptr;
};

/// An in-order queue of a backend: `cl_command_queue`, `CUstream`. Made by the backend
/// (`opencl::borrow_queue`).
using Queue = NativeHandle<struct QueueTag>;

/// A point on a queue: `cl_event`, `CUevent`. Made by `record()` or by the backend from a native event.
using Event = NativeHandle<struct EventTag>;

}  // namespace berth::inline BERTH_ABI
