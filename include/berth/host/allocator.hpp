// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::inline BERTH_ABI::host {

/// A run of host memory. Owns nothing; see `Allocator`.
class HostBuffer {
 public:
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }
  [[nodiscard]] InstanceId instance() const noexcept { return instance_; }
  [[nodiscard]] bool is_view() const noexcept { return view_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, nbytes_}; }
  [[nodiscard]] std::uintptr_t block() const noexcept { return reinterpret_cast<std::uintptr_t>(root_); }
  [[nodiscard]] HostBuffer resized(std::size_t nbytes) const noexcept {
    return {root_, root_, nbytes, instance_};
  }

 private:
  friend class Allocator;
  HostBuffer(std::byte* root, std::byte* data, std::size_t nbytes, InstanceId instance,
             bool view = false) noexcept
      : root_(root), data_(data), nbytes_(nbytes), instance_(instance), view_(view) {}

  std::byte* root_;
  std::byte* data_;
  std::size_t nbytes_;
  InstanceId instance_;
  bool view_;
};

/// How host memory is had.
struct Options {
  /// Of every allocation, in bytes: a power of two, at least 64 (a cache line, and what OpenCL's widest
  /// vector loads and drivers that write past an unpadded tail need). The size is padded to a multiple of it.
  std::size_t alignment = 64;
  /// Asks the kernel for huge pages behind allocations of 2 MiB and more (`MADV_HUGEPAGE`); a request.
  bool huge_pages = false;
};

/// Host memory as a device. Every operation is done when it returns; there is no queue. `host` and
/// `cpu_access` are always met, `uncached` has no meaning here, `external_ptr` wraps any address. `map` gives
/// the bytes themselves. A trivially copyable handle; thread-safe (two threads must not touch the same bytes,
/// as with any memory).
class BERTH_EXPORT Allocator {
 public:
  using buffer_type = HostBuffer;

  /// `invalid_argument` for an alignment that is no power of two or below 64.
  [[nodiscard]] static Result<Allocator> open(const Options& options = {});

  [[nodiscard]] Result<HostBuffer> alloc(std::size_t nbytes, const BufferSpec& spec = {});
  void free(HostBuffer buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept;
  [[nodiscard]] Result<void> copyin(const HostBuffer& buf, std::span<const std::byte> src);
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const HostBuffer& buf);
  [[nodiscard]] Result<std::uintptr_t> addr(const HostBuffer& buf);
  [[nodiscard]] AllocatorInfo info() const;
  [[nodiscard]] Result<void> synchronize();

  [[nodiscard]] Result<HostBuffer> offset(const HostBuffer& buf, std::size_t nbytes, std::size_t byte_offset);
  [[nodiscard]] Result<void> transfer(const HostBuffer& dest, const HostBuffer& src, std::size_t nbytes);
  /// Reads straight into the buffer: `DiskCopy::direct`.
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const HostBuffer& dest, const FileExtent& extent,
                                                std::size_t nbytes);
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<HostBuffer>> ranges,
                                      const LoadOptions& options = {});
  [[nodiscard]] Result<void> fill(const HostBuffer& buf, std::byte value);
  [[nodiscard]] Result<Mapping> map(const HostBuffer& buf, Access access, std::size_t nbytes,
                                    std::size_t byte_offset = 0);

  [[nodiscard]] bool supports_offset() const noexcept { return true; }
  [[nodiscard]] bool supports_transfer() const noexcept { return true; }
  [[nodiscard]] bool supports_copy_from_disk() const noexcept { return true; }
  [[nodiscard]] bool supports_fill() const noexcept { return true; }
  [[nodiscard]] bool supports_map() const noexcept { return true; }

 private:
  Allocator(const Options& options, InstanceId instance) noexcept : options_(options), instance_(instance) {}

  Options options_;
  InstanceId instance_;
};

static_assert(OffsetAllocator<Allocator> && TransferAllocator<Allocator> && DiskCopyAllocator<Allocator> &&
              FillAllocator<Allocator> && MappableAllocator<Allocator>);

}  // namespace berth::inline BERTH_ABI::host
