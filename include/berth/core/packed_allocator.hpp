// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/core/packed_buffer.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace berth::inline BERTH_ABI {

class PackedAllocator;

/// Hides the type of an allocator (the seed's `Pack`). Packing a packed one gives it back, with no layer
/// added.
template <Allocator A>
[[nodiscard]] PackedAllocator pack(A allocator) noexcept;

/// Any allocator, type-erased. A copy is another handle to the same allocator, which lives as long as a
/// handle does.
///
/// Itself an `Allocator<PackedBuffer>` with every refinement, so adaptors stack on it; an operation that the
/// packed allocator lacks answers `unsupported`, and `supports_...()` says so beforehand. A buffer of another
/// backend is `wrong_backend`. An empty handle (default-constructed or moved from) answers `invalid_argument`
/// to everything.
class PackedAllocator {
 public:
  using buffer_type = PackedBuffer;

  PackedAllocator() noexcept = default;
  PackedAllocator(const PackedAllocator& other) noexcept : model_(other.model_) {
    if (model_ != nullptr) model_->references.fetch_add(1, std::memory_order_relaxed);
  }
  PackedAllocator(PackedAllocator&& other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
  PackedAllocator& operator=(PackedAllocator other) noexcept {
    swap(*this, other);
    return *this;
  }
  ~PackedAllocator() {
    if (model_ != nullptr && model_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      model_->ops->destroy(model_);
    }
  }
  friend void swap(PackedAllocator& a, PackedAllocator& b) noexcept { std::swap(a.model_, b.model_); }

  [[nodiscard]] bool empty() const noexcept { return model_ == nullptr; }

  /// Two handles to the same allocator.
  friend bool operator==(const PackedAllocator& a, const PackedAllocator& b) noexcept {
    return a.model_ == b.model_;
  }

  /// The typed allocator that was packed; null when it is of another type.
  template <Allocator A>
  [[nodiscard]] A* unpack() const noexcept {
    if (empty() || !(model_->ops->type == TypeId::of<A>())) return nullptr;
    return &static_cast<Model<A>*>(model_)->allocator;
  }

  [[nodiscard]] Result<PackedBuffer> alloc(std::size_t nbytes, const BufferSpec& spec = {}) {
    if (empty()) [[unlikely]]
      return fail(nothing("alloc"));
    return model_->ops->alloc(*model_, nbytes, spec);
  }
  /// Takes the handle: `buf` is empty afterwards.
  void free(PackedBuffer&& buf, std::size_t nbytes, const BufferSpec& spec = {}) noexcept {
    if (empty()) [[unlikely]]
      return report(nothing("free"));
    model_->ops->free(*model_, buf, nbytes, spec);
    buf.reset();
  }
  [[nodiscard]] Result<void> copyin(const PackedBuffer& buf, std::span<const std::byte> src) {
    if (empty()) return fail(nothing("copyin"));
    return model_->ops->copyin(*model_, buf, src);
  }
  [[nodiscard]] Result<void> copyout(std::span<std::byte> dst, const PackedBuffer& buf) {
    if (empty()) return fail(nothing("copyout"));
    return model_->ops->copyout(*model_, dst, buf);
  }
  [[nodiscard]] Result<std::uintptr_t> addr(const PackedBuffer& buf) {
    if (empty()) return fail(nothing("addr"));
    return model_->ops->addr(*model_, buf);
  }
  [[nodiscard]] AllocatorInfo info() const { return empty() ? AllocatorInfo{} : model_->ops->info(*model_); }
  [[nodiscard]] Result<void> synchronize() {
    if (empty()) return fail(nothing("synchronize"));
    return model_->ops->synchronize(*model_);
  }

  [[nodiscard]] Result<PackedBuffer> offset(const PackedBuffer& buf, std::size_t nbytes,
                                            std::size_t byte_offset) {
    return call(&Ops::offset, "offset", buf, nbytes, byte_offset);
  }
  [[nodiscard]] Result<void> transfer(const PackedBuffer& dest, const PackedBuffer& src, std::size_t nbytes) {
    return call(&Ops::transfer, "transfer", dest, src, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> copy_from_disk(const PackedBuffer& dest, const FileExtent& extent,
                                                std::size_t nbytes) {
    return call(&Ops::copy_from_disk, "copy_from_disk", dest, extent, nbytes);
  }
  [[nodiscard]] Result<DiskCopy> load(std::span<const LoadRange<PackedBuffer>> ranges,
                                      const LoadOptions& options = {}) {
    return call(&Ops::load, "load", ranges, options);
  }
  [[nodiscard]] Result<FileExtent> extent(const PackedBuffer& buf) {
    return call(&Ops::extent, "extent", buf);
  }
  [[nodiscard]] Result<void> fill(const PackedBuffer& buf, std::byte value) {
    return call(&Ops::fill, "fill", buf, value);
  }
  [[nodiscard]] Result<Mapping> map(const PackedBuffer& buf, Access access, std::size_t nbytes,
                                    std::size_t byte_offset = 0) {
    return call(&Ops::map, "map", buf, access, nbytes, byte_offset);
  }
  [[nodiscard]] Result<PackedAllocator> on(const Queue& queue) { return call(&Ops::on, "on", queue); }
  [[nodiscard]] Result<void> record_use(const PackedBuffer& buf, const Queue& queue) {
    return call(&Ops::record_use, "record_use", buf, queue);
  }
  [[nodiscard]] Result<Event> record() { return call(&Ops::record, "record"); }
  [[nodiscard]] Result<void> wait(const Event& event) { return call(&Ops::wait, "wait", event); }

  [[nodiscard]] bool supports_offset() const noexcept { return supports(&Ops::supports_offset); }
  [[nodiscard]] bool supports_transfer() const noexcept { return supports(&Ops::supports_transfer); }
  [[nodiscard]] bool supports_copy_from_disk() const noexcept {
    return supports(&Ops::supports_copy_from_disk);
  }
  [[nodiscard]] bool supports_extent() const noexcept { return supports(&Ops::supports_extent); }
  [[nodiscard]] bool supports_fill() const noexcept { return supports(&Ops::supports_fill); }
  [[nodiscard]] bool supports_map() const noexcept { return supports(&Ops::supports_map); }
  [[nodiscard]] bool supports_queues() const noexcept { return supports(&Ops::supports_queues); }

 private:
  template <Allocator A>
  friend PackedAllocator pack(A allocator) noexcept;

  struct Ops;

  // The packed allocator, behind one pointer: its operations, its count and, in Model, itself.
  struct ModelBase {
    const Ops* ops;
    std::atomic<std::size_t> references{1};
  };
  template <class A>
  struct Model : ModelBase {
    explicit Model(A&& packed) noexcept;
    A allocator;
  };

  // One slot an operation; null where the packed type has none.
  struct Ops {
    TypeId type;
    void (*destroy)(ModelBase*) noexcept;
    Result<PackedBuffer> (*alloc)(ModelBase&, std::size_t, const BufferSpec&);
    void (*free)(ModelBase&, PackedBuffer&, std::size_t, const BufferSpec&) noexcept;
    Result<void> (*copyin)(ModelBase&, const PackedBuffer&, std::span<const std::byte>);
    Result<void> (*copyout)(ModelBase&, std::span<std::byte>, const PackedBuffer&);
    Result<std::uintptr_t> (*addr)(ModelBase&, const PackedBuffer&);
    AllocatorInfo (*info)(const ModelBase&);
    Result<void> (*synchronize)(ModelBase&);
    Result<PackedBuffer> (*offset)(ModelBase&, const PackedBuffer&, std::size_t, std::size_t);
    Result<void> (*transfer)(ModelBase&, const PackedBuffer&, const PackedBuffer&, std::size_t);
    Result<DiskCopy> (*copy_from_disk)(ModelBase&, const PackedBuffer&, const FileExtent&, std::size_t);
    Result<DiskCopy> (*load)(ModelBase&, std::span<const LoadRange<PackedBuffer>>, const LoadOptions&);
    Result<FileExtent> (*extent)(ModelBase&, const PackedBuffer&);
    Result<void> (*fill)(ModelBase&, const PackedBuffer&, std::byte);
    Result<Mapping> (*map)(ModelBase&, const PackedBuffer&, Access, std::size_t, std::size_t);
    Result<PackedAllocator> (*on)(ModelBase&, const Queue&);
    Result<void> (*record_use)(ModelBase&, const PackedBuffer&, const Queue&);
    Result<Event> (*record)(ModelBase&);
    Result<void> (*wait)(ModelBase&, const Event&);
    bool (*supports_offset)(const ModelBase&) noexcept;
    bool (*supports_transfer)(const ModelBase&) noexcept;
    bool (*supports_copy_from_disk)(const ModelBase&) noexcept;
    bool (*supports_extent)(const ModelBase&) noexcept;
    bool (*supports_fill)(const ModelBase&) noexcept;
    bool (*supports_map)(const ModelBase&) noexcept;
    bool (*supports_queues)(const ModelBase&) noexcept;
  };

  // The functions behind the slots, for one packed type.
  template <class A>
  struct Thunks;
  template <class A>
  static const Ops ops_for;

  explicit PackedAllocator(ModelBase* model) noexcept : model_(model) {}

  static Error nothing(const char* operation) noexcept {
    return Error(Errc::invalid_argument, "packed").in(operation).because("the PackedAllocator is empty");
  }
  template <class T, class... Params>
  Result<T> call(Result<T> (*Ops::*operation)(ModelBase&, Params...), const char* name,
                 std::type_identity_t<Params>... params) {
    if (empty()) return fail(nothing(name));
    if (const auto slot = model_->ops->*operation) return slot(*model_, params...);
    return fail(Error(Errc::unsupported, model_->ops->info(*model_).backend).in(name));
  }
  [[nodiscard]] bool supports(bool (*Ops::*operation)(const ModelBase&) noexcept) const noexcept {
    if (empty()) return false;
    const auto slot = model_->ops->*operation;
    return slot != nullptr && slot(*model_);
  }

  ModelBase* model_ = nullptr;
};

template <class A>
struct PackedAllocator::Thunks {
  using Buf = buffer_t<A>;
  static constexpr bool erased = std::same_as<Buf, PackedBuffer>;

  static A& self(ModelBase& model) noexcept { return static_cast<Model<A>&>(model).allocator; }
  static const A& self(const ModelBase& model) noexcept {
    return static_cast<const Model<A>&>(model).allocator;
  }

  // The typed buffer inside `packed`; null when it holds another backend's.
  static const Buf* typed(const PackedBuffer& packed) noexcept {
    if constexpr (erased)
      return &packed;
    else
      return packed.as<Buf>();
  }
  static Error foreign(const ModelBase& model, const char* operation) noexcept {
    return Error(Errc::wrong_backend, self(model).info().backend)
        .in(operation)
        .because("the buffer is of another backend");
  }
  static Result<PackedBuffer> packed(Result<Buf>&& buf) {
    if constexpr (erased) {
      return std::move(buf);
    } else {
      if (!buf) [[unlikely]]
        return fail(buf.error());
      return Result<PackedBuffer>(std::move(*buf));
    }
  }

  static void destroy(ModelBase* model) noexcept { delete static_cast<Model<A>*>(model); }
  static Result<PackedBuffer> alloc(ModelBase& model, std::size_t nbytes, const BufferSpec& spec) {
    return packed(self(model).alloc(nbytes, spec));
  }
  static void free(ModelBase& model, PackedBuffer& buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    if (const Buf* held = typed(buf))
      return self(model).free(std::move(const_cast<Buf&>(*held)), nbytes, spec);
    report(foreign(model, "free").asking(buf.nbytes()));
  }
  static Result<void> copyin(ModelBase& model, const PackedBuffer& buf, std::span<const std::byte> src) {
    if (const Buf* held = typed(buf)) return self(model).copyin(*held, src);
    return fail(foreign(model, "copyin"));
  }
  static Result<void> copyout(ModelBase& model, std::span<std::byte> dst, const PackedBuffer& buf) {
    if (const Buf* held = typed(buf)) return self(model).copyout(dst, *held);
    return fail(foreign(model, "copyout"));
  }
  static Result<std::uintptr_t> addr(ModelBase& model, const PackedBuffer& buf) {
    if (const Buf* held = typed(buf)) return self(model).addr(*held);
    return fail(foreign(model, "addr"));
  }
  static AllocatorInfo info(const ModelBase& model) { return self(model).info(); }
  static Result<void> synchronize(ModelBase& model) { return self(model).synchronize(); }

  static Result<PackedBuffer> offset(ModelBase& model, const PackedBuffer& buf, std::size_t nbytes,
                                     std::size_t byte_offset) {
    if (const Buf* held = typed(buf)) return packed(self(model).offset(*held, nbytes, byte_offset));
    return fail(foreign(model, "offset"));
  }
  static Result<void> transfer(ModelBase& model, const PackedBuffer& dest, const PackedBuffer& src,
                               std::size_t nbytes) {
    const Buf* to = typed(dest);
    const Buf* from = typed(src);
    if (to != nullptr && from != nullptr) return self(model).transfer(*to, *from, nbytes);
    return fail(foreign(model, "transfer"));
  }
  static Result<DiskCopy> copy_from_disk(ModelBase& model, const PackedBuffer& dest, const FileExtent& extent,
                                         std::size_t nbytes) {
    if (const Buf* held = typed(dest)) return self(model).copy_from_disk(*held, extent, nbytes);
    return fail(foreign(model, "copy_from_disk"));
  }
  static Result<DiskCopy> load(ModelBase& model, std::span<const LoadRange<PackedBuffer>> ranges,
                               const LoadOptions& options) {
    if constexpr (erased) {
      return self(model).load(ranges, options);
    } else {
      const std::unique_ptr<LoadRange<Buf>[]> held(new (std::nothrow) LoadRange<Buf>[ranges.size()]);
      if (!held) {
        return fail(
            Error(Errc::out_of_memory, "host").in("load").asking(ranges.size() * sizeof(LoadRange<Buf>)));
      }
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        const LoadRange<PackedBuffer>& range = ranges[i];
        const Buf* const dest = range.dest != nullptr ? typed(*range.dest) : nullptr;
        if (range.dest != nullptr && dest == nullptr) return fail(foreign(model, "load"));
        held[i] = {range.source, dest, range.byte_offset};
      }
      return self(model).load(std::span<const LoadRange<Buf>>(held.get(), ranges.size()), options);
    }
  }
  static Result<FileExtent> extent(ModelBase& model, const PackedBuffer& buf) {
    if (const Buf* held = typed(buf)) return self(model).extent(*held);
    return fail(foreign(model, "extent"));
  }
  static Result<void> fill(ModelBase& model, const PackedBuffer& buf, std::byte value) {
    if (const Buf* held = typed(buf)) return self(model).fill(*held, value);
    return fail(foreign(model, "fill"));
  }
  static Result<Mapping> map(ModelBase& model, const PackedBuffer& buf, Access access, std::size_t nbytes,
                             std::size_t byte_offset) {
    if (const Buf* held = typed(buf)) return self(model).map(*held, access, nbytes, byte_offset);
    return fail(foreign(model, "map"));
  }
  static Result<PackedAllocator> on(ModelBase& model, const Queue& queue) {
    auto handle = self(model).on(queue);
    if (!handle) return fail(handle.error());
    return pack(std::move(*handle));
  }
  static Result<void> record_use(ModelBase& model, const PackedBuffer& buf, const Queue& queue) {
    if (const Buf* held = typed(buf)) return self(model).record_use(*held, queue);
    return fail(foreign(model, "record_use"));
  }
  static Result<Event> record(ModelBase& model) { return self(model).record(); }
  static Result<void> wait(ModelBase& model, const Event& event) { return self(model).wait(event); }

  static consteval Ops table() {
    Ops ops{.type = TypeId::of<A>(),
            .destroy = destroy,
            .alloc = alloc,
            .free = free,
            .copyin = copyin,
            .copyout = copyout,
            .addr = addr,
            .info = info,
            .synchronize = synchronize,
            .offset = nullptr,
            .transfer = nullptr,
            .copy_from_disk = nullptr,
            .load = nullptr,
            .extent = nullptr,
            .fill = nullptr,
            .map = nullptr,
            .on = nullptr,
            .record_use = nullptr,
            .record = nullptr,
            .wait = nullptr,
            .supports_offset = nullptr,
            .supports_transfer = nullptr,
            .supports_copy_from_disk = nullptr,
            .supports_extent = nullptr,
            .supports_fill = nullptr,
            .supports_map = nullptr,
            .supports_queues = nullptr};
    if constexpr (OffsetAllocator<A>) {
      ops.offset = offset;
      ops.supports_offset = [](const ModelBase& model) noexcept { return self(model).supports_offset(); };
    }
    if constexpr (TransferAllocator<A>) {
      ops.transfer = transfer;
      ops.supports_transfer = [](const ModelBase& model) noexcept { return self(model).supports_transfer(); };
    }
    if constexpr (DiskCopyAllocator<A>) {
      ops.copy_from_disk = copy_from_disk;
      ops.load = load;
      ops.supports_copy_from_disk = [](const ModelBase& model) noexcept {
        return self(model).supports_copy_from_disk();
      };
    }
    if constexpr (ExtentAllocator<A>) {
      ops.extent = extent;
      ops.supports_extent = [](const ModelBase& model) noexcept { return self(model).supports_extent(); };
    }
    if constexpr (FillAllocator<A>) {
      ops.fill = fill;
      ops.supports_fill = [](const ModelBase& model) noexcept { return self(model).supports_fill(); };
    }
    if constexpr (MappableAllocator<A>) {
      ops.map = map;
      ops.supports_map = [](const ModelBase& model) noexcept { return self(model).supports_map(); };
    }
    if constexpr (QueueAllocator<A>) {
      ops.on = on;
      ops.record_use = record_use;
      ops.record = record;
      ops.wait = wait;
      ops.supports_queues = [](const ModelBase& model) noexcept { return self(model).supports_queues(); };
    }
    return ops;
  }
};

template <class A>
constexpr PackedAllocator::Ops PackedAllocator::ops_for = Thunks<A>::table();

template <class A>
PackedAllocator::Model<A>::Model(A&& packed) noexcept
    : ModelBase{&ops_for<A>}, allocator(std::move(packed)) {}

template <Allocator A>
PackedAllocator pack(A allocator) noexcept {
  if constexpr (std::same_as<A, PackedAllocator>) {
    return allocator;
  } else {
    return PackedAllocator(new PackedAllocator::Model<A>(std::move(allocator)));
  }
}

static_assert(OffsetAllocator<PackedAllocator> && TransferAllocator<PackedAllocator> &&
              DiskCopyAllocator<PackedAllocator> && ExtentAllocator<PackedAllocator> &&
              FillAllocator<PackedAllocator> && MappableAllocator<PackedAllocator> &&
              QueueAllocator<PackedAllocator>);

}  // namespace berth::inline BERTH_ABI
