// SPDX-License-Identifier: MIT
#pragma once

#include <berth/adaptors/forwarding.hpp>
#include <berth/core/packed_allocator.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace berth::inline BERTH_ABI {

/// A byte budget over an allocator: an allocation that would pass it is `out_of_memory` with the bytes asked,
/// the limit and the bytes live, and upstream is not asked. Counts the bytes requested; memory wrapped by
/// `external_ptr` is not counted. Copies, and handles from `on`, share the budget. Thread-safe, without a
/// lock.
template <Allocator Upstream>
class LimitingAllocator : public Forwarding<Upstream> {
 public:
  using buffer_type = buffer_t<Upstream>;

  LimitingAllocator(Upstream upstream, std::uint64_t limit_bytes)
      : LimitingAllocator(std::move(upstream), std::make_shared<Budget>(limit_bytes)) {}

  [[nodiscard]] Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec = {}) {
    if (!counted(spec)) return this->upstream().alloc(nbytes, spec);
    if (!budget_->reserve(nbytes)) {
      return fail(Error(Errc::out_of_memory, this->info().backend)
                      .in("LimitingAllocator::alloc")
                      .asking(nbytes)
                      .limited_to(budget_->limit)
                      .with_live(live_bytes()));
    }
    auto buf = this->upstream().alloc(nbytes, spec);
    if (!buf) budget_->give_back(nbytes);
    return buf;
  }

  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept {
    const bool returned = counted(spec) && !buf.is_view() && buf.instance() == this->info().instance;
    this->upstream().free(std::move(buf), nbytes, spec);
    if (returned) budget_->give_back(nbytes);
  }

  [[nodiscard]] Result<LimitingAllocator> on(const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    auto handle = this->upstream().on(queue);
    if (!handle) return fail(handle.error());
    return LimitingAllocator(std::move(*handle), budget_);
  }

  [[nodiscard]] std::uint64_t limit_bytes() const noexcept { return budget_->limit; }
  [[nodiscard]] std::uint64_t live_bytes() const noexcept {
    return budget_->live.load(std::memory_order_relaxed);
  }

 private:
  struct Budget {
    explicit Budget(std::uint64_t limit_bytes) noexcept : limit(limit_bytes) {}
    // Compares by subtraction, so that no sum can wrap.
    [[nodiscard]] bool reserve(std::uint64_t nbytes) noexcept {
      std::uint64_t now = live.load(std::memory_order_relaxed);
      do {
        if (nbytes > limit - now) return false;
      } while (!live.compare_exchange_weak(now, now + nbytes, std::memory_order_relaxed));
      return true;
    }
    // Never below 0: a buffer that was adopted from the driver is freed here too, and was never reserved.
    void give_back(std::uint64_t nbytes) noexcept {
      std::uint64_t now = live.load(std::memory_order_relaxed);
      while (!live.compare_exchange_weak(now, now - std::min(nbytes, now), std::memory_order_relaxed)) {
      }
    }
    const std::uint64_t limit;
    std::atomic<std::uint64_t> live{0};
  };

  LimitingAllocator(Upstream upstream, std::shared_ptr<Budget> budget) noexcept
      : Forwarding<Upstream>(std::move(upstream)), budget_(std::move(budget)) {}

  static bool counted(const BufferSpec& spec) noexcept { return spec.external_ptr == nullptr; }

  std::shared_ptr<Budget> budget_;
};

static_assert(QueueAllocator<LimitingAllocator<PackedAllocator>>);

}  // namespace berth::inline BERTH_ABI
