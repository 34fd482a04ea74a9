// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/diagnostics.hpp>
#include <berth/core/mapping.hpp>
#include <berth/vector/vector.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace berth::inline BERTH_ABI::host_ptr {

/// Host access to a range of a vector for a scope: for reading, for writing (the bytes are current at first),
/// or for replacing every byte of it. Where a device has the memory in place the range is mapped meanwhile,
/// which is the form of access that every driver honours; a host that is newer is published before that.
/// What is written is visible to launches after the guard has gone.
///
/// While it lives a launch with the vector, a transfer, a detach, and any other access that shares bytes are
/// `mapped`, as is an access to other bytes that would have to publish these; accesses for reading the very
/// same range share one map. Where it maps, it is `invalid_argument` between the announcement and the `done`
/// of a launch with the vector on that device, whose kernels must not find the range mapped. Not through the
/// guard, elements may be read where they are current, and not be written.
///
/// Destruction ends the access and sends a failure to the sink; `close()` ends it now and returns it. After a
/// failure the host has the newest bytes, those of the range as they were written; the device has them when
/// not even the others could be brought home. Keeps the vector's buffers, so it may outlive the vector.
/// Move-only; thread rules as for `Vector`.
template <class T>
class [[nodiscard]] HostAccess {
 public:
  /// All of it.
  [[nodiscard]] static Result<HostAccess> open(Vector<T>& vector, Access access) {
    return open(vector, access, vector.nbytes(), 0);
  }
  [[nodiscard]] static Result<HostAccess> open(Vector<T>& vector, Access access, std::size_t nbytes,
                                               std::size_t byte_offset) {
    if (!vector.core()) {
      return fail(
          Error(Errc::invalid_argument, "host").in("HostAccess").because("the vector was moved from"));
    }
    auto opened = vector.core()->open(access, {nbytes, byte_offset});
    if (!opened) return fail(opened.error());
    return HostAccess(vector.core(), *opened);
  }

  HostAccess(HostAccess&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), access_(std::exchange(other.access_, nullptr)) {}
  HostAccess& operator=(HostAccess&& other) noexcept {
    HostAccess moved(std::move(other));
    std::swap(core_, moved.core_);
    std::swap(access_, moved.access_);
    return *this;
  }
  ~HostAccess() {
    if (const auto closed = close(); !closed) report(closed.error());
  }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return range(); }
  /// Empty when this is for reading.
  [[nodiscard]] std::span<std::byte> writable_bytes() const noexcept {
    return access_ != nullptr && access_->how != Access::read ? range() : std::span<std::byte>();
  }
  /// The elements, when the range is of whole ones; else none.
  [[nodiscard]] std::span<const T> elements() const noexcept { return typed<const T>(range()); }
  [[nodiscard]] std::span<T> writable_elements() const noexcept { return typed<T>(writable_bytes()); }

  /// Gives the range back. A second call does nothing.
  [[nodiscard]] Result<void> close() noexcept {
    const auto core = std::exchange(core_, nullptr);
    return core != nullptr ? core->close(std::exchange(access_, nullptr)) : Result<void>();
  }

 private:
  HostAccess(std::shared_ptr<berth::detail::VectorCore> core,
             berth::detail::VectorCore::Access* access) noexcept
      : core_(std::move(core)), access_(access) {}

  [[nodiscard]] std::span<std::byte> range() const noexcept {
    if (access_ == nullptr) return {};
    return {core_->memory().data + access_->range.byte_offset, access_->range.nbytes};
  }
  template <class Element>
  [[nodiscard]] std::span<Element> typed(std::span<std::byte> bytes) const noexcept {
    if (access_ == nullptr || access_->range.byte_offset % sizeof(T) != 0 || bytes.size() % sizeof(T) != 0) {
      return {};
    }
    return {reinterpret_cast<Element*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  std::shared_ptr<berth::detail::VectorCore> core_;
  berth::detail::VectorCore::Access* access_ = nullptr;
};

}  // namespace berth::inline BERTH_ABI::host_ptr
