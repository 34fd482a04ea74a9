// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/io/exact.hpp>
#include <berth/io/load.hpp>
#include <berth/opencl/allocator.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "block.hpp"
#include "wait.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

constexpr const char* call = "copy_from_disk";

// What is mapped at a time: no more than a driver that shadows maps can be asked to hold.
constexpr std::size_t mapped_bytes = std::size_t{64} << 20U;

// The error of one piece, with the numbers of the whole copy.
Failure failed(const Error& error, std::size_t asked, std::size_t before) {
  return fail(Error(error).asking(asked).after(before + error.done().value_or(0)));
}

// Reads into the buffer itself, a mapped piece after the other.
Result<DiskCopy> read_mapped(Allocator& allocator, const ClBuffer& dest, const FileExtent& extent,
                             std::size_t nbytes) {
  for (std::size_t done = 0; done < nbytes;) {
    const std::size_t piece = std::min(mapped_bytes, nbytes - done);
    auto mapping = allocator.map(dest, Access::overwrite, piece, done);
    if (!mapping) return failed(mapping.error(), nbytes, done);
    const auto read = io::read_exact(extent, done, mapping->bytes(), backend);
    const auto unmapped = mapping->unmap();
    if (!read) return failed(read.error(), nbytes, done);
    if (!unmapped) return failed(unmapped.error(), nbytes, done);
    done += piece;
  }
  return DiskCopy{.direct = nbytes};
}

// Reads into one chunk while the other is copied. No copy is under way when this returns.
Result<DiskCopy> read_staged(const detail::Staging& staging, cl_command_queue queue, const ClBuffer& dest,
                             const FileExtent& extent, std::size_t nbytes) {
  struct Copy {
    Handle<cl_event> event;
    std::size_t nbytes = 0;
  };
  std::array<Copy, 2> copies;  // out of each chunk; no event: none under way
  std::size_t arrived = 0;
  bool in_place = true;  // whether every copy so far was
  Result<void> state;
  const auto settle = [&](Copy& copy) {
    const auto event = std::exchange(copy.event, {});
    if (!event) return;
    const auto waited = wait_for(event.get(), Doing::moving);
    if (!waited && state) state = waited;
    in_place = in_place && waited.has_value();
    if (in_place) arrived += copy.nbytes;
  };

  std::size_t queued = 0;
  std::size_t next = 0;
  for (; state && queued < nbytes; next = 1 - next) {
    Copy& copy = copies[next];
    settle(copy);
    if (!state) break;
    const auto chunk = staging.chunk(next).first(std::min(detail::Staging::chunk_bytes, nbytes - queued));
    const auto read = io::read_exact(extent, queued, chunk, backend);
    copy.nbytes = read ? chunk.size() : static_cast<std::size_t>(read.error().done().value_or(0));
    if (copy.nbytes != 0) {
      cl_event event = nullptr;
      state = check(clEnqueueWriteBuffer(queue, dest.root(), CL_FALSE, dest.byte_offset() + queued,
                                         copy.nbytes, chunk.data(), 0, nullptr, &event),
                    "clEnqueueWriteBuffer", Doing::moving);
      if (!state) break;
      copy.event = Handle<cl_event>::adopt(event);
      queued += copy.nbytes;
      state = check(clFlush(queue), "clFlush", Doing::moving);
    }
    if (state && !read) state = fail(read.error());
  }
  settle(copies[next]);  // the older one first
  settle(copies[1 - next]);
  // A wait that failed says nothing of its copy, which may still read the chunk.
  if (!in_place) static_cast<void>(clFinish(queue));
  if (!state) return fail(Error(state.error()).asking(nbytes).after(arrived));
  return DiskCopy{.buffered = nbytes};
}

}  // namespace

Result<DiskCopy> Allocator::copy_from_disk(const ClBuffer& dest, const FileExtent& extent,
                                           std::size_t nbytes) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(dest, nbytes, 0, info(), call); !inside) return fail(inside.error());
  if (auto inside = io::check_extent(extent, nbytes, 0, backend, call); !inside) return fail(inside.error());
  if (nbytes == 0) return DiskCopy{};
  if (auto unmapped = dest.block_->check_unmapped(dest.byte_offset(), nbytes, true, call); !unmapped) {
    return fail(unmapped.error());
  }
  if (instance_->unified_memory && !instance_->stage_disk_copies) {
    return read_mapped(*this, dest, extent, nbytes);
  }

  auto staging = instance_->staging->take();
  if (!staging) {
    auto made = detail::Staging::make(context(), device());
    if (!made) return fail(made.error());
    staging = std::move(*made);
  }
  auto copied = read_staged(*staging, queue(), dest, extent, nbytes);
  if (copied) instance_->staging->put(std::move(staging));  // after a failure the driver may still hold them
  return copied;
}

Result<DiskCopy> Allocator::load(std::span<const LoadRange<ClBuffer>> ranges, const LoadOptions& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  return io::load(*this, ranges, options);
}

}  // namespace berth::inline BERTH_ABI::opencl
