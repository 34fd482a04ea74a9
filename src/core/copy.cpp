// SPDX-License-Identifier: MIT
#include <berth/core/copy.hpp>

#include <algorithm>
#include <memory>

namespace berth::inline BERTH_ABI {
namespace {

// Large enough for a driver's full rate, small enough to be had on any machine.
constexpr std::size_t bounce_bytes = std::size_t{4} << 20U;

// A path that does not apply here, as against one that failed on the way.
bool not_applicable(const Error& error) noexcept {
  return error.code() == Errc::unsupported || error.code() == Errc::wrong_allocator ||
         error.code() == Errc::wrong_backend;
}

Result<void> unmap_after(const Result<void>& done, Mapping& mapping) {
  const auto unmapped = mapping.unmap();
  return done ? unmapped : done;
}

// One copy between a side whose bytes the host sees and the other side.
Result<void> from_shared(Buffer& dst, const Buffer& src) {
  auto mapping = PackedAllocator(src.allocator()).map(src.handle(), Access::read, src.nbytes(), 0);
  if (!mapping) return fail(mapping.error());
  return unmap_after(dst.copyin(mapping->bytes()), *mapping);
}
Result<void> to_shared(Buffer& dst, const Buffer& src) {
  auto mapping = dst.map(Access::overwrite);
  if (!mapping) return fail(mapping.error());
  return unmap_after(src.copyout(mapping->bytes()), *mapping);
}

Result<void> bounce(Buffer& dst, const Buffer& src) {
  PackedAllocator to = dst.allocator();
  PackedAllocator from = src.allocator();
  // Without views on both sides the host buffer must hold everything: copies are prefixes.
  const bool in_pieces = to.supports_offset() && from.supports_offset();
  const std::size_t piece = in_pieces ? std::min(bounce_bytes, src.nbytes()) : src.nbytes();
  const std::unique_ptr<std::byte[]> host(new (std::nothrow) std::byte[piece]);
  if (!host) return fail(Error(Errc::out_of_memory, "host").in("copy").asking(piece));

  for (std::size_t done = 0; done < src.nbytes(); done += piece) {
    const std::span<std::byte> bytes(host.get(), std::min(piece, src.nbytes() - done));
    if (!in_pieces) {
      if (auto out = src.copyout(bytes); !out) return out;
      return dst.copyin(bytes);
    }
    auto source = from.offset(src.handle(), bytes.size(), done);
    if (!source) return fail(source.error());
    auto destination = to.offset(dst.handle(), bytes.size(), done);
    if (!destination) return fail(destination.error());
    if (auto out = from.copyout(bytes, *source); !out) return out;
    if (auto in = to.copyin(*destination, bytes); !in) return in;
  }
  return {};
}

}  // namespace

std::string_view to_string(CopyPath path) noexcept {
  switch (path) {
    case CopyPath::none:
      return "none";
    case CopyPath::transfer:
      return "transfer";
    case CopyPath::disk:
      return "disk";
    case CopyPath::shared_host:
      return "shared_host";
    case CopyPath::bounce:
      return "bounce";
  }
  return "";
}

Result<CopyPath> copy(Buffer& dst, const Buffer& src) {
  PackedAllocator to = dst.allocator();
  PackedAllocator from = src.allocator();
  if (to.empty() || from.empty()) {
    return fail(Error(Errc::invalid_argument).in("copy").because("a Buffer is empty"));
  }
  const std::size_t nbytes = src.nbytes();
  if (dst.nbytes() != nbytes) {
    return fail(
        Error(Errc::invalid_size, to.info().backend).in("copy").asking(nbytes).limited_to(dst.nbytes()));
  }
  if (nbytes == 0) return CopyPath::none;
  if (same_root(dst, src) && checks::overlapping(dst.byte_offset(), src.byte_offset(), nbytes)) {
    return fail(Error(Errc::overlap, to.info().backend).in("copy").asking(nbytes).at(src.byte_offset()));
  }

  if (to.supports_transfer()) {
    const auto done = to.transfer(dst.handle(), src.handle(), nbytes);
    if (done) return CopyPath::transfer;
    if (!not_applicable(done.error())) return fail(done.error());
  }
  if (to.supports_copy_from_disk() && from.supports_extent()) {
    const auto extent = from.extent(src.handle());
    if (!extent && !not_applicable(extent.error())) return fail(extent.error());
    if (extent) {
      const auto done = to.copy_from_disk(dst.handle(), *extent, nbytes);
      if (done) return CopyPath::disk;
      if (!not_applicable(done.error())) return fail(done.error());
    }
  }
  if (from.info().shares_host_memory && from.supports_map()) {
    if (auto done = from_shared(dst, src); !done) return fail(done.error());
    return CopyPath::shared_host;
  }
  if (to.info().shares_host_memory && to.supports_map()) {
    if (auto done = to_shared(dst, src); !done) return fail(done.error());
    return CopyPath::shared_host;
  }
  if (auto done = bounce(dst, src); !done) return fail(done.error());
  return CopyPath::bounce;
}

}  // namespace berth::inline BERTH_ABI
