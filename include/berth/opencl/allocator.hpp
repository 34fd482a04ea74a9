// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/opencl/queue.hpp>
#include <berth/opencl/quirks.hpp>
#include <berth/opencl/types.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace berth::inline BERTH_ABI::opencl {

namespace detail {
class Block;
struct Instance;
}  // namespace detail

/// A run of bytes of an OpenCL buffer object: (root `cl_mem`, byte offset, nbytes). Owns nothing; see
/// `Allocator`.
class ClBuffer {
 public:
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }
  [[nodiscard]] InstanceId instance() const noexcept { return instance_; }
  [[nodiscard]] bool is_view() const noexcept { return view_; }
  [[nodiscard]] std::uintptr_t block() const noexcept {
    return shared_ ? shared_block : reinterpret_cast<std::uintptr_t>(block_);
  }
  [[nodiscard]] ClBuffer resized(std::size_t nbytes) const noexcept {
    return {block_, byte_offset_, nbytes, instance_, view_, shared_};
  }
  /// Where this starts in `root()`.
  [[nodiscard]] std::size_t byte_offset() const noexcept { return byte_offset_; }
  /// The buffer object of the allocation, never a sub-buffer unless the allocation was carved or adopted as
  /// one; null when this is empty. Not retained.
  [[nodiscard]] BERTH_EXPORT cl_mem root() const noexcept;

 private:
  friend class Allocator;
  ClBuffer(detail::Block* block, std::size_t byte_offset, std::size_t nbytes, InstanceId instance, bool view,
           bool shared) noexcept
      : block_(block),
        byte_offset_(byte_offset),
        nbytes_(nbytes),
        instance_(instance),
        view_(view),
        shared_(shared) {}

  detail::Block* block_;
  std::size_t byte_offset_;
  std::size_t nbytes_;
  InstanceId instance_;
  bool view_;
  bool shared_;  // with the caller or another allocation
};

/// What a kernel takes for a buffer: a `cl_mem` and the bytes to add to it.
struct KernelArg {
  cl_mem mem = nullptr;      ///< lives as long as the allocation; not retained
  std::size_t residual = 0;  ///< bytes from the start of `mem` to the buffer, below the base alignment
};

/// Whether `alloc` makes the driver commit the memory. OpenCL drivers allocate lazily: `clCreateBuffer`
/// succeeds and a later command fails. Committing writes one byte on a private queue and waits there, so that
/// `out_of_memory` comes from `alloc`, where it can be handled.
enum class Commit : std::uint8_t {
  automatic,  ///< on devices with `Quirk::lazy_allocation`
  always,
  never,
};

/// How an allocator works.
struct Options {
  Commit commit = Commit::automatic;
  /// `copy_from_disk` goes through pinned chunks although the device shares the host's memory.
  bool stage_disk_copies = false;
  /// What to heed of the driver; by default what `quirks_of` says of the device.
  std::optional<Quirks> quirks = std::nullopt;
};

/// How an allocator takes in host memory of the caller's.
struct WrapOptions {
  /// Kernels only read it (`CL_MEM_READ_ONLY`). The host may still publish to it.
  bool read_only = false;
  /// What the address must be a multiple of. Below 64 drivers were seen to write past the end.
  std::size_t alignment = 64;
};

/// OpenCL buffer objects on one device, ordered on one in-order command queue. OpenCL 1.2 and later.
///
/// `host` asks for `CL_MEM_ALLOC_HOST_PTR`, `cpu_access` too where the device's memory is the host's;
/// `uncached` has no counterpart. `external_ptr` is `CL_MEM_USE_HOST_PTR` over host memory aligned to 64
/// bytes that no other link covers (and of a size that is a multiple of that, under
/// `Quirk::writes_past_tail`); its `free` returns when the driver no longer touches the memory, which
/// waits for the queues that use it and for whoever else retained the `cl_mem`, and tells the sink when that
/// takes longer than five seconds. Drivers may keep a copy of such memory (NVIDIA's does): a read map, not
/// the free, brings the device's bytes home.
///
/// `copyin` and `copyout` return when the copy is done; `transfer`, `fill` and `zero` are queued. A `cl_mem`
/// is deleted by the driver when the commands queued so far that use it have finished (OpenCL 3.0,
/// clReleaseMemObject), so `free` needs no wait. A handle with a queue; copies share the instance.
/// Thread-safe. Images and pipes are not served.
class BERTH_EXPORT Allocator {
 public:
  using buffer_type = ClBuffer;

  /// Makes a context and an in-order queue of its own on the device.
  [[nodiscard]] static Result<Allocator> open(cl_device_id device, const Options& options = {});
  /// One allocator for each device, all in one context, which `transfer` between them needs; each on a queue
  /// of its own. The devices are of one platform, else the driver refuses.
  [[nodiscard]] static Result<std::vector<Allocator>> open(std::span<const cl_device_id> devices,
                                                           const Options& options = {});
  /// Uses the caller's context and queue and retains its own references. The queue must be of the context and
  /// in-order, else `invalid_argument`.
  [[nodiscard]] static Result<Allocator> borrow(cl_context context, cl_command_queue queue,
                                                const Options& options = {});
  /// Takes over the caller's references to both; on failure the caller keeps them.
  [[nodiscard]] static Result<Allocator> adopt(cl_context context, cl_command_queue queue,
                                               const Options& options = {});

  [[nodiscard]] Result<ClBuffer> alloc(std::size_t nbytes, const BufferSpec& spec = {});
  void free(ClBuffer buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept;
  [[nodiscard]] Result<void> copyin(const ClBuffer& buf, std::span<const std::byte> src);
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const ClBuffer& buf);
  /// Where the device offers cl_ext_buffer_device_address, for buffers that berth made and for adopted or
  /// borrowed ones that were made with an address; and over shared virtual memory of the caller's
  /// (`external_ptr` from clSVMAlloc), whose address it is. Elsewhere `unsupported`: core OpenCL has none. A
  /// kernel that uses the address needs it told (clSetKernelArgSVMPointer or clSetKernelExecInfo).
  [[nodiscard]] Result<std::uintptr_t> addr(const ClBuffer& buf);
  [[nodiscard]] AllocatorInfo info() const;
  [[nodiscard]] Result<void> synchronize();

  [[nodiscard]] Result<ClBuffer> offset(const ClBuffer& buf, std::size_t nbytes, std::size_t byte_offset);
  [[nodiscard]] Result<void> transfer(const ClBuffer& dest, const ClBuffer& src, std::size_t nbytes);
  /// Where the device shares the host's memory the file is read into the mapped buffer (`DiskCopy::direct`);
  /// elsewhere, and under `Options::stage_disk_copies`, through two pinned chunks of 4 MiB, one of which is
  /// read while the other is copied (`DiskCopy::buffered`). The chunks are made when first needed and kept
  /// for the next copy. `mapped` while the host has a map on the bytes.
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const ClBuffer& dest, const FileExtent& extent,
                                                std::size_t nbytes);
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<ClBuffer>> ranges,
                                      const LoadOptions& options = {});
  [[nodiscard]] Result<void> fill(const ClBuffer& buf, std::byte value);
  [[nodiscard]] Result<Mapping> map(const ClBuffer& buf, Access access, std::size_t nbytes,
                                    std::size_t byte_offset = 0);

  [[nodiscard]] Result<Allocator> on(const Queue& queue);
  [[nodiscard]] Result<void> record_use(const ClBuffer& buf, const Queue& queue);
  [[nodiscard]] Result<Event> record();
  [[nodiscard]] Result<void> wait(const Event& event);

  [[nodiscard]] bool supports_offset() const noexcept { return true; }
  [[nodiscard]] bool supports_transfer() const noexcept { return true; }
  [[nodiscard]] bool supports_copy_from_disk() const noexcept { return true; }
  [[nodiscard]] bool supports_fill() const noexcept { return true; }
  [[nodiscard]] bool supports_map() const noexcept { return true; }
  [[nodiscard]] bool supports_queues() const noexcept { return true; }

  /// What `alloc` does for `external_ptr`, with more to say. Freed like any buffer; the spec given then does
  /// not matter.
  [[nodiscard]] Result<ClBuffer> wrap(std::span<std::byte> bytes, const WrapOptions& options = {});

  /// Takes over the caller's reference to a buffer object of this context; on failure the caller keeps it. A
  /// sub-buffer becomes its root with an offset. Free it with its size and a default spec.
  [[nodiscard]] Result<ClBuffer> adopt(cl_mem mem);
  /// The same, with a reference of its own.
  [[nodiscard]] Result<ClBuffer> borrow(cl_mem mem);

  /// For a kernel that adds a byte offset: the root, or a sub-buffer at the aligned-down origin, and the
  /// residual. Sub-buffers are made on demand and kept with the allocation. An empty buffer gives a null
  /// `mem`.
  [[nodiscard]] Result<KernelArg> kernel_arg(const ClBuffer& buf);
  /// For a kernel that does not: a `cl_mem` that starts and ends where the buffer does; `misaligned`, with
  /// the numbers, where the device allows none at this offset.
  [[nodiscard]] Result<cl_mem> exact_arg(const ClBuffer& buf);

  /// Cuts an allocation of its own out of one, for pools: `free` it like one from `alloc`, before `buf`. It
  /// is one sub-buffer, through which its kernels and copies and those of its views go, since a buffer and
  /// its sub-buffer, or two that overlap, must not be in use at once (OpenCL 3.0, clCreateSubBuffer); so of
  /// its views `kernel_arg` alone serves those that are not all of it. Carve no bytes that are carved
  /// already. `misaligned`, with the numbers, where the device allows no sub-buffer; `free` releases it at
  /// once.
  [[nodiscard]] Result<ClBuffer> carve(const ClBuffer& buf, std::size_t nbytes, std::size_t byte_offset);

  /// Native handles, not retained.
  [[nodiscard]] cl_context context() const noexcept;
  [[nodiscard]] cl_device_id device() const noexcept;
  [[nodiscard]] cl_command_queue queue() const noexcept;

 private:
  Allocator(std::shared_ptr<detail::Instance> instance, Queue queue) noexcept;

  Result<ClBuffer> take(cl_mem mem, bool retain);
  Result<ClBuffer> make(std::size_t nbytes, const BufferSpec& spec, const WrapOptions& wrap);
  static Result<cl_mem> sub_buffer(const ClBuffer& buf, std::size_t origin, std::size_t nbytes);
  Result<cl_command_queue> same_context(const Queue& queue, const char* call) const;

  std::shared_ptr<detail::Instance> instance_;
  Queue queue_;
};

static_assert(OffsetAllocator<Allocator> && TransferAllocator<Allocator> && DiskCopyAllocator<Allocator> &&
              FillAllocator<Allocator> && MappableAllocator<Allocator> && QueueAllocator<Allocator>);

}  // namespace berth::inline BERTH_ABI::opencl
