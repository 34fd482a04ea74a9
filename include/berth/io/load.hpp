// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/core/checks.hpp>
#include <berth/io/exact.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace berth::inline BERTH_ABI::io {

namespace detail {

/// The bytes of all ranges, when every one of them can be loaded; else the first reason why not.
template <class A>
[[nodiscard]] Result<std::uint64_t> check_load(const A& a, std::span<const LoadRange<buffer_t<A>>> ranges,
                                               const LoadOptions& options) {
  const AllocatorInfo info = a.info();
  const auto invalid = [&](Errc code, const char* why) {
    return fail(Error(code, info.backend).in("load").because(why));
  };
  if (options.chunk == 0) return invalid(Errc::invalid_argument, "a chunk of 0 bytes");
  std::uint64_t total = 0;
  for (const LoadRange<buffer_t<A>>& range : ranges) {
    const std::uint64_t nbytes = range.source.nbytes;
    if (range.dest == nullptr) return invalid(Errc::invalid_argument, "a range has no buffer");
    if (auto owned = checks::own(*range.dest, info, "load"); !owned) return fail(owned.error());
    if (auto inside = checks::range(nbytes, range.byte_offset, range.dest->nbytes(), info.backend, "load");
        !inside) {
      return fail(inside.error());
    }
    if (auto inside = check_extent(range.source, nbytes, 0, info.backend, "load"); !inside) {
      return fail(inside.error());
    }
    if (nbytes > std::numeric_limits<std::uint64_t>::max() - total) {
      return invalid(Errc::invalid_size, "the ranges' bytes add up to more than 64 bits hold");
    }
    total += nbytes;
  }
  return total;
}

}  // namespace detail

/// What a backend's `load` does when it has no faster way: `copy_from_disk` of a chunk after the other, to
/// views of the buffers, in the order of the ranges. See `DiskCopyAllocator`.
template <OffsetAllocator A>
[[nodiscard]] Result<DiskCopy> load(A& a, std::span<const LoadRange<buffer_t<A>>> ranges,
                                    const LoadOptions& options) {
  const auto total = detail::check_load(a, ranges, options);
  if (!total) return fail(total.error());

  LoadProgress progress{0, *total};
  DiskCopy moved;
  const auto advance = [&](const DiskCopy& more) {
    moved += more;
    progress.done = moved.total();
    if (options.progress) options.progress(progress);
  };
  const auto stopped = [&](const Error& error, std::uint64_t done) {
    return fail(Error(error).asking(*total).after(progress.done + done));
  };
  if (*total == 0) advance({});
  for (const LoadRange<buffer_t<A>>& range : ranges) {
    for (std::uint64_t at = 0; at < range.source.nbytes;) {
      if (options.stop.stop_requested()) {
        return stopped(Error(Errc::cancelled, a.info().backend).in("load"), 0);
      }
      const auto nbytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(options.chunk, range.source.nbytes - at));
      const auto part = a.offset(*range.dest, nbytes, range.byte_offset + static_cast<std::size_t>(at));
      if (!part) return stopped(part.error(), 0);
      const FileExtent source{range.source.fd, range.source.offset + at, nbytes};
      const auto copied = a.copy_from_disk(*part, source, nbytes);
      if (!copied) return stopped(copied.error(), copied.error().done().value_or(0));
      advance(*copied);
      at += nbytes;
    }
  }
  return moved;
}

}  // namespace berth::inline BERTH_ABI::io
