// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/io/exact.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace berth::inline BERTH_ABI::disk {

namespace detail {
class Store;
}  // namespace detail

/// A run of bytes of a scratch file. Owns nothing; see `Allocator`.
class DiskBuffer {
 public:
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }
  [[nodiscard]] InstanceId instance() const noexcept { return instance_; }
  [[nodiscard]] bool is_view() const noexcept { return view_; }
  [[nodiscard]] std::uintptr_t block() const noexcept { return store_ != nullptr ? root_ + 1 : 0; }
  [[nodiscard]] DiskBuffer resized(std::size_t nbytes) const noexcept {
    return {store_, root_, root_, nbytes, instance_};
  }

 private:
  friend class Allocator;
  DiskBuffer(detail::Store* store, std::uint64_t root, std::uint64_t first, std::size_t nbytes,
             InstanceId instance, bool view = false) noexcept
      : store_(store), root_(root), first_(first), nbytes_(nbytes), instance_(instance), view_(view) {}

  detail::Store* store_;  // null when this is empty
  std::uint64_t root_;    // first byte of the allocation, in the file
  std::uint64_t first_;   // first byte of this
  std::size_t nbytes_;
  InstanceId instance_;
  bool view_;
};

/// How scratch space is had.
struct Options {
  /// The file never grows by more than this; beyond it, `out_of_memory`. Bytes.
  std::uint64_t limit_bytes = io::max_file_bytes;
};

/// Scratch space in one file, as a device: for what does not fit elsewhere, and to hand to whatever reads
/// files (`extent`). Every operation is done when it returns; there is no queue. Space is handed out first
/// fit, in steps of 4096 bytes, and reserved when it is (where the file system can), so that a full disk is
/// `out_of_memory` from `alloc`. Freed space is used again; the file keeps its size until the last handle is
/// gone.
///
/// `uncached`, `cpu_access` and `nolru` have no meaning here; `host` and `external_ptr` are `unsupported`.
/// There are no addresses and no maps. What was written is not synced. Nobody else may write to, or resize,
/// the file. Copies share the file. Thread-safe.
class BERTH_EXPORT Allocator {
 public:
  using buffer_type = DiskBuffer;

  /// In a new file without a name, in that directory, which goes with the last handle.
  [[nodiscard]] static Result<Allocator> open(const std::string& directory, const Options& options = {});
  /// In a file of the caller's, behind the bytes that it holds; it shrinks back to these in the end. Takes
  /// over the descriptor; on failure the caller keeps it. It must be of a regular file, readable and
  /// writable, without O_DIRECT and O_APPEND: else `invalid_argument`.
  [[nodiscard]] static Result<Allocator> adopt(int fd, const Options& options = {});
  /// The same, with a duplicate of its own.
  [[nodiscard]] static Result<Allocator> borrow(int fd, const Options& options = {});

  [[nodiscard]] Result<DiskBuffer> alloc(std::size_t nbytes, const BufferSpec& spec = {});
  void free(DiskBuffer buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept;
  [[nodiscard]] Result<void> copyin(const DiskBuffer& buf, std::span<const std::byte> src);
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const DiskBuffer& buf);
  /// `unsupported`, but for an empty buffer.
  [[nodiscard]] Result<std::uintptr_t> addr(const DiskBuffer& buf);
  [[nodiscard]] AllocatorInfo info() const;
  [[nodiscard]] Result<void> synchronize();

  [[nodiscard]] Result<DiskBuffer> offset(const DiskBuffer& buf, std::size_t nbytes, std::size_t byte_offset);
  /// Reads every instance's buffers.
  [[nodiscard]] Result<void> transfer(const DiskBuffer& dest, const DiskBuffer& src, std::size_t nbytes);
  /// From file to file, within the kernel where it can: `DiskCopy::direct`.
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const DiskBuffer& dest, const FileExtent& extent,
                                                std::size_t nbytes);
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<DiskBuffer>> ranges,
                                      const LoadOptions& options = {});
  [[nodiscard]] Result<FileExtent> extent(const DiskBuffer& buf);
  [[nodiscard]] Result<void> fill(const DiskBuffer& buf, std::byte value);

  [[nodiscard]] bool supports_offset() const noexcept { return true; }
  [[nodiscard]] bool supports_transfer() const noexcept { return true; }
  [[nodiscard]] bool supports_copy_from_disk() const noexcept { return true; }
  [[nodiscard]] bool supports_extent() const noexcept { return true; }
  [[nodiscard]] bool supports_fill() const noexcept { return true; }

 private:
  explicit Allocator(std::shared_ptr<detail::Store> store) noexcept;

  std::shared_ptr<detail::Store> store_;
};

static_assert(OffsetAllocator<Allocator> && TransferAllocator<Allocator> && DiskCopyAllocator<Allocator> &&
              ExtentAllocator<Allocator> && FillAllocator<Allocator>);

}  // namespace berth::inline BERTH_ABI::disk
