// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/buffer_spec.hpp>
#include <berth/core/config.hpp>
#include <berth/core/file_extent.hpp>
#include <berth/core/identity.hpp>
#include <berth/core/load.hpp>
#include <berth/core/mapping.hpp>
#include <berth/core/queue.hpp>
#include <berth/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

/// The allocator concept and its refinements.
///
/// An allocator `a` of buffers `Buf` is a cheap handle to shared state; every operation is thread-safe, none
/// throws. Sizes and offsets are bytes. The compiler checks the expressions; the laws below it cannot check,
/// and `berth/testing/conformance.hpp` does.
///
/// | expression | result | laws |
/// |---|---|---|
/// | `a.alloc(nbytes, spec)` | `Result<Buf>` | contents unspecified unless `spec.zero`; `alloc(0)` is a valid
/// empty buffer without a driver call | | `a.free(std::move(buf), nbytes, spec)` | `void`, noexcept | nbytes
/// and spec as given to alloc; earlier work on the queue may still use the buffer; allocates nothing; a view
/// or another instance's buffer is left alone and reported to the sink | | `a.copyin(buf, src)` |
/// `Result<void>` | host to device, a prefix of the buffer, after the work queued so far; on return `src` may
/// change and later work on the queue sees the data | | `a.copyout(dst, buf)` | `Result<void>` | device to
/// host, a prefix of the buffer, after the work queued so far; on return `dst` holds it | | `a.addr(buf)` |
/// `Result<std::uintptr_t>` | device address; `unsupported` where there is none; 0 for an empty buffer | |
/// `a.info()` | `AllocatorInfo` | does not change over the allocator's life | | `a.synchronize()` |
/// `Result<void>` | waits until the queue is empty |
///
/// Buffers name their root instance; `copyin`, `copyout` and `offset` of another instance's buffer are
/// `wrong_allocator`. Bounds are checked against the buffer or view before a driver sees them
/// (`out_of_range`). A failed operation changes nothing and leaves the allocator usable.
namespace berth::inline BERTH_ABI {

/// What a backend tells of the memory it hands out.
struct AllocatorInfo {
  const char* backend = "";         ///< "host", "opencl", ...: a literal
  InstanceId instance;              ///< what its buffers answer to `instance()`
  DeviceKey device;                 ///< equal keys draw on the same memory
  std::size_t alignment = 1;        ///< of every allocation's first byte, a power of two
  std::size_t granularity = 1;      ///< the backend rounds sizes up to a multiple of it
  std::uint64_t max_bytes = 0;      ///< largest single allocation; above it: `exceeds_device_maximum`
  std::uint64_t total_bytes = 0;    ///< the device's memory; 0 when unknown
  bool shares_host_memory = false;  ///< a map gives the device's own bytes, without a copy
};

/// A backend's buffer: a handle that owns nothing by itself, cheap to move, which knows its extent and its
/// root.
template <class B>
concept BufferHandle = std::is_object_v<B> && requires(const B& buf) {
  { buf.nbytes() } noexcept -> std::same_as<std::size_t>;
  { buf.instance() } noexcept -> std::same_as<InstanceId>;
  { buf.is_view() } noexcept -> std::same_as<bool>;
} && std::is_nothrow_move_constructible_v<B> && std::is_nothrow_destructible_v<B>;

/// The `block()` of an allocation that is not its allocator's alone, but adopted, borrowed, wrapped or
/// carved: no cache may keep it for another caller.
inline constexpr std::uintptr_t shared_block = UINTPTR_MAX;

/// A buffer that names its allocation: `block()` is the same for a root and its views, differs between the
/// live allocations of an instance that are its own, and is 0 for an empty buffer. What an adaptor needs to
/// remember something of a buffer.
template <class B>
concept BlockHandle = BufferHandle<B> && requires(const B& buf) {
  { buf.block() } noexcept -> std::same_as<std::uintptr_t>;
};

/// A root that can be handed out as a smaller one, and back: `resized(nbytes)` is the same allocation with
/// another size, up to the one it was made with. What an adaptor needs to serve a request from a larger
/// block.
template <class B>
concept ResizableHandle = BufferHandle<B> && requires(const B& buf, std::size_t nbytes) {
  { buf.resized(nbytes) } noexcept -> std::same_as<B>;
};

namespace detail {
template <class A>
struct BufferOf {
  using type = void;
};
template <class A>
  requires requires { typename A::buffer_type; }
struct BufferOf<A> {
  using type = typename A::buffer_type;
};
}  // namespace detail

/// The buffer type that `A` declares as `buffer_type`; `void` when it declares none.
template <class A>
using buffer_t = typename detail::BufferOf<A>::type;

/// The seven operations that every allocator has; the table above.
template <class A, class Buf = buffer_t<A>>
concept Allocator =
    BufferHandle<Buf> && std::is_nothrow_move_constructible_v<A> && std::is_nothrow_destructible_v<A> &&
    requires(A& a, const A& ca, Buf& buf, const Buf& cbuf, std::size_t nbytes, const BufferSpec& spec,
             std::span<const std::byte> src, std::span<std::byte> dst) {
      { a.alloc(nbytes, spec) } -> std::same_as<Result<Buf>>;
      { a.free(std::move(buf), nbytes, spec) } noexcept -> std::same_as<void>;
      { a.copyin(cbuf, src) } -> std::same_as<Result<void>>;
      { a.copyout(dst, cbuf) } -> std::same_as<Result<void>>;
      { a.addr(cbuf) } -> std::same_as<Result<std::uintptr_t>>;
      { ca.info() } -> std::same_as<AllocatorInfo>;
      { a.synchronize() } -> std::same_as<Result<void>>;
    };

/// Views: `a.offset(buf, nbytes, byte_offset)` is a handle to a part of `buf` at any byte offset, composed to
/// the root. It owns nothing, is never passed to `free`, and is valid while the root is.
template <class A, class Buf = buffer_t<A>>
concept OffsetAllocator = Allocator<A, Buf> && requires(A& a, const A& ca, const Buf& buf, std::size_t nbytes,
                                                        std::size_t byte_offset) {
  { a.offset(buf, nbytes, byte_offset) } -> std::same_as<Result<Buf>>;
  { ca.supports_offset() } noexcept -> std::same_as<bool>;
};

/// Device to device: the first `nbytes` of `src` to `dest`. `dest` is this instance's, `src` of any instance
/// of the backend that it can reach, else `wrong_allocator`. Queued: after earlier and before later work on
/// both queues. Overlap is `Errc::overlap`.
template <class A, class Buf = buffer_t<A>>
concept TransferAllocator =
    Allocator<A, Buf> && requires(A& a, const A& ca, const Buf& dest, const Buf& src, std::size_t nbytes) {
      { a.transfer(dest, src, nbytes) } -> std::same_as<Result<void>>;
      { ca.supports_transfer() } noexcept -> std::same_as<bool>;
    };

/// File to device without a buffer of the caller's: the first `nbytes` of `extent` to `dest`, after the work
/// queued so far; on return the file may change and later work on the queue sees the data. Beyond the extent
/// or the buffer: `out_of_range`; a file that ends early: `short_read`; a file that the system does not read:
/// `io`. The last two have the bytes done, and leave the bytes of `dest` behind those unspecified.
///
/// `load` does many at once, with progress and a stop token. Every range is checked before the first byte
/// moves. A failure later on has the bytes done in all, in the order of the ranges. Destinations that overlap
/// are the caller's business: a shared byte holds what one of its ranges says, no matter which.
template <class A, class Buf = buffer_t<A>>
concept DiskCopyAllocator =
    Allocator<A, Buf> &&
    requires(A& a, const A& ca, const Buf& dest, const FileExtent& extent, std::size_t nbytes,
             std::span<const LoadRange<Buf>> ranges, const LoadOptions& options) {
      { a.copy_from_disk(dest, extent, nbytes) } -> std::same_as<Result<DiskCopy>>;
      { a.load(ranges, options) } -> std::same_as<Result<DiskCopy>>;
      { ca.supports_copy_from_disk() } noexcept -> std::same_as<bool>;
    };

/// Buffers that are bytes of a file: `a.extent(buf)` says which, valid while the buffer is.
template <class A, class Buf = buffer_t<A>>
concept ExtentAllocator = Allocator<A, Buf> && requires(A& a, const A& ca, const Buf& buf) {
  { a.extent(buf) } -> std::same_as<Result<FileExtent>>;
  { ca.supports_extent() } noexcept -> std::same_as<bool>;
};

/// Sets every byte of `buf` to one value; queued.
template <class A, class Buf = buffer_t<A>>
concept FillAllocator = Allocator<A, Buf> && requires(A& a, const A& ca, const Buf& buf, std::byte value) {
  { a.fill(buf, value) } -> std::same_as<Result<void>>;
  { ca.supports_fill() } noexcept -> std::same_as<bool>;
};

/// Host access: a guard over `nbytes` at `byte_offset`, after the work queued so far. A second map of
/// overlapping bytes, and a copy of bytes that are mapped, are `Errc::mapped` where the backend must know.
template <class A, class Buf = buffer_t<A>>
concept MappableAllocator = Allocator<A, Buf> && requires(A& a, const A& ca, const Buf& buf, Access access,
                                                          std::size_t nbytes, std::size_t byte_offset) {
  { a.map(buf, access, nbytes, byte_offset) } -> std::same_as<Result<Mapping>>;
  { ca.supports_map() } noexcept -> std::same_as<bool>;
};

/// Work on several queues. `on(queue)` is a handle to the same allocator, with the same instance, blocks and
/// budget, that orders on another queue. `record_use` tells that work on `queue` uses `buf`, so that a free
/// waits for it too. `record` is the point that this handle's queue has reached; `wait` makes later work on
/// it wait for another's.
template <class A, class Buf = buffer_t<A>>
concept QueueAllocator =
    Allocator<A, Buf> && requires(A& a, const A& ca, const Buf& buf, const Queue& queue, const Event& event) {
      { a.on(queue) } -> std::same_as<Result<A>>;
      { a.record_use(buf, queue) } -> std::same_as<Result<void>>;
      { a.record() } -> std::same_as<Result<Event>>;
      { a.wait(event) } -> std::same_as<Result<void>>;
      { ca.supports_queues() } noexcept -> std::same_as<bool>;
    };

/// Whether `a` has views on this device. Like its neighbours: false when the type has no such operation.
template <Allocator A>
[[nodiscard]] bool supports_offset(const A& a) noexcept {
  if constexpr (OffsetAllocator<A>)
    return a.supports_offset();
  else
    return false;
}
template <Allocator A>
[[nodiscard]] bool supports_transfer(const A& a) noexcept {
  if constexpr (TransferAllocator<A>)
    return a.supports_transfer();
  else
    return false;
}
template <Allocator A>
[[nodiscard]] bool supports_copy_from_disk(const A& a) noexcept {
  if constexpr (DiskCopyAllocator<A>)
    return a.supports_copy_from_disk();
  else
    return false;
}
template <Allocator A>
[[nodiscard]] bool supports_extent(const A& a) noexcept {
  if constexpr (ExtentAllocator<A>)
    return a.supports_extent();
  else
    return false;
}
template <Allocator A>
[[nodiscard]] bool supports_fill(const A& a) noexcept {
  if constexpr (FillAllocator<A>)
    return a.supports_fill();
  else
    return false;
}
template <Allocator A>
[[nodiscard]] bool supports_map(const A& a) noexcept {
  if constexpr (MappableAllocator<A>)
    return a.supports_map();
  else
    return false;
}
template <Allocator A>
[[nodiscard]] bool supports_queues(const A& a) noexcept {
  if constexpr (QueueAllocator<A>)
    return a.supports_queues();
  else
    return false;
}

}  // namespace berth::inline BERTH_ABI
