// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/checks.hpp>
#include <berth/core/packed_allocator.hpp>

#include <atomic>
#include <cstddef>
#include <new>
#include <utility>

namespace berth::inline BERTH_ABI {

/// Owns one allocation, or a view of one. Move-only; freed when the last of the root and its views is gone,
/// and its allocator lives at least that long, so no order of destruction is wrong. Double free and use after
/// free cannot be written. Like a standard container: one object, one thread at a time; distinct objects,
/// views included, may be used on different threads.
///
/// Empty (default-constructed or moved from): 0 bytes, and every operation answers `invalid_argument`.
class Buffer {
 public:
  Buffer() noexcept = default;

  /// Allocates `nbytes`.
  [[nodiscard]] static Result<Buffer> create(PackedAllocator allocator, std::size_t nbytes,
                                             const BufferSpec& spec = {}) {
    auto handle = allocator.alloc(nbytes, spec);
    if (!handle) return fail(handle.error());
    return Buffer(std::move(allocator), std::move(*handle), spec);
  }

  /// Takes over a buffer that `allocator` made with `spec` or adopted from its driver.
  [[nodiscard]] static Buffer own(PackedAllocator allocator, PackedBuffer handle,
                                  const BufferSpec& spec = {}) noexcept {
    if (handle.empty()) return Buffer();
    return Buffer(std::move(allocator), std::move(handle), spec);
  }

  Buffer(Buffer&& other) noexcept
      : allocator_(std::move(other.allocator_)),
        handle_(std::move(other.handle_)),
        spec_(std::exchange(other.spec_, {})),
        byte_offset_(std::exchange(other.byte_offset_, 0)),
        root_(std::exchange(other.root_, nullptr)),
        view_(std::exchange(other.view_, false)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(*this, moved);
    return *this;
  }
  ~Buffer() {
    if (root_ != nullptr) {
      Root::drop(root_);
    } else if (!handle_.empty()) {
      const std::size_t nbytes = handle_.nbytes();
      allocator_.free(std::move(handle_), nbytes, spec_);
    }
  }
  friend void swap(Buffer& a, Buffer& b) noexcept {
    swap(a.allocator_, b.allocator_);
    swap(a.handle_, b.handle_);
    std::swap(a.spec_, b.spec_);
    std::swap(a.byte_offset_, b.byte_offset_);
    std::swap(a.root_, b.root_);
    std::swap(a.view_, b.view_);
  }

  [[nodiscard]] bool empty() const noexcept { return allocator_.empty(); }
  [[nodiscard]] std::size_t nbytes() const noexcept { return handle().nbytes(); }
  /// Where this starts in its root allocation; 0 for a root.
  [[nodiscard]] std::size_t byte_offset() const noexcept { return byte_offset_; }
  [[nodiscard]] bool is_view() const noexcept { return view_; }
  /// As the root was allocated.
  [[nodiscard]] const BufferSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] const PackedAllocator& allocator() const noexcept { return allocator_; }
  /// For calls on the allocator itself; valid while this buffer is not moved or destroyed.
  [[nodiscard]] const PackedBuffer& handle() const noexcept {
    return root_ != nullptr && !view_ ? root_->handle : handle_;
  }
  /// The backend's own buffer through any stack of adaptors; null when it is another backend's.
  template <BufferHandle B>
  [[nodiscard]] const B* as() const noexcept {
    return handle().as<B>();
  }

  /// Host to device: a prefix of this buffer. See `Allocator`.
  [[nodiscard]] Result<void> copyin(std::span<const std::byte> src) {
    return allocator_.copyin(handle(), src);
  }
  /// Device to host: a prefix of this buffer. See `Allocator`.
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst) const {
    return PackedAllocator(allocator_).copyout(dst, handle());
  }
  [[nodiscard]] Result<std::uintptr_t> addr() const { return PackedAllocator(allocator_).addr(handle()); }
  [[nodiscard]] Result<void> fill(std::byte value) { return allocator_.fill(handle(), value); }
  /// File to device: all of the extent into a prefix of this buffer. See `DiskCopyAllocator`.
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const FileExtent& extent) {
    return allocator_.copy_from_disk(handle(), extent, extent.nbytes);
  }
  /// The whole buffer, mapped. The guard must not outlive this buffer.
  [[nodiscard]] Result<Mapping> map(Access access) { return allocator_.map(handle(), access, nbytes(), 0); }
  [[nodiscard]] Result<Mapping> map(Access access, std::size_t nbytes, std::size_t byte_offset) {
    return allocator_.map(handle(), access, nbytes, byte_offset);
  }

  /// A view of `nbytes` at `byte_offset` of this buffer or view, which keeps the root allocation alive. A
  /// view of a view refers to the root. `out_of_range` beyond this view; `unsupported` where the backend has
  /// no views.
  [[nodiscard]] Result<Buffer> view(std::size_t nbytes, std::size_t byte_offset) {
    if (empty()) return fail(Error(Errc::invalid_argument).in("view").because("the Buffer is empty"));
    if (auto inside = checks::range(nbytes, byte_offset, this->nbytes(), allocator_.info().backend, "view");
        !inside) {
      return fail(inside.error());
    }
    const std::size_t from_root = byte_offset_ + byte_offset;
    const PackedBuffer& root_handle = root_ != nullptr ? root_->handle : handle_;
    auto part = allocator_.offset(root_handle, nbytes, from_root);
    if (!part) return fail(part.error());
    if (root_ == nullptr && !share())
      return fail(Error(Errc::out_of_memory, "host").in("view").asking(sizeof(Root)));
    return Buffer(*this, std::move(*part), from_root);
  }

 private:
  // The allocation itself, once it is shared between a root and its views.
  struct Root {
    PackedAllocator allocator;
    PackedBuffer handle;
    BufferSpec spec;
    std::atomic<std::size_t> references{1};

    static void drop(Root* root) noexcept {
      if (root->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      const std::size_t nbytes = root->handle.nbytes();
      root->allocator.free(std::move(root->handle), nbytes, root->spec);
      delete root;
    }
  };

  Buffer(PackedAllocator allocator, PackedBuffer handle, const BufferSpec& spec) noexcept
      : allocator_(std::move(allocator)), handle_(std::move(handle)), spec_(spec) {}
  Buffer(Buffer& root, PackedBuffer part, std::size_t byte_offset) noexcept
      : allocator_(root.allocator_),
        handle_(std::move(part)),
        spec_(root.spec_),
        byte_offset_(byte_offset),
        root_(root.root_),
        view_(true) {
    root_->references.fetch_add(1, std::memory_order_relaxed);
  }

  [[nodiscard]] bool share() noexcept {
    root_ = new (std::nothrow) Root{allocator_, {}, spec_};
    if (root_ == nullptr) return false;
    root_->handle = std::move(handle_);
    return true;
  }

  PackedAllocator allocator_;
  PackedBuffer handle_;
  BufferSpec spec_;
  std::size_t byte_offset_ = 0;
  Root* root_ = nullptr;
  bool view_ = false;

  friend bool same_root(const Buffer& a, const Buffer& b) noexcept;
};

/// Whether two buffers are parts of one allocation.
[[nodiscard]] inline bool same_root(const Buffer& a, const Buffer& b) noexcept {
  return &a == &b || (a.root_ != nullptr && a.root_ == b.root_);
}

}  // namespace berth::inline BERTH_ABI
