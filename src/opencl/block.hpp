// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/host_range.hpp>
#include <berth/core/identity.hpp>
#include <berth/core/mutex.hpp>
#include <berth/opencl/queue.hpp>
#include <berth/opencl/quirks.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/mapped_ranges.hpp"
#include "handle.hpp"
#include "staging.hpp"

namespace berth::inline BERTH_ABI::opencl::detail {

/// What the copies of an allocator share.
struct Instance {
  Handle<cl_context> context;
  cl_device_id device = nullptr;
  Queue queue;                            ///< the one it was made with
  Handle<cl_command_queue> commit_queue;  ///< null when allocations are not committed
  InstanceId id;
  std::size_t base_alignment = 1;
  std::uint64_t max_bytes = 0;
  std::uint64_t total_bytes = 0;
  bool unified_memory = false;
  Quirks quirks;
  bool device_addresses = false;  ///< buffers are made with one (cl_ext_buffer_device_address)
  bool shared_virtual_memory = false;
  std::size_t context_devices = 1;
  std::size_t device_index = 0;  ///< of `device` among those of the context
  bool stage_disk_copies = false;
  std::shared_ptr<StagingShelf> staging;
};

/// What a block over the caller's memory knows besides. The destructor callback shares it: it comes even when
/// nobody waits for it any more.
struct External {
  HostRange claim;
  Mutex mutex;
  bool deleted BERTH_GUARDED_BY(mutex) = false;  ///< set by the buffer object's destructor callback
  std::condition_variable_any on_deleted;
  std::vector<Queue> queues BERTH_GUARDED_BY(mutex);  ///< that use it, besides the allocator's own
  bool lost = false;                                  ///< the device is, as whoever frees the block has found

  void tell_deleted() BERTH_EXCLUDES(mutex);
  /// Whether the driver deletes the object within that time.
  [[nodiscard]] bool deleted_within(std::chrono::seconds time) BERTH_EXCLUDES(mutex);
};

/// A sub-buffer of a root object.
[[nodiscard]] Result<Handle<cl_mem>> make_sub_buffer(cl_mem root, std::size_t origin, std::size_t size);

/// One allocation: the buffer object, the sub-buffers made from it, and the maps the host has on it. Counted:
/// the allocation holds one reference until it is freed, and each live map and each block carved from it one
/// more.
class Block {
 public:
  Block(const Instance& owner, Handle<cl_mem> object, std::size_t size,
        std::shared_ptr<External> memory) noexcept
      : instance(owner), nbytes(size), external(std::move(memory)), root(std::move(object)) {}
  /// A block carved from another, over a sub-buffer of its own.
  Block(Block& from, Handle<cl_mem> sub_buffer, std::size_t size) noexcept
      : instance(from.instance), nbytes(size), root(std::move(sub_buffer)), parent(&from) {
    from.retain();
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  /// Claims a range for a map: `mapped` when it overlaps a live one. OpenCL leaves overlapping maps that
  /// write undefined, and an unmap is ambiguous when two share an address.
  [[nodiscard]] Result<void> begin_map(std::size_t byte_offset, std::size_t size, bool writes);
  /// `unmapped` false: the driver refused, so the range stays mapped for good.
  void end_map(std::size_t byte_offset, std::size_t size, bool unmapped) noexcept;

  /// `mapped` when a command that reads, or writes, the range would meet a live map: the device may not use a
  /// region mapped for writing, nor write one mapped for reading (OpenCL 3.0, clEnqueueMapBuffer).
  [[nodiscard]] Result<void> check_unmapped(std::size_t byte_offset, std::size_t size, bool writes,
                                            const char* call) const;
  [[nodiscard]] bool has_maps() const noexcept { return !maps_.empty(); }

  /// The sub-buffer of that range, made on first use and kept until the block is released.
  [[nodiscard]] Result<cl_mem> sub_buffer(std::size_t origin, std::size_t size) BERTH_EXCLUDES(mutex_);
  /// Keeps a sub-buffer that exists.
  void keep(std::size_t origin, std::size_t size, Handle<cl_mem> mem) BERTH_EXCLUDES(mutex_);

  const Instance& instance;
  const std::size_t nbytes;                  ///< of the object
  const std::shared_ptr<External> external;  ///< null when the memory is the driver's
  Handle<cl_mem> root;
  Block* const parent = nullptr;  ///< what this was carved from

 private:
  struct SubBuffer {
    std::size_t origin;
    std::size_t nbytes;
    Handle<cl_mem> mem;
  };

  ~Block();

  std::atomic<std::size_t> references_{1};
  berth::detail::MappedRanges maps_;
  Mutex mutex_;
  std::vector<SubBuffer> sub_buffers_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::inline BERTH_ABI::opencl::detail
