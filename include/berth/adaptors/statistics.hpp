// SPDX-License-Identifier: MIT
#pragma once

#include <berth/adaptors/forwarding.hpp>
#include <berth/core/mutex.hpp>
#include <berth/core/packed_allocator.hpp>
#include <berth/core/process.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace berth::inline BERTH_ABI {

/// How much of something there is, was at most, and was in all.
struct Counter {
  std::uint64_t current = 0;
  std::uint64_t peak = 0;
  std::uint64_t total = 0;

  constexpr void add(std::uint64_t amount) noexcept {
    current += amount;
    total += amount;
    peak = std::max(peak, current);
  }
  /// Not below 0: what was adopted from a driver is freed without having been counted.
  constexpr void subtract(std::uint64_t amount) noexcept { current -= std::min(amount, current); }
  friend constexpr bool operator==(const Counter&, const Counter&) = default;
};

/// What a `StatisticsAllocator` saw. One consistent snapshot.
struct Statistics {
  Counter bytes;               ///< bytes requested
  Counter allocations;         ///< allocations made
  std::uint64_t failures = 0;  ///< allocations that upstream refused
  std::uint64_t copyin_bytes = 0;
  std::uint64_t copyout_bytes = 0;
  std::uint64_t transfer_bytes = 0;
  std::uint64_t disk_bytes = 0;

  friend constexpr bool operator==(const Statistics&, const Statistics&) = default;
};

/// Counts what passes through to an allocator: live, peak and total bytes and allocations, failures, bytes
/// moved. Empty allocations and memory wrapped by `external_ptr` are not counted. Copies, and handles from
/// `on`, share the counters. Thread-safe; one short lock an operation, never held across upstream.
template <Allocator Upstream>
class StatisticsAllocator : public Forwarding<Upstream> {
 public:
  using buffer_type = buffer_t<Upstream>;

  explicit StatisticsAllocator(Upstream upstream)
      : StatisticsAllocator(std::move(upstream), std::make_shared<State>()) {}

  [[nodiscard]] Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec = {}) {
    auto buf = this->upstream().alloc(nbytes, spec);
    if (process::forked()) return buf;
    const MutexLock lock(state_->mutex);
    if (!buf) {
      ++state_->seen.failures;
    } else if (counted(nbytes, spec)) {
      state_->seen.bytes.add(nbytes);
      state_->seen.allocations.add(1);
    }
    return buf;
  }

  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept {
    if (process::forked()) return;
    const bool returned = counted(nbytes, spec) && !buf.is_view() && buf.instance() == this->info().instance;
    if (returned) {  // before upstream can hand the memory out again, which would raise the peak
      const MutexLock lock(state_->mutex);
      state_->seen.bytes.subtract(nbytes);
      state_->seen.allocations.subtract(1);
    }
    this->upstream().free(std::move(buf), nbytes, spec);
  }

  [[nodiscard]] Result<void> copyin(const buffer_type& buf, std::span<const std::byte> src) {
    return moved(Forwarding<Upstream>::copyin(buf, src), &Statistics::copyin_bytes, src.size());
  }
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const buffer_type& buf) {
    return moved(Forwarding<Upstream>::copyout(dst, buf), &Statistics::copyout_bytes, dst.size());
  }
  [[nodiscard]] Result<void> transfer(const buffer_type& dest, const buffer_type& src, std::size_t nbytes)
    requires TransferAllocator<Upstream>
  {
    return moved(Forwarding<Upstream>::transfer(dest, src, nbytes), &Statistics::transfer_bytes, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const buffer_type& dest, const FileExtent& extent,
                                                std::size_t nbytes)
    requires DiskCopyAllocator<Upstream>
  {
    return moved(Forwarding<Upstream>::copy_from_disk(dest, extent, nbytes), &Statistics::disk_bytes, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<buffer_type>> ranges,
                                      const LoadOptions& options)
    requires DiskCopyAllocator<Upstream>
  {
    const auto done = Forwarding<Upstream>::load(ranges, options);
    return moved(done, &Statistics::disk_bytes, done ? done->total() : 0);
  }

  [[nodiscard]] Result<StatisticsAllocator> on(const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    auto handle = this->upstream().on(queue);
    if (!handle) return fail(handle.error());
    return StatisticsAllocator(std::move(*handle), state_);
  }

  [[nodiscard]] Statistics statistics() const noexcept {
    if (process::forked()) return {};
    const MutexLock lock(state_->mutex);
    return state_->seen;
  }
  /// Peaks become what is current; totals, failures and bytes moved start again from 0.
  void reset() noexcept {
    if (process::forked()) return;
    const MutexLock lock(state_->mutex);
    const auto live = [](const Counter& counter) { return Counter{counter.current, counter.current, 0}; };
    state_->seen =
        Statistics{.bytes = live(state_->seen.bytes), .allocations = live(state_->seen.allocations)};
  }

 private:
  struct State {
    mutable Mutex mutex;
    Statistics seen BERTH_GUARDED_BY(mutex);
  };

  StatisticsAllocator(Upstream upstream, std::shared_ptr<State> state) noexcept
      : Forwarding<Upstream>(std::move(upstream)), state_(std::move(state)) {}

  static bool counted(std::size_t nbytes, const BufferSpec& spec) noexcept {
    return nbytes != 0 && spec.external_ptr == nullptr;
  }

  template <class T>
  Result<T> moved(Result<T> done, std::uint64_t Statistics::* counter, std::uint64_t nbytes) {
    if (done && !process::forked()) {
      const MutexLock lock(state_->mutex);
      state_->seen.*counter += nbytes;
    }
    return done;
  }

  std::shared_ptr<State> state_;
};

static_assert(QueueAllocator<StatisticsAllocator<PackedAllocator>>);

}  // namespace berth::inline BERTH_ABI
