// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/core/host_range.hpp>
#include <berth/core/mutex.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "context.hpp"
#include "core/mapped_ranges.hpp"
#include "event.hpp"
#include "host_trial.hpp"
#include "registration.hpp"
#include "staging.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// One event of an instance, recorded whenever another stream is to follow one of the instance's: whoever
/// waits on it holds the lock from the record to the wait, which takes the latest (cuStreamWaitEvent).
struct Order {
  Mutex mutex;
  OwnedEvent event BERTH_GUARDED_BY(mutex);
};

/// What the copies of an allocator share.
struct Instance {
  Instance(std::shared_ptr<const Context> works_in, abi::Stream orders_on, bool owns,
           const AllocatorInfo& tells, const HostReach& reach, std::size_t registers_at_once,
           std::shared_ptr<StagingShelf> keeps_staging) noexcept
      : context(std::move(works_in)),
        stream(orders_on),
        owns_stream(owns),
        info(tells),
        host_reach(reach),
        registration_chunk_bytes(registers_at_once),
        staging(std::move(keeps_staging)),
        host_trial(context, info.device, reach) {}
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();

  const std::shared_ptr<const Context> context;
  const abi::Stream stream;  ///< the one it was made with
  const bool owns_stream;
  const AllocatorInfo info;
  const HostReach host_reach;
  const std::size_t registration_chunk_bytes;
  const std::shared_ptr<StagingShelf> staging;
  mutable HostTrial host_trial;
  mutable Order order;
};

/// Lets `find_instance` find it. Instances are known to adaptors by their id alone.
void announce(const std::shared_ptr<const Instance>& instance);
/// Null when there is none of that id any more.
[[nodiscard]] std::shared_ptr<const Instance> find_instance(InstanceId id);

/// Where a block's bytes are, and how they go.
struct Memory {
  enum class Kind : std::uint8_t {
    device,    ///< cuMemFree
    pinned,    ///< cuMemFreeHost
    external,  ///< stays
  };
  Kind kind = Kind::external;
  abi::DevicePtr address = 0;
  std::byte* host = nullptr;  ///< where the host sees it; null where it does not

  /// Gives it back to the driver, which must not be using it any more.
  void release(const Context& context) const noexcept;
};

/// What a block over memory of the host's that is the caller's knows besides. The range stays claimed where
/// the driver does not let go of it.
struct HostLinked {
  HostLinked() = default;
  HostLinked(HostRange range, bool only_read) noexcept : claim(std::move(range)), read_only(only_read) {}
  HostLinked(HostLinked&& other) = default;
  HostLinked& operator=(HostLinked&&) = delete;
  ~HostLinked() {
    if (!registration.release()) claim.keep_claimed();
  }

  HostRange claim;
  Registration registration;  ///< empty where the device reaches any page
  bool read_only = false;
};

/// One allocation, the streams besides the allocator's that use it, and the maps that the host has on it.
/// Counted: the allocation holds one reference until it is freed, and each live map one more.
class Block {
 public:
  Block(const Instance& owner, const Memory& where, std::size_t size, HostLinked linked = {}) noexcept
      : instance(owner), memory(where), nbytes(size), linked_(std::move(linked)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) end(nullptr);
  }
  /// The same by who has made the context current.
  void release(const Current& current) noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) end(&current);
  }
  /// The memory may be in use for ever: it is not given back, nor its range of the host's to another link.
  void keep() noexcept { kept_ = true; }

  /// Work on `stream` uses the block.
  void used_on(abi::Stream stream) BERTH_EXCLUDES(mutex_);
  /// Waits until nothing that the instance's stream, `stream` and the recorded ones hold uses the block, and
  /// keeps it where the driver cannot tell. The context must be current.
  void settle(abi::Stream stream) noexcept BERTH_EXCLUDES(mutex_);

  /// `mapped` when a command that reads, or writes, the range would meet a map, `invalid_argument` when it
  /// would write to what is for reading only. `address` is within the block.
  [[nodiscard]] Result<void> check_access(abi::DevicePtr address, std::size_t size, bool writes,
                                          const char* call) const noexcept {
    if (writes && linked_.read_only) {
      return fail(Error(Errc::invalid_argument, backend)
                      .in(call)
                      .asking(size)
                      .because("the memory was wrapped for reading only"));
    }
    const auto byte_offset = static_cast<std::size_t>(address - memory.address);
    if (!maps.forbids(byte_offset, size, writes)) return {};
    return fail(Error(Errc::mapped, backend).in(call).asking(size).at(byte_offset));
  }

  const Instance& instance;
  const Memory memory;
  const std::size_t nbytes;
  berth::detail::MappedRanges maps;

 private:
  ~Block() = default;
  void end(const Current* current) noexcept;

  HostLinked linked_;
  std::atomic<std::size_t> references_{1};
  bool kept_ = false;
  Mutex mutex_;
  std::vector<abi::Stream> streams_ BERTH_GUARDED_BY(mutex_);
  std::atomic<bool> has_streams_{false};
};

}  // namespace berth::inline BERTH_ABI::cuda::detail
