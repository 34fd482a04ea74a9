// SPDX-License-Identifier: MIT
#pragma once

#include <berth/adaptors/forwarding.hpp>
#include <berth/core/packed_allocator.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace berth::inline BERTH_ABI {

/// When a `FailingAllocator` refuses, and with what. Counts every call that can fail, from 1, in the order
/// made. Shared by the copies of one allocator; thread-safe.
class FailurePlan {
 public:
  /// Refuses the `nth` call from now on (1 is the next), once.
  void fail_nth(std::uint64_t nth, Errc code = Errc::out_of_memory) noexcept {
    code_.store(code, std::memory_order_relaxed);
    failing_call_.store(calls() + nth, std::memory_order_relaxed);
  }
  /// Refuses every allocation of more than `nbytes`.
  void fail_above(std::size_t nbytes, Errc code = Errc::out_of_memory) noexcept {
    size_code_.store(code, std::memory_order_relaxed);
    largest_.store(nbytes, std::memory_order_relaxed);
  }
  /// Refuses nothing.
  void clear() noexcept {
    failing_call_.store(0, std::memory_order_relaxed);
    largest_.store(std::numeric_limits<std::size_t>::max(), std::memory_order_relaxed);
  }
  /// Calls seen.
  [[nodiscard]] std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
  /// Calls refused.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

  /// For the allocator: counts a call, and is its failure when the plan says so.
  [[nodiscard]] Result<void> pass(const char* operation, std::size_t nbytes = 0,
                                  bool allocates = false) noexcept {
    const bool nth =
        calls_.fetch_add(1, std::memory_order_relaxed) + 1 == failing_call_.load(std::memory_order_relaxed);
    const bool large = allocates && nbytes > largest_.load(std::memory_order_relaxed);
    if (!nth && !large) return {};
    refused_.fetch_add(1, std::memory_order_relaxed);
    const Errc code = (nth ? code_ : size_code_).load(std::memory_order_relaxed);
    return fail(Error(code, "failing").in(operation).asking(nbytes).because("told to fail"));
  }

 private:
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> failing_call_{0};
  std::atomic<std::size_t> largest_{std::numeric_limits<std::size_t>::max()};
  std::atomic<Errc> code_{Errc::out_of_memory};
  std::atomic<Errc> size_code_{Errc::out_of_memory};
};

/// Fails on purpose, for tests: the nth call, or allocations over a size, with a chosen code (`plan()`). A
/// refused call does not reach upstream. `free` is never refused. Copies, and handles from `on`, share the
/// plan.
template <Allocator Upstream>
class FailingAllocator : public Forwarding<Upstream> {
  using Base = Forwarding<Upstream>;

 public:
  using buffer_type = buffer_t<Upstream>;

  explicit FailingAllocator(Upstream upstream)
      : FailingAllocator(std::move(upstream), std::make_shared<FailurePlan>()) {}
  /// With a plan that the test keeps.
  FailingAllocator(Upstream upstream, std::shared_ptr<FailurePlan> plan) noexcept
      : Base(std::move(upstream)), plan_(std::move(plan)) {}

  [[nodiscard]] FailurePlan& plan() const noexcept { return *plan_; }

  [[nodiscard]] Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec = {}) {
    if (auto go = plan_->pass("alloc", nbytes, true); !go) return fail(go.error());
    return this->upstream().alloc(nbytes, spec);
  }
  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept {
    this->upstream().free(std::move(buf), nbytes, spec);
  }
  [[nodiscard]] Result<void> copyin(const buffer_type& buf, std::span<const std::byte> src) {
    if (auto go = plan_->pass("copyin", src.size()); !go) return go;
    return Base::copyin(buf, src);
  }
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const buffer_type& buf) {
    if (auto go = plan_->pass("copyout", dst.size()); !go) return go;
    return Base::copyout(dst, buf);
  }
  [[nodiscard]] Result<std::uintptr_t> addr(const buffer_type& buf) {
    if (auto go = plan_->pass("addr"); !go) return fail(go.error());
    return Base::addr(buf);
  }
  [[nodiscard]] Result<void> synchronize() {
    if (auto go = plan_->pass("synchronize"); !go) return go;
    return Base::synchronize();
  }
  [[nodiscard]] Result<buffer_type> offset(const buffer_type& buf, std::size_t nbytes,
                                           std::size_t byte_offset)
    requires OffsetAllocator<Upstream>
  {
    if (auto go = plan_->pass("offset", nbytes); !go) return fail(go.error());
    return Base::offset(buf, nbytes, byte_offset);
  }
  [[nodiscard]] Result<void> transfer(const buffer_type& dest, const buffer_type& src, std::size_t nbytes)
    requires TransferAllocator<Upstream>
  {
    if (auto go = plan_->pass("transfer", nbytes); !go) return go;
    return Base::transfer(dest, src, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const buffer_type& dest, const FileExtent& extent,
                                                std::size_t nbytes)
    requires DiskCopyAllocator<Upstream>
  {
    if (auto go = plan_->pass("copy_from_disk", nbytes); !go) return fail(go.error());
    return Base::copy_from_disk(dest, extent, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<buffer_type>> ranges,
                                      const LoadOptions& options)
    requires DiskCopyAllocator<Upstream>
  {
    std::uint64_t nbytes = 0;
    for (const LoadRange<buffer_type>& range : ranges) nbytes += range.source.nbytes;
    if (auto go = plan_->pass("load", nbytes); !go) return fail(go.error());
    return Base::load(ranges, options);
  }
  [[nodiscard]] Result<FileExtent> extent(const buffer_type& buf)
    requires ExtentAllocator<Upstream>
  {
    if (auto go = plan_->pass("extent"); !go) return fail(go.error());
    return Base::extent(buf);
  }
  [[nodiscard]] Result<void> fill(const buffer_type& buf, std::byte value)
    requires FillAllocator<Upstream>
  {
    if (auto go = plan_->pass("fill", buf.nbytes()); !go) return go;
    return Base::fill(buf, value);
  }
  [[nodiscard]] Result<Mapping> map(const buffer_type& buf, Access access, std::size_t nbytes,
                                    std::size_t byte_offset)
    requires MappableAllocator<Upstream>
  {
    if (auto go = plan_->pass("map", nbytes); !go) return fail(go.error());
    return Base::map(buf, access, nbytes, byte_offset);
  }
  [[nodiscard]] Result<FailingAllocator> on(const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    if (auto go = plan_->pass("on"); !go) return fail(go.error());
    auto handle = this->upstream().on(queue);
    if (!handle) return fail(handle.error());
    return FailingAllocator(std::move(*handle), plan_);
  }
  [[nodiscard]] Result<void> record_use(const buffer_type& buf, const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    if (auto go = plan_->pass("record_use"); !go) return go;
    return Base::record_use(buf, queue);
  }
  [[nodiscard]] Result<Event> record()
    requires QueueAllocator<Upstream>
  {
    if (auto go = plan_->pass("record"); !go) return fail(go.error());
    return Base::record();
  }
  [[nodiscard]] Result<void> wait(const Event& event)
    requires QueueAllocator<Upstream>
  {
    if (auto go = plan_->pass("wait"); !go) return go;
    return Base::wait(event);
  }

 private:
  std::shared_ptr<FailurePlan> plan_;
};

static_assert(QueueAllocator<FailingAllocator<PackedAllocator>>);

}  // namespace berth::inline BERTH_ABI
