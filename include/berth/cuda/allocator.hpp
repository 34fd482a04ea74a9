// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/cuda/abi.hpp>
#include <berth/cuda/driver.hpp>
#include <berth/cuda/host_registration.hpp>
#include <berth/cuda/queue.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace berth::inline BERTH_ABI::cuda {

namespace detail {
class Block;
struct Instance;
}  // namespace detail

/// A run of bytes that a CUDA device reaches. Owns nothing; see `Allocator`.
class CudaBuffer {
 public:
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }
  [[nodiscard]] InstanceId instance() const noexcept { return instance_; }
  [[nodiscard]] bool is_view() const noexcept { return view_; }
  [[nodiscard]] std::uintptr_t block() const noexcept {
    return shared_ ? shared_block : reinterpret_cast<std::uintptr_t>(block_);
  }
  [[nodiscard]] CudaBuffer resized(std::size_t nbytes) const noexcept {
    return {block_, address_, nbytes, instance_, view_, shared_};
  }
  /// What a kernel takes; 0 when this is empty.
  [[nodiscard]] abi::DevicePtr address() const noexcept { return address_; }
  /// Where the host sees the same bytes: of memory allocated or registered with `host`; else null.
  [[nodiscard]] BERTH_EXPORT std::byte* host_data() const noexcept;

 private:
  friend class Allocator;
  CudaBuffer(detail::Block* block, abi::DevicePtr address, std::size_t nbytes, InstanceId instance, bool view,
             bool shared) noexcept
      : block_(block),
        address_(address),
        nbytes_(nbytes),
        instance_(instance),
        view_(view),
        shared_(shared) {}

  detail::Block* block_;
  abi::DevicePtr address_;
  std::size_t nbytes_;
  InstanceId instance_;
  bool view_;
  bool shared_;  // with the caller
};

/// How an allocator works.
struct Options {
  /// Whose calls are made; null: the process's own driver. Must outlive all that is made with it, events
  /// included.
  const Driver* driver = nullptr;
  /// The most that one call registers of the host's memory; whole pages of 4096 bytes. One call for 512 GiB
  /// was reported to fail (driver 580), and 64 GiB to work.
  std::size_t registration_chunk_bytes = std::size_t{32} << 30U;
};

/// How an allocator takes in host memory of the caller's.
struct WrapOptions {
  /// The device only reads it, and `copyin`, `fill` and `transfer` into it are refused. Its pages may be for
  /// reading only.
  bool read_only = false;
  /// What the address must be a multiple of.
  std::size_t alignment = 64;
  /// Registers the memory also where the device reaches pageable memory.
  bool always_register = false;
};

/// Memory of one CUDA device, ordered on one stream. Driver API, CUDA 11.4 and later.
///
/// `host` is pinned memory that every context reaches (`cuMemHostAlloc`, portable and mapped); with
/// `uncached`, write-combined: the host reads it slowly. `cpu_access` has no counterpart, nor has `uncached`
/// alone. `external_ptr` is a device address of this context, or, with `host`, a range of host memory aligned
/// to 64 bytes that no other link covers: see `wrap`.
///
/// `copyin` and `copyout` return when the copy is done; `transfer`, `fill` and `zero` are queued, but for
/// pinned memory, which the driver may fill before it returns (CUDA, "API synchronization behavior"). `free`
/// waits for what the allocator's stream, this handle's and the recorded ones hold: `cuMemFree` "may perform
/// implicit synchronization" (cuda.h) and may not. An adaptor that keeps freed blocks spares that. `map`
/// gives the bytes themselves where the host has them (`host`), else a copy on the heap that is written back
/// by `unmap`. Memory that is mapped when it is freed is reported, and goes with the map.
///
/// The calling thread's current context is set for each call and restored. A fault that leaves the driver
/// unusable, which takes every context of the process with it, is told to the sink once; it and every later
/// call answer `device_lost`, and what the contexts held goes with the process. A handle with a stream;
/// copies share the instance. Thread-safe.
class BERTH_EXPORT Allocator {
 public:
  using buffer_type = CudaBuffer;

  /// Works in the device's primary context, which the CUDA runtime API uses too, on a stream of its own. That
  /// stream does not wait for the default stream, nor that for it (`CU_STREAM_NON_BLOCKING`): order kernels
  /// of other streams with `record` and `wait`, or borrow their stream.
  [[nodiscard]] static Result<Allocator> open(int ordinal, const Options& options = {});
  /// Uses the caller's context and stream, which must outlive the allocator and all that it made. A null
  /// stream is the legacy default one. `invalid_argument` for a stream of another context, and for the
  /// per-thread default stream, which is another one on each thread.
  [[nodiscard]] static Result<Allocator> borrow(abi::Context context, abi::Stream stream,
                                                const Options& options = {});
  /// Takes the caller's context (of `cuCtxCreate`) and stream over: the stream is destroyed with the last
  /// handle, the context when the last event is gone as well. On failure the caller keeps them.
  [[nodiscard]] static Result<Allocator> adopt(abi::Context context, abi::Stream stream,
                                               const Options& options = {});

  [[nodiscard]] Result<CudaBuffer> alloc(std::size_t nbytes, const BufferSpec& spec = {});
  void free(CudaBuffer buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept;
  [[nodiscard]] Result<void> copyin(const CudaBuffer& buf, std::span<const std::byte> src);
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const CudaBuffer& buf);
  [[nodiscard]] Result<std::uintptr_t> addr(const CudaBuffer& buf);
  [[nodiscard]] AllocatorInfo info() const;
  [[nodiscard]] Result<void> synchronize();

  [[nodiscard]] Result<CudaBuffer> offset(const CudaBuffer& buf, std::size_t nbytes, std::size_t byte_offset);
  /// Between the device memory of two contexts `cuMemcpyPeerAsync`, after peer access was enabled, once for
  /// each direction. Where the devices have none the driver stages through host memory. `src` of an allocator
  /// with another table of entry points is `wrong_allocator`.
  [[nodiscard]] Result<void> transfer(const CudaBuffer& dest, const CudaBuffer& src, std::size_t nbytes);
  /// Through two pinned chunks of 4 MiB, one of which is read while the other is copied
  /// (`DiskCopy::buffered`). The chunks are made when first needed and kept for the next copy; where no
  /// memory can be pinned they are of the heap, and go at once.
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const CudaBuffer& dest, const FileExtent& extent,
                                                std::size_t nbytes);
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<CudaBuffer>> ranges,
                                      const LoadOptions& options = {});
  [[nodiscard]] Result<void> fill(const CudaBuffer& buf, std::byte value);
  [[nodiscard]] Result<Mapping> map(const CudaBuffer& buf, Access access, std::size_t nbytes,
                                    std::size_t byte_offset = 0);

  /// The stream must be of this allocator's context.
  [[nodiscard]] Result<Allocator> on(const Queue& queue);
  [[nodiscard]] Result<void> record_use(const CudaBuffer& buf, const Queue& queue);
  [[nodiscard]] Result<Event> record();
  /// The event may be of another context or device.
  [[nodiscard]] Result<void> wait(const Event& event);

  [[nodiscard]] bool supports_offset() const noexcept { return true; }
  [[nodiscard]] bool supports_transfer() const noexcept { return true; }
  [[nodiscard]] bool supports_copy_from_disk() const noexcept { return true; }
  [[nodiscard]] bool supports_fill() const noexcept { return true; }
  [[nodiscard]] bool supports_map() const noexcept { return true; }
  [[nodiscard]] bool supports_queues() const noexcept { return true; }

  /// What `alloc` does for `external_ptr` with `host`, with more to say. Freed like any buffer; the spec
  /// given then does not matter.
  ///
  /// The memory is registered (`cuMemHostRegister`), for every context; parts of what berth has registered
  /// share that, and memory that somebody else pinned stays pinned by them, for at least as long as the
  /// buffer lives. Where the device reaches pageable memory nothing is registered. `overlap` when a part of
  /// the memory is pinned and not all of it; `unsupported` when the driver registers no such memory.
  [[nodiscard]] Result<CudaBuffer> wrap(std::span<std::byte> bytes, const WrapOptions& options = {});
  /// Registers host memory ahead of the buffers and links over it, which then cost no registration. It stays
  /// registered, in this context, until the last of them and the result are gone; a borrowed context must
  /// outlive them all. It is no link: ranges of it may be linked, also by allocators of other contexts.
  [[nodiscard]] Result<HostRegistration> register_host(std::span<std::byte> bytes, bool read_only = false);

  /// Takes over an allocation of this context (`cuMemAlloc`), which starts at `address` and holds at least
  /// `nbytes`; `free` gives it to `cuMemFree`. On failure the caller keeps it. Free it with its size and a
  /// default spec.
  [[nodiscard]] Result<CudaBuffer> adopt(abi::DevicePtr address, std::size_t nbytes);
  /// Uses a part of an allocation of this context, which the caller keeps alive until `free`.
  [[nodiscard]] Result<CudaBuffer> borrow(abi::DevicePtr address, std::size_t nbytes);

  /// Native handles. The legacy default stream is `CU_STREAM_LEGACY`.
  [[nodiscard]] abi::Context context() const noexcept;
  [[nodiscard]] abi::Device device() const noexcept;
  [[nodiscard]] abi::Stream queue() const noexcept { return stream_; }
  [[nodiscard]] const Driver& driver() const noexcept;

 private:
  Allocator(std::shared_ptr<detail::Instance> instance, abi::Stream stream) noexcept;

  static Result<Allocator> use(abi::Context context, abi::Stream stream, const Options& options, bool adopts);
  Result<CudaBuffer> take(abi::DevicePtr address, std::size_t nbytes, bool adopts);
  Result<abi::Stream> same_context(const Queue& queue, const char* call) const;

  std::shared_ptr<detail::Instance> instance_;
  abi::Stream stream_;
};

static_assert(OffsetAllocator<Allocator> && TransferAllocator<Allocator> && DiskCopyAllocator<Allocator> &&
              FillAllocator<Allocator> && MappableAllocator<Allocator> && QueueAllocator<Allocator>);

}  // namespace berth::inline BERTH_ABI::cuda
