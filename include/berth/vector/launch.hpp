// SPDX-License-Identifier: MIT
#pragma once

#include <berth/vector/vector.hpp>

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace berth::inline BERTH_ABI {

/// One vector of a launch and what the launch does with it. Made by `in`, `out` and `inout`.
struct LaunchArgument {
  std::shared_ptr<detail::VectorCore> vector;
  detail::LaunchUse use;
  detail::VectorCore::Announced announced{};
};

/// The launch reads it.
template <class T>
[[nodiscard]] LaunchArgument in(const Vector<T>& vector) {
  return {vector.core(), detail::LaunchUse::in};
}
/// The launch writes every element of it and reads none: nothing is uploaded.
template <class T>
[[nodiscard]] LaunchArgument out(Vector<T>& vector) {
  return {vector.core(), detail::LaunchUse::out};
}
/// The launch reads it and writes to it, or writes to a part of it.
template <class T>
[[nodiscard]] LaunchArgument inout(Vector<T>& vector) {
  return {vector.core(), detail::LaunchUse::inout};
}

/// A launch that was announced. The caller enqueues its kernels and then says `done`; a launch that is
/// dropped counts as run.
///
/// Before that the vectors may be read and moved, by the host and to other devices. Each read fetches the
/// bytes anew, from before the kernels or from after them (of an `out` vector they are unspecified before);
/// what the kernels write is the newest when it is done. What is written meanwhile is newer than this
/// launch's results: by the host (also `publish_host_writes`), by a launch elsewhere that announces to write,
/// or by another device whose bytes are acquired. Its kernels are enqueued first then; else all that they
/// write may be lost. A `HostAccess` that would map a buffer of it is `invalid_argument` meanwhile; beside
/// another `HostAccess` a read may see the bytes from before.
///
/// Until it is done it keeps the vectors' host storage, and the buffers of a vector that has gone. A buffer
/// that is freed meanwhile (`free_buffer`, `detach`) is the launch's no longer: kernels that are not enqueued
/// must not use it, and what they wrote before has come home. Move-only; thread rules as for `Vector`.
class [[nodiscard]] Launch {
 public:
  Launch(Launch&& other) noexcept
      : device_(std::move(other.device_)), arguments_(std::exchange(other.arguments_, {})) {}
  Launch& operator=(Launch&& other) noexcept {
    Launch moved(std::move(other));
    std::swap(device_, moved.device_);
    std::swap(arguments_, moved.arguments_);
    return *this;
  }
  ~Launch() { done(); }

  /// The kernels have been enqueued, on the device's own queue or on registered ones. Once; later calls do
  /// nothing.
  BERTH_EXPORT void done();
  /// The same on any queue: whoever needs the results waits for the event, and fails, once, when its work
  /// failed. The sink gets the failure where nobody needs them: of vectors that the launch reads, and when
  /// what it wrote has been replaced.
  BERTH_EXPORT void done(const Event& event);

  [[nodiscard]] BERTH_EXPORT static Result<Launch> announce(const device::Device& device,
                                                            std::vector<LaunchArgument> arguments);

 private:
  Launch(const device::Device& device, std::vector<LaunchArgument> arguments) noexcept
      : device_(device), arguments_(std::move(arguments)) {}

  device::Device device_;
  std::vector<LaunchArgument> arguments_;
};

/// Makes the newest elements of every vector available on `device` and notes what will be newest there:
///
///     auto launch = launching(device, in(x), out(y), inout(z));
///     if (!launch) return fail(launch.error());
///     enqueue(kernel, x.buffer(device), y.buffer(device), z.buffer(device));
///     launch->done();
///
/// Inputs do not become stale. `mapped` while the host has access to one of them, `invalid_argument` for a
/// read-only array that is written, `overlap` when one argument is written and shares bytes with another. A
/// failure changes no location but by transfers, and leaves no new buffer but those that the bytes are in.
template <class... Arguments>
[[nodiscard]] Result<Launch> launching(const device::Device& device, Arguments... arguments) {
  return Launch::announce(device, std::vector<LaunchArgument>{std::move(arguments)...});
}

}  // namespace berth::inline BERTH_ABI
