// SPDX-License-Identifier: MIT
#pragma once

#include <berth/vector/host_memory.hpp>
#include <berth/vector/scalar_kind.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace berth::inline BERTH_ABI {

/// A contiguous host array of a scalar kind, kept alive together. A cheap handle; copies are the same array,
/// and one that was moved from is empty. One object, one thread at a time; the elements are the caller's to
/// synchronise, as with any memory.
template <Scalar T>
class BigArray {
 public:
  using value_type = T;

  BigArray() noexcept = default;
  BigArray(const BigArray&) noexcept = default;
  BigArray(BigArray&& other) noexcept : memory_(std::exchange(other.memory_, HostMemory{})) {}
  BigArray& operator=(BigArray other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~BigArray() = default;
  friend void swap(BigArray& a, BigArray& b) noexcept { std::swap(a.memory_, b.memory_); }

  /// `length` zeros in a block of its own, page-aligned and padded, so that every device that shares host
  /// memory takes it. `invalid_size` when no memory holds that many, `out_of_memory`.
  [[nodiscard]] static Result<BigArray> create(std::size_t length) {
    auto memory = make_host_memory(length, sizeof(T));
    if (!memory) return fail(memory.error());
    return BigArray(std::move(*memory));
  }
  /// The caller's memory, which outlives all that uses this array.
  [[nodiscard]] static BigArray over(std::span<T> elements) noexcept { return over(elements, nullptr); }
  /// Memory that lives as long as `owner` does.
  [[nodiscard]] static BigArray over(std::span<T> elements, std::shared_ptr<const void> owner) noexcept {
    return BigArray(memory(elements.data(), elements.size_bytes(), true, std::move(owner)));
  }
  /// Takes the elements of a standard vector; it cannot grow any more.
  [[nodiscard]] static BigArray over(std::vector<T>&& elements) {
    auto owner = std::make_shared<std::vector<T>>(std::move(elements));
    const std::span<T> all(*owner);
    return over(all, std::move(owner));
  }
  /// Memory that nobody writes to through this array: constants, a file mapped for reading.
  [[nodiscard]] static BigArray read_only(std::span<const T> elements,
                                          std::shared_ptr<const void> owner = nullptr) noexcept {
    return BigArray(memory(const_cast<T*>(elements.data()), elements.size_bytes(), false, std::move(owner)));
  }

  [[nodiscard]] std::size_t size() const noexcept { return memory_.nbytes / sizeof(T); }
  [[nodiscard]] std::size_t nbytes() const noexcept { return memory_.nbytes; }
  [[nodiscard]] bool empty() const noexcept { return memory_.nbytes == 0; }
  [[nodiscard]] bool writable() const noexcept { return memory_.writable; }
  [[nodiscard]] const T* data() const noexcept { return reinterpret_cast<const T*>(memory_.data); }
  [[nodiscard]] std::span<const T> elements() const noexcept { return {data(), size()}; }
  /// For writing; empty when the array is read-only.
  [[nodiscard]] std::span<T> writable_elements() const noexcept {
    if (!memory_.writable) return {};
    return {reinterpret_cast<T*>(memory_.data), size()};
  }
  [[nodiscard]] const HostMemory& memory() const noexcept { return memory_; }

  /// The same array, not merely an equal one.
  friend bool operator==(const BigArray& a, const BigArray& b) noexcept {
    return a.memory_.data == b.memory_.data && a.memory_.nbytes == b.memory_.nbytes;
  }

 private:
  explicit BigArray(HostMemory memory) noexcept : memory_(std::move(memory)) {}

  static HostMemory memory(T* data, std::size_t nbytes, bool writable,
                           std::shared_ptr<const void> owner) noexcept {
    return {reinterpret_cast<std::byte*>(data), nbytes, nbytes, writable, std::move(owner)};
  }

  HostMemory memory_;
};

}  // namespace berth::inline BERTH_ABI
