// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/host/allocator.hpp>
#include <berth/io/exact.hpp>
#include <berth/io/load.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace berth::inline BERTH_ABI::host {
namespace {

constexpr const char* backend = "host";
constexpr std::size_t min_alignment = 64;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20U;

// No object is larger than this, so that pointer differences are representable.
constexpr std::uint64_t max_bytes(std::size_t alignment) noexcept {
  return static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) / alignment * alignment;
}

std::uint64_t total_bytes() noexcept {
  static const std::uint64_t total = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                     static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return total;
}

}  // namespace

Result<Allocator> Allocator::open(const Options& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (!std::has_single_bit(options.alignment) || options.alignment < min_alignment) {
    return fail(Error(Errc::invalid_argument, backend)
                    .in("open")
                    .asking(options.alignment)
                    .limited_to(min_alignment)
                    .because("the alignment must be a power of two of at least 64 bytes"));
  }
  return Allocator(options, next_instance_id());
}

AllocatorInfo Allocator::info() const {
  return {.backend = backend,
          .instance = instance_,
          .device = {.backend = backend},
          .alignment = options_.alignment,
          .granularity = options_.alignment,
          .max_bytes = max_bytes(options_.alignment),
          .total_bytes = total_bytes(),
          .shares_host_memory = true};
}

Result<HostBuffer> Allocator::alloc(std::size_t nbytes, const BufferSpec& spec) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (nbytes == 0) return HostBuffer(nullptr, nullptr, 0, instance_);
  if (spec.external_ptr != nullptr) {
    if (spec.zero) {
      return fail(Error(Errc::invalid_argument, backend)
                      .in("alloc")
                      .asking(nbytes)
                      .because("zero and external_ptr contradict each other"));
    }
    auto* const external = static_cast<std::byte*>(spec.external_ptr);
    return HostBuffer(external, external, nbytes, instance_);
  }
  const std::uint64_t maximum = max_bytes(options_.alignment);
  if (nbytes > maximum) {
    return fail(Error(Errc::exceeds_device_maximum, backend).in("alloc").asking(nbytes).limited_to(maximum));
  }
  const bool huge = options_.huge_pages && nbytes >= huge_page_bytes;
  const std::size_t alignment = huge ? std::max(options_.alignment, huge_page_bytes) : options_.alignment;
  const std::size_t padded = (nbytes + options_.alignment - 1) / options_.alignment * options_.alignment;
  void* memory = nullptr;
  if (const int status = ::posix_memalign(&memory, alignment, padded); status != 0) {
    return fail(Error(Errc::out_of_memory, backend)
                    .in("posix_memalign")
                    .with_status(status, "ENOMEM")
                    .asking(nbytes));
  }
  if (huge) ::madvise(memory, padded, MADV_HUGEPAGE);
  if (spec.zero) std::memset(memory, 0, nbytes);
  auto* const bytes = static_cast<std::byte*>(memory);
  return HostBuffer(bytes, bytes, nbytes, instance_);
}

void Allocator::free(HostBuffer buf, std::size_t /*nbytes*/, const BufferSpec& spec) noexcept {
  if (process::forked()) return;
  if (!checks::freeable(buf, info()) || spec.external_ptr != nullptr) return;
  std::free(buf.root_);
}

Result<void> Allocator::copyin(const HostBuffer& buf, std::span<const std::byte> src) {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto inside = checks::access(buf, src.size(), 0, info(), "copyin"); !inside) return inside;
  if (!src.empty()) std::memmove(buf.data(), src.data(), src.size());
  return {};
}

Result<void> Allocator::copyout(std::span<std::byte> dst, const HostBuffer& buf) {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto inside = checks::access(buf, dst.size(), 0, info(), "copyout"); !inside) return inside;
  if (!dst.empty()) std::memmove(dst.data(), buf.data(), dst.size());
  return {};
}

Result<std::uintptr_t> Allocator::addr(const HostBuffer& buf) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "addr"); !owned) return fail(owned.error());
  return buf.nbytes() == 0 ? 0 : reinterpret_cast<std::uintptr_t>(buf.data());
}

Result<void> Allocator::synchronize() { return process::not_forked(backend); }

Result<HostBuffer> Allocator::offset(const HostBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "offset"); !inside)
    return fail(inside.error());
  return HostBuffer(buf.root_, buf.data() + byte_offset, nbytes, instance_, true);
}

Result<void> Allocator::transfer(const HostBuffer& dest, const HostBuffer& src, std::size_t nbytes) {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto inside = checks::access(dest, nbytes, 0, info(), "transfer"); !inside) return inside;
  if (auto inside = checks::range(nbytes, 0, src.nbytes(), backend, "transfer"); !inside) return inside;
  if (nbytes == 0) return {};
  const auto to = reinterpret_cast<std::uintptr_t>(dest.data());
  const auto from = reinterpret_cast<std::uintptr_t>(src.data());
  if (checks::overlapping(to, from, nbytes)) {
    return fail(Error(Errc::overlap, backend).in("transfer").asking(nbytes).at(from).limited_to(nbytes));
  }
  std::memcpy(dest.data(), src.data(), nbytes);
  return {};
}

Result<DiskCopy> Allocator::copy_from_disk(const HostBuffer& dest, const FileExtent& extent,
                                           std::size_t nbytes) {
  constexpr const char* call = "copy_from_disk";
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(dest, nbytes, 0, info(), call); !inside) return fail(inside.error());
  if (auto inside = io::check_extent(extent, nbytes, 0, backend, call); !inside) return fail(inside.error());
  if (auto read = io::read_exact(extent, 0, dest.bytes().first(nbytes), backend); !read) {
    return fail(read.error());
  }
  return DiskCopy{.direct = nbytes};
}

Result<DiskCopy> Allocator::load(std::span<const LoadRange<HostBuffer>> ranges, const LoadOptions& options) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  return io::load(*this, ranges, options);
}

Result<void> Allocator::fill(const HostBuffer& buf, std::byte value) {
  if (auto usable = process::not_forked(backend); !usable) return usable;
  if (auto owned = checks::own(buf, info(), "fill"); !owned) return owned;
  if (buf.nbytes() != 0) std::memset(buf.data(), std::to_integer<int>(value), buf.nbytes());
  return {};
}

Result<Mapping> Allocator::map(const HostBuffer& buf, Access /*access*/, std::size_t nbytes,
                               std::size_t byte_offset) {
  if (auto usable = process::not_forked(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "map"); !inside)
    return fail(inside.error());
  return Mapping(std::span(buf.data() + byte_offset, nbytes));
}

}  // namespace berth::inline BERTH_ABI::host
