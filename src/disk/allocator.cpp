// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/disk/allocator.hpp>
#include <berth/io/load.hpp>

#include "bytes.hpp"
#include "store.hpp"

namespace berth::inline BERTH_ABI::disk {

using detail::backend;

Allocator::Allocator(std::shared_ptr<detail::Store> store) noexcept : store_(std::move(store)) {}

Result<Allocator> Allocator::open(const std::string& directory, const Options& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::open_unnamed(directory);
  if (!opened) return fail(opened.error());
  return Allocator(std::make_shared<detail::Store>(std::move(*opened), options.limit_bytes, true));
}

Result<Allocator> Allocator::adopt(int fd, const Options& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::adopt_file(fd, detail::Use::read_and_write);
  if (!opened) return fail(opened.error());
  return Allocator(std::make_shared<detail::Store>(std::move(*opened), options.limit_bytes, false));
}

Result<Allocator> Allocator::borrow(int fd, const Options& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  auto opened = detail::borrow_file(fd, detail::Use::read_and_write);
  if (!opened) return fail(opened.error());
  return Allocator(std::make_shared<detail::Store>(std::move(*opened), options.limit_bytes, false));
}

AllocatorInfo Allocator::info() const {
  return {.backend = backend,
          .instance = store_->instance(),
          .device = {.backend = backend, .high = 0, .low = store_->device()},
          .alignment = detail::Store::granularity,
          .granularity = detail::Store::granularity,
          .max_bytes = store_->max_bytes(),
          .total_bytes = store_->total_bytes(),
          .shares_host_memory = false};
}

Result<DiskBuffer> Allocator::alloc(std::size_t nbytes, const BufferSpec& spec) {
  constexpr const char* call = "alloc";
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (nbytes == 0) return DiskBuffer(nullptr, 0, 0, 0, store_->instance());
  if (spec.external_ptr != nullptr && spec.zero) {
    return fail(Error(Errc::invalid_argument, backend)
                    .in(call)
                    .asking(nbytes)
                    .because("zero and external_ptr contradict each other"));
  }
  if (spec.host || spec.external_ptr != nullptr) {
    return fail(Error(Errc::unsupported, backend)
                    .in(call)
                    .asking(nbytes)
                    .because(spec.host ? "a file is no host memory" : "a file wraps no memory"));
  }
  if (nbytes > store_->max_bytes()) {
    return fail(
        Error(Errc::exceeds_device_maximum, backend).in(call).asking(nbytes).limited_to(store_->max_bytes()));
  }
  const auto first = store_->take(nbytes, spec.zero);
  if (!first) return fail(first.error());
  return DiskBuffer(store_.get(), *first, *first, nbytes, store_->instance());
}

void Allocator::free(DiskBuffer buf, std::size_t /*nbytes*/, const BufferSpec& /*spec*/) noexcept {
  if (process::forked() || !checks::freeable(buf, info()) || buf.store_ == nullptr) return;
  if (!store_->give_back(buf.root_)) {
    report(Error(Errc::invalid_argument, backend)
               .in("free")
               .asking(buf.nbytes())
               .because("the buffer is not allocated; left alone"));
  }
}

Result<void> Allocator::copyin(const DiskBuffer& buf, std::span<const std::byte> src) {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto inside = checks::access(buf, src.size(), 0, info(), "copyin"); !inside) return inside;
  return io::write_exact(store_->fd(), buf.first_, src, backend);
}

Result<void> Allocator::copyout(std::span<std::byte> dst, const DiskBuffer& buf) {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto inside = checks::access(buf, dst.size(), 0, info(), "copyout"); !inside) return inside;
  return io::read_exact({store_->fd(), buf.first_, buf.nbytes()}, 0, dst, backend);
}

Result<std::uintptr_t> Allocator::addr(const DiskBuffer& buf) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "addr"); !owned) return fail(owned.error());
  if (buf.nbytes() == 0) return 0;
  return fail(Error(Errc::unsupported, backend).in("addr"));
}

Result<void> Allocator::synchronize() { return process::not_forked(backend); }

Result<DiskBuffer> Allocator::offset(const DiskBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "offset"); !inside)
    return fail(inside.error());
  return DiskBuffer(buf.store_, buf.root_, buf.first_ + byte_offset, nbytes, store_->instance(), true);
}

Result<void> Allocator::transfer(const DiskBuffer& dest, const DiskBuffer& src, std::size_t nbytes) {
  constexpr const char* call = "transfer";
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto inside = checks::access(dest, nbytes, 0, info(), call); !inside) return inside;
  if (auto inside = checks::range(nbytes, 0, src.nbytes(), backend, call); !inside) return inside;
  if (nbytes == 0) return {};
  if (dest.store_ == src.store_ && checks::overlapping(dest.first_, src.first_, nbytes)) {
    return fail(Error(Errc::overlap, backend).in(call).asking(nbytes).at(src.first_).limited_to(nbytes));
  }
  return detail::copy_bytes(store_->fd(), dest.first_, {src.store_->fd(), src.first_, nbytes});
}

Result<DiskCopy> Allocator::copy_from_disk(const DiskBuffer& dest, const FileExtent& extent,
                                           std::size_t nbytes) {
  constexpr const char* call = "copy_from_disk";
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(dest, nbytes, 0, info(), call); !inside) return fail(inside.error());
  if (auto inside = io::check_extent(extent, nbytes, 0, backend, call); !inside) return fail(inside.error());
  if (extent.fd == store_->fd() && checks::overlapping(dest.first_, extent.offset, nbytes)) {
    return fail(Error(Errc::overlap, backend).in(call).asking(nbytes).at(extent.offset).limited_to(nbytes));
  }
  if (auto copied = detail::copy_bytes(store_->fd(), dest.first_, {extent.fd, extent.offset, nbytes});
      !copied) {
    return fail(copied.error());
  }
  return DiskCopy{.direct = nbytes};
}

Result<DiskCopy> Allocator::load(std::span<const LoadRange<DiskBuffer>> ranges, const LoadOptions& options) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  return io::load(*this, ranges, options);
}

Result<FileExtent> Allocator::extent(const DiskBuffer& buf) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "extent"); !owned) return fail(owned.error());
  return FileExtent{store_->fd(), buf.first_, buf.nbytes()};
}

Result<void> Allocator::fill(const DiskBuffer& buf, std::byte value) {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto owned = checks::own(buf, info(), "fill"); !owned) return owned;
  return detail::fill_bytes(store_->fd(), buf.first_, buf.nbytes(), value);
}

}  // namespace berth::inline BERTH_ABI::disk
