// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace berth::inline BERTH_ABI {

/// Any backend's buffer, type-erased and held in place; never on the heap. Like the buffer it holds it owns
/// no memory: `berth::Buffer` does. Move-only; empty when default-constructed or moved from: 0 bytes of no
/// instance.
class PackedBuffer {
 public:
  /// The largest buffer that fits.
  static constexpr std::size_t capacity = 48;

  PackedBuffer() noexcept = default;

  /// Holds `buf`.
  template <class B>
    requires(!std::same_as<B, PackedBuffer> && BufferHandle<B>)
  explicit PackedBuffer(B buf) noexcept : ops_(&ops_for<B>) {
    static_assert(sizeof(B) <= capacity, "a buffer larger than PackedBuffer::capacity does not fit in place");
    static_assert(alignof(B) <= alignof(std::max_align_t));
    std::construct_at(reinterpret_cast<B*>(storage_.data()), std::move(buf));
  }

  PackedBuffer(PackedBuffer&& other) noexcept { take(other); }
  PackedBuffer& operator=(PackedBuffer&& other) noexcept {
    PackedBuffer moved(std::move(other));
    reset();
    take(moved);
    return *this;
  }
  ~PackedBuffer() { reset(); }

  /// Becomes empty: forgets the handle, frees nothing.
  void reset() noexcept {
    if (const Ops* ops = std::exchange(ops_, nullptr); ops != nullptr && ops->destroy != nullptr) {
      ops->destroy(storage_.data());
    }
  }

  friend void swap(PackedBuffer& a, PackedBuffer& b) noexcept {
    PackedBuffer kept;
    kept.take(a);
    a.take(b);
    b.take(kept);
  }

  [[nodiscard]] bool empty() const noexcept { return ops_ == nullptr; }

  [[nodiscard]] std::size_t nbytes() const noexcept { return empty() ? 0 : ops_->nbytes(storage_.data()); }
  [[nodiscard]] InstanceId instance() const noexcept {
    return empty() ? InstanceId{} : ops_->instance(storage_.data());
  }
  [[nodiscard]] bool is_view() const noexcept { return !empty() && ops_->is_view(storage_.data()); }

  /// See `BlockHandle`; 0 as well when the buffer that this holds does not name its allocation.
  [[nodiscard]] std::uintptr_t block() const noexcept {
    return !empty() && ops_->block != nullptr ? ops_->block(storage_.data()) : 0;
  }
  /// See `ResizableHandle`; empty when the buffer that this holds cannot be resized.
  [[nodiscard]] PackedBuffer resized(std::size_t nbytes) const noexcept {
    PackedBuffer other;
    if (!empty() && ops_->resize != nullptr) ops_->resize(storage_.data(), nbytes, other);
    return other;
  }

  /// The backend's own buffer; null when this holds another type.
  template <BufferHandle B>
  [[nodiscard]] const B* as() const noexcept {
    const bool same = !empty() && (ops_ == &ops_for<B> || ops_->type == TypeId::of<B>());
    return same ? std::launder(reinterpret_cast<const B*>(storage_.data())) : nullptr;
  }
  template <BufferHandle B>
  [[nodiscard]] B* as() noexcept {
    return const_cast<B*>(std::as_const(*this).template as<B>());
  }

 private:
  struct Ops {
    TypeId type;
    std::size_t (*nbytes)(const std::byte* storage) noexcept;
    InstanceId (*instance)(const std::byte* storage) noexcept;
    bool (*is_view)(const std::byte* storage) noexcept;
    std::uintptr_t (*block)(const std::byte* storage) noexcept;  // null: it names none
    void (*resize)(const std::byte* storage, std::size_t nbytes,
                   PackedBuffer& into) noexcept;                // null: it cannot
    void (*relocate)(std::byte* to, std::byte* from) noexcept;  // null: a copy of the bytes
    void (*destroy)(std::byte* storage) noexcept;               // null: nothing to do
  };

  template <class B>
  static const B& held(const std::byte* storage) noexcept {
    return *std::launder(reinterpret_cast<const B*>(storage));
  }
  template <class B>
  static void relocate(std::byte* to, std::byte* from) noexcept {
    B& source = *std::launder(reinterpret_cast<B*>(from));
    std::construct_at(reinterpret_cast<B*>(to), std::move(source));
    std::destroy_at(&source);
  }
  template <class B>
  static constexpr auto block_of() noexcept -> decltype(Ops::block) {
    if constexpr (BlockHandle<B>) {
      return [](const std::byte* storage) noexcept { return held<B>(storage).block(); };
    } else {
      return nullptr;
    }
  }
  template <class B>
  static constexpr auto resize_of() noexcept -> decltype(Ops::resize) {
    if constexpr (ResizableHandle<B>) {
      return [](const std::byte* storage, std::size_t nbytes, PackedBuffer& into) noexcept {
        into = PackedBuffer(held<B>(storage).resized(nbytes));
      };
    } else {
      return nullptr;
    }
  }
  template <class B>
  static constexpr Ops ops_for{
      TypeId::of<B>(),
      [](const std::byte* storage) noexcept { return held<B>(storage).nbytes(); },
      [](const std::byte* storage) noexcept { return held<B>(storage).instance(); },
      [](const std::byte* storage) noexcept { return held<B>(storage).is_view(); },
      block_of<B>(),
      resize_of<B>(),
      std::is_trivially_copyable_v<B> ? nullptr : &relocate<B>,
      std::is_trivially_destructible_v<B>
          ? nullptr
          : +[](std::byte*
                    storage) noexcept { std::destroy_at(std::launder(reinterpret_cast<B*>(storage))); },
  };

  void take(PackedBuffer& other) noexcept {
    ops_ = std::exchange(other.ops_, nullptr);
    if (ops_ == nullptr) return;
    if (ops_->relocate != nullptr) {
      ops_->relocate(storage_.data(), other.storage_.data());
    } else {
      std::memcpy(storage_.data(), other.storage_.data(), capacity);
    }
  }
  alignas(std::max_align_t) std::array<std::byte, capacity> storage_;
  const Ops* ops_ = nullptr;
};

static_assert(BlockHandle<PackedBuffer> && ResizableHandle<PackedBuffer>);

}  // namespace berth::inline BERTH_ABI
