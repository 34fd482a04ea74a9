// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/checks.hpp>
#include <berth/vector/auto_sync.hpp>
#include <berth/vector/big_array.hpp>
#include <berth/vector/core.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace berth::inline BERTH_ABI {

/// `size()` elements that live on the host and on devices, and know where the newest of them are.
///
/// The host storage is a `BigArray` (of scalars, which `host_ptr` can share with a device), elements of the
/// user's own type, or none (`on_device`). Each device that was asked for has a buffer. `location()` names
/// the newest; every transition fetches what would otherwise be lost. What kernels do is announced
/// (`launching`), or told afterwards by `host_ptr::acquire_device_writes`.
///
/// Move-only. One object, one thread at a time; a vector, its sub-vectors, the launches and the host accesses
/// on them count as one object. Destruction brings the newest elements home when the host storage outlives
/// the vector, and returns when no driver touches it any more. Two vectors over the same memory that are not
/// sub-vectors know nothing of each other. A vector that was moved from has no elements and answers
/// `invalid_argument`.
template <class T>
class Vector {
  static_assert(std::is_trivially_copyable_v<T>, "the elements of a vector are copied as bytes");

 public:
  using value_type = T;

  Vector() noexcept = default;

  /// `length` elements of zero bytes, in a page-aligned and padded block of the vector's own.
  [[nodiscard]] static Result<Vector> create(std::size_t length) {
    auto memory = make_host_memory(length, sizeof(T));
    if (!memory) return fail(memory.error());
    return Vector(detail::VectorCore::make(storage, std::move(*memory)));
  }
  /// The same, meant for `device` first. No buffer is made yet.
  [[nodiscard]] static Result<Vector> create(std::size_t length, const device::Device& device) {
    auto made = create(length);
    if (made) made->core_->place(device);
    return made;
  }
  /// Elements that exist on devices alone, unspecified at first. They move from device to device, never to
  /// the host.
  [[nodiscard]] static Result<Vector> on_device(std::size_t length, const device::Device& device) {
    if (length > SIZE_MAX / sizeof(T)) {
      return fail(Error(Errc::invalid_size).in("on_device").asking(length).because("that many elements"));
    }
    HostMemory none;
    none.nbytes = length * sizeof(T);
    Vector made(detail::VectorCore::make(detail::VectorStorage::device_only, std::move(none)));
    if (auto placed = made.to_device(device); !placed) return fail(placed.error());
    return made;
  }
  /// Over an array, without a copy.
  template <Scalar Element>
    requires std::same_as<Element, T>
  [[nodiscard]] static Vector over(const BigArray<Element>& array) {
    return Vector(detail::VectorCore::make(storage, array.memory()));
  }
  /// Over elements of the user's own type, without a copy. They live as long as `owner`, or as the caller
  /// sees to it.
  [[nodiscard]] static Vector over(std::span<T> elements, std::shared_ptr<const void> owner = nullptr)
    requires(!Scalar<T>)
  {
    return Vector(detail::VectorCore::make(
        storage, {reinterpret_cast<std::byte*>(elements.data()), elements.size_bytes(), elements.size_bytes(),
                  true, std::move(owner)}));
  }

  Vector(Vector&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Vector& operator=(Vector&& other) noexcept {
    Vector moved(std::move(other));
    std::swap(core_, moved.core_);
    return *this;
  }
  ~Vector() = default;
  friend void swap(Vector& a, Vector& b) noexcept { std::swap(a.core_, b.core_); }

  /// `length` elements from `first` on, over the same host memory, with buffers and a location of their own.
  /// Before either is used, what the other has newest on a device comes home.
  [[nodiscard]] Result<Vector> sub_vector(std::size_t length, std::size_t first) {
    if (auto valid = check("sub_vector"); !valid) return fail(valid.error());
    if (auto inside = checks::range(length, first, size(), "host", "sub_vector"); !inside) {
      return fail(inside.error());
    }
    auto part = core_->part({length * sizeof(T), first * sizeof(T)});
    if (!part) return fail(part.error());
    return Vector(std::move(*part));
  }

  /// Names the vector for the life of the process; 0 when it was moved from.
  [[nodiscard]] std::uint64_t id() const noexcept { return core_ ? core_->id() : 0; }
  [[nodiscard]] std::size_t size() const noexcept { return nbytes() / sizeof(T); }
  [[nodiscard]] std::size_t nbytes() const noexcept { return core_ ? core_->nbytes() : 0; }
  [[nodiscard]] Location location() const { return core_ ? core_->location() : Location{}; }
  /// Off: a host read does not fetch what a device has newest. See `berth::set_auto_sync`.
  void set_auto_sync(bool on) noexcept {
    if (core_) core_->set_auto_sync(on);
  }

  /// The buffer on `device`, for kernels; null when there is none. Lives until it is freed.
  [[nodiscard]] Buffer* buffer(const device::Device& device) const noexcept {
    return core_ ? core_->buffer(device) : nullptr;
  }

  /// One element, fetched when a device has it newest and auto-sync is on.
  [[nodiscard]] Result<T> get(std::size_t index) const {
    if (auto inside = check_index(index, "get"); !inside) return fail(inside.error());
    const auto elements = read();
    if (!elements) return fail(elements.error());
    return (*elements)[index];
  }
  /// Changes one element. What a device has newest is fetched first, whatever auto-sync says.
  [[nodiscard]] Result<void> set(std::size_t index, const T& value) {
    if (auto inside = check_index(index, "set"); !inside) return inside;
    const auto elements = write();
    if (!elements) return fail(elements.error());
    (*elements)[index] = value;
    return {};
  }
  /// Sets every element. Nothing is fetched.
  [[nodiscard]] Result<void> fill(const T& value) {
    if (auto valid = check("fill"); !valid) return valid;
    if (auto ready = core_->before_overwrite(); !ready) return ready;
    for (T& element : host()) element = value;
    return {};
  }
  /// All elements for reading, fetched as `get` does. Valid until the next launch that writes them.
  [[nodiscard]] Result<std::span<const T>> read() const {
    if (auto valid = check("read"); !valid) return fail(valid.error());
    if (auto ready = core_->before_read(); !ready) return fail(ready.error());
    return std::span<const T>(host());
  }
  /// All elements for changing, fetched as `set` does; the host's are the newest from now on. Valid until the
  /// vector is next used on a device.
  [[nodiscard]] Result<std::span<T>> write() {
    if (auto valid = check("write"); !valid) return fail(valid.error());
    if (auto ready = core_->before_write(); !ready) return fail(ready.error());
    return host();
  }

  /// Makes the newest elements available on `device`. Nothing moves when they are there.
  [[nodiscard]] Result<void> to_device(const device::Device& device) {
    if (auto valid = check("to_device"); !valid) return valid;
    return core_->to_device(device);
  }
  /// Makes the newest elements available on the host; `force` reads them from the device although both are
  /// thought equal. Waits for the work on the device; a kernel that failed, and whose event was given, is an
  /// error once.
  [[nodiscard]] Result<void> to_host(bool force = false) {
    if (auto valid = check("to_host"); !valid) return valid;
    return core_->to_host(force);
  }
  /// Makes host and named device equal.
  [[nodiscard]] Result<void> sync() {
    if (auto valid = check("sync"); !valid) return valid;
    return core_->sync();
  }
  /// Frees the buffer on `device`; what it has newest comes home first, or nothing is freed. Does nothing
  /// when there is none.
  [[nodiscard]] Result<void> free_buffer(const device::Device& device) {
    if (auto valid = check("free_buffer"); !valid) return valid;
    return core_->free_buffer(device);
  }
  [[nodiscard]] Result<void> free_all_buffers() {
    if (auto valid = check("free_all_buffers"); !valid) return valid;
    return core_->free_all_buffers();
  }

  /// What berth's own modules work on; null when this was moved from.
  [[nodiscard]] const std::shared_ptr<detail::VectorCore>& core() const noexcept { return core_; }

 private:
  static constexpr detail::VectorStorage storage =
      Scalar<T> ? detail::VectorStorage::big_array : detail::VectorStorage::records;

  explicit Vector(std::shared_ptr<detail::VectorCore> core) noexcept : core_(std::move(core)) {}

  [[nodiscard]] Result<void> check(const char* call) const {
    if (core_) return {};
    return fail(Error(Errc::invalid_argument, "host").in(call).because("the vector was moved from"));
  }
  [[nodiscard]] Result<void> check_index(std::size_t index, const char* call) const {
    if (auto valid = check(call); !valid) return valid;
    return checks::range(1, index, size(), "host", call);
  }
  [[nodiscard]] std::span<T> host() const noexcept {
    return {reinterpret_cast<T*>(core_->memory().data), size()};
  }

  std::shared_ptr<detail::VectorCore> core_;
};

}  // namespace berth::inline BERTH_ABI
