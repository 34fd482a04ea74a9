// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/diagnostics.hpp>
#include <berth/core/process.hpp>

#include <utility>

#include "status.hpp"

namespace berth::inline BERTH_ABI::opencl {

template <class T>
struct HandleTraits;
template <>
struct HandleTraits<cl_context> {
  static cl_int retain(cl_context handle) noexcept { return clRetainContext(handle); }
  static cl_int release(cl_context handle) noexcept { return clReleaseContext(handle); }
  static constexpr const char* retain_call = "clRetainContext";
  static constexpr const char* release_call = "clReleaseContext";
};
template <>
struct HandleTraits<cl_command_queue> {
  static cl_int retain(cl_command_queue handle) noexcept { return clRetainCommandQueue(handle); }
  static cl_int release(cl_command_queue handle) noexcept { return clReleaseCommandQueue(handle); }
  static constexpr const char* retain_call = "clRetainCommandQueue";
  static constexpr const char* release_call = "clReleaseCommandQueue";
};
template <>
struct HandleTraits<cl_mem> {
  static cl_int retain(cl_mem handle) noexcept { return clRetainMemObject(handle); }
  static cl_int release(cl_mem handle) noexcept { return clReleaseMemObject(handle); }
  static constexpr const char* retain_call = "clRetainMemObject";
  static constexpr const char* release_call = "clReleaseMemObject";
};
template <>
struct HandleTraits<cl_event> {
  static cl_int retain(cl_event handle) noexcept { return clRetainEvent(handle); }
  static cl_int release(cl_event handle) noexcept { return clReleaseEvent(handle); }
  static constexpr const char* retain_call = "clRetainEvent";
  static constexpr const char* release_call = "clReleaseEvent";
};

/// Gives one reference back; whether the driver took it. A failure goes to the sink; where no driver may be
/// called any more, nothing happens.
template <class T>
bool release(T handle) noexcept {
  if (!process::may_release()) return false;
  const auto released = check(HandleTraits<T>::release(handle), HandleTraits<T>::release_call);
  if (!released) report(released.error());
  return released.has_value();
}

/// Owns one reference to an OpenCL object. Move-only.
template <class T>
class Handle {
 public:
  Handle() = default;
  [[nodiscard]] static Handle adopt(T handle) noexcept { return Handle(handle); }
  /// Retains a reference of its own, which a driver may refuse.
  [[nodiscard]] static Result<Handle> borrow(T handle) noexcept {
    if (auto retained = check(HandleTraits<T>::retain(handle), HandleTraits<T>::retain_call); !retained) {
      return fail(retained.error());
    }
    return Handle(handle);
  }
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    Handle moved(std::move(other));
    std::swap(handle_, moved.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_ != nullptr) opencl::release(handle_);
  }

  [[nodiscard]] T get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  /// Gives the reference up without releasing it.
  T release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  explicit Handle(T handle) noexcept : handle_(handle) {}
  T handle_ = nullptr;
};

}  // namespace berth::inline BERTH_ABI::opencl
