// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>

#include <utility>

namespace berth::inline BERTH_ABI {

/// What every adaptor shares: the upstream, and each operation handed to it unchanged. Optional operations
/// are there when upstream has them. An adaptor derives from this and redefines what it is about, `alloc` and
/// `free` at least; `on` it defines itself, since the result is the adaptor's own type.
template <Allocator Upstream>
class Forwarding {
 public:
  using buffer_type = buffer_t<Upstream>;

  [[nodiscard]] Upstream& upstream() noexcept { return upstream_; }
  [[nodiscard]] const Upstream& upstream() const noexcept { return upstream_; }

  [[nodiscard]] Result<void> copyin(const buffer_type& buf, std::span<const std::byte> src) {
    return upstream_.copyin(buf, src);
  }
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const buffer_type& buf) {
    return upstream_.copyout(dst, buf);
  }
  [[nodiscard]] Result<std::uintptr_t> addr(const buffer_type& buf) { return upstream_.addr(buf); }
  [[nodiscard]] AllocatorInfo info() const { return upstream_.info(); }
  [[nodiscard]] Result<void> synchronize() { return upstream_.synchronize(); }

  [[nodiscard]] Result<buffer_type> offset(const buffer_type& buf, std::size_t nbytes,
                                           std::size_t byte_offset)
    requires OffsetAllocator<Upstream>
  {
    return upstream_.offset(buf, nbytes, byte_offset);
  }
  [[nodiscard]] Result<void> transfer(const buffer_type& dest, const buffer_type& src, std::size_t nbytes)
    requires TransferAllocator<Upstream>
  {
    return upstream_.transfer(dest, src, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const buffer_type& dest, const FileExtent& extent,
                                                std::size_t nbytes)
    requires DiskCopyAllocator<Upstream>
  {
    return upstream_.copy_from_disk(dest, extent, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<buffer_type>> ranges,
                                      const LoadOptions& options)
    requires DiskCopyAllocator<Upstream>
  {
    return upstream_.load(ranges, options);
  }
  [[nodiscard]] Result<FileExtent> extent(const buffer_type& buf)
    requires ExtentAllocator<Upstream>
  {
    return upstream_.extent(buf);
  }
  [[nodiscard]] Result<void> fill(const buffer_type& buf, std::byte value)
    requires FillAllocator<Upstream>
  {
    return upstream_.fill(buf, value);
  }
  [[nodiscard]] Result<Mapping> map(const buffer_type& buf, Access access, std::size_t nbytes,
                                    std::size_t byte_offset)
    requires MappableAllocator<Upstream>
  {
    return upstream_.map(buf, access, nbytes, byte_offset);
  }
  [[nodiscard]] Result<void> record_use(const buffer_type& buf, const Queue& queue)
    requires QueueAllocator<Upstream>
  {
    return upstream_.record_use(buf, queue);
  }
  [[nodiscard]] Result<Event> record()
    requires QueueAllocator<Upstream>
  {
    return upstream_.record();
  }
  [[nodiscard]] Result<void> wait(const Event& event)
    requires QueueAllocator<Upstream>
  {
    return upstream_.wait(event);
  }

  [[nodiscard]] bool supports_offset() const noexcept { return berth::supports_offset(upstream_); }
  [[nodiscard]] bool supports_transfer() const noexcept { return berth::supports_transfer(upstream_); }
  [[nodiscard]] bool supports_copy_from_disk() const noexcept {
    return berth::supports_copy_from_disk(upstream_);
  }
  [[nodiscard]] bool supports_extent() const noexcept { return berth::supports_extent(upstream_); }
  [[nodiscard]] bool supports_fill() const noexcept { return berth::supports_fill(upstream_); }
  [[nodiscard]] bool supports_map() const noexcept { return berth::supports_map(upstream_); }
  [[nodiscard]] bool supports_queues() const noexcept { return berth::supports_queues(upstream_); }

 protected:
  explicit Forwarding(Upstream upstream) noexcept : upstream_(std::move(upstream)) {}
  ~Forwarding() = default;
  Forwarding(const Forwarding&) = default;
  Forwarding(Forwarding&&) noexcept = default;
  Forwarding& operator=(const Forwarding&) = default;
  Forwarding& operator=(Forwarding&&) noexcept = default;

 private:
  Upstream upstream_;
};

}  // namespace berth::inline BERTH_ABI
