// SPDX-License-Identifier: MIT
// Bytes to the device, from it and on it.
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/allocator.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <span>

#include "block.hpp"
#include "fill.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

cl_map_flags map_flags(Access access) noexcept {
  switch (access) {
    case Access::read:
      return CL_MAP_READ;
    case Access::write:
      return CL_MAP_WRITE;
    case Access::overwrite:
      return CL_MAP_WRITE_INVALIDATE_REGION;
  }
  return 0;
}

// Under Quirk::unaligned_host_memory.
constexpr std::size_t wanted_alignment = 16;
constexpr std::size_t piece_bytes = std::size_t{256} << 10U;

bool takes_directly(const detail::Instance& instance, const std::byte* host) noexcept {
  return !instance.quirks.has(Quirk::unaligned_host_memory) ||
         reinterpret_cast<std::uintptr_t>(host) % wanted_alignment == 0;
}

// Calls `copy(offset, piece of aligned memory)` for `nbytes`, a piece after the other.
Result<void> in_aligned_pieces(std::size_t nbytes, auto copy) {
  struct alignas(wanted_alignment) Piece {
    std::array<std::byte, piece_bytes> bytes;
  };
  const std::unique_ptr<Piece> piece(new (std::nothrow) Piece);
  if (!piece) return fail(Error(Errc::out_of_memory, "host").asking(sizeof(Piece)));
  for (std::size_t done = 0; done < nbytes; done += piece_bytes) {
    const auto bytes = std::span(piece->bytes).first(std::min(piece_bytes, nbytes - done));
    if (auto copied = copy(done, bytes); !copied) return copied;
  }
  return {};
}

}  // namespace

Result<void> enqueue_fill(cl_command_queue queue, cl_mem mem, std::byte value, std::size_t byte_offset,
                          std::size_t nbytes, Doing doing) {
  // The longest pattern of equal bytes that the range allows: drivers fill one at a time.
  std::array<std::byte, 16> pattern;
  pattern.fill(value);
  std::size_t pattern_bytes = pattern.size();
  while ((byte_offset | nbytes) % pattern_bytes != 0) pattern_bytes /= 2;
  return check(clEnqueueFillBuffer(queue, mem, pattern.data(), pattern_bytes, byte_offset, nbytes, 0, nullptr,
                                   nullptr),
               "clEnqueueFillBuffer", doing);
}

Result<void> Allocator::copyin(const ClBuffer& buf, std::span<const std::byte> src) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto inside = checks::access(buf, src.size(), 0, info(), "copyin"); !inside) return inside;
  if (src.empty()) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.byte_offset(), src.size(), true, "copyin"); !unmapped) {
    return unmapped;
  }
  const auto write = [&](std::size_t at, std::span<const std::byte> bytes) {
    return check(clEnqueueWriteBuffer(queue(), buf.root(), CL_TRUE, buf.byte_offset() + at, bytes.size(),
                                      bytes.data(), 0, nullptr, nullptr),
                 "clEnqueueWriteBuffer", Doing::moving);
  };
  if (takes_directly(*instance_, src.data())) return write(0, src);
  return in_aligned_pieces(src.size(), [&](std::size_t at, std::span<std::byte> aligned) {
    std::ranges::copy(src.subspan(at, aligned.size()), aligned.begin());
    return write(at, aligned);
  });
}

Result<void> Allocator::copyout(std::span<std::byte> dst, const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto inside = checks::access(buf, dst.size(), 0, info(), "copyout"); !inside) return inside;
  if (dst.empty()) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.byte_offset(), dst.size(), false, "copyout");
      !unmapped) {
    return unmapped;
  }
  const auto read = [&](std::size_t at, std::span<std::byte> bytes) {
    return check(clEnqueueReadBuffer(queue(), buf.root(), CL_TRUE, buf.byte_offset() + at, bytes.size(),
                                     bytes.data(), 0, nullptr, nullptr),
                 "clEnqueueReadBuffer", Doing::moving);
  };
  if (takes_directly(*instance_, dst.data())) return read(0, dst);
  return in_aligned_pieces(dst.size(), [&](std::size_t at, std::span<std::byte> aligned) {
    auto done = read(at, aligned);
    if (done) std::ranges::copy(aligned, dst.subspan(at).begin());
    return done;
  });
}

Result<void> Allocator::synchronize() {
  if (auto usable = process::usable(backend); !usable) return usable;
  return check(clFinish(queue()), "clFinish", Doing::moving);
}

Result<void> Allocator::transfer(const ClBuffer& dest, const ClBuffer& src, std::size_t nbytes) {
  constexpr const char* call = "transfer";
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto inside = checks::access(dest, nbytes, 0, info(), call); !inside) return inside;
  if (auto inside = checks::range(nbytes, 0, src.nbytes(), backend, call); !inside) return inside;
  if (nbytes == 0) return {};
  const detail::Instance& from = src.block_->instance;
  if (from.context.get() != instance_->context.get()) {
    return fail(Error(Errc::wrong_allocator, backend)
                    .in(call)
                    .asking(nbytes)
                    .because("the source is of another context"));
  }
  if (dest.root() == src.root() && checks::overlapping(dest.byte_offset(), src.byte_offset(), nbytes)) {
    return fail(
        Error(Errc::overlap, backend).in(call).asking(nbytes).at(src.byte_offset()).limited_to(nbytes));
  }
  if (auto unmapped = src.block_->check_unmapped(src.byte_offset(), nbytes, false, call); !unmapped)
    return unmapped;
  if (auto unmapped = dest.block_->check_unmapped(dest.byte_offset(), nbytes, true, call); !unmapped)
    return unmapped;

  // Ordered on the queue of the source's instance too: the copy waits for a marker there, and later work
  // there for the copy. Handles of one instance are ordered by whoever made them, with record and wait.
  const cl_command_queue source_queue = native_queue(from.queue);
  const bool two_queues = &from != instance_.get() && source_queue != queue();
  cl_event before = nullptr;
  if (two_queues) {
    if (auto marked = check(clEnqueueMarkerWithWaitList(source_queue, 0, nullptr, &before),
                            "clEnqueueMarkerWithWaitList", Doing::moving);
        !marked) {
      return marked;
    }
  }
  const auto ready = Handle<cl_event>::adopt(before);
  if (two_queues) {
    if (auto flushed = check(clFlush(source_queue), "clFlush", Doing::moving); !flushed) return flushed;
  }
  cl_event after = nullptr;
  if (auto copied = check(clEnqueueCopyBuffer(queue(), src.root(), dest.root(), src.byte_offset(),
                                              dest.byte_offset(), nbytes, two_queues ? 1 : 0,
                                              two_queues ? &before : nullptr, two_queues ? &after : nullptr),
                          "clEnqueueCopyBuffer", Doing::moving);
      !copied) {
    return copied;
  }
  if (!two_queues) return {};
  const auto copied = Handle<cl_event>::adopt(after);
  if (auto flushed = check(clFlush(queue()), "clFlush", Doing::moving); !flushed) return flushed;
  return check(clEnqueueBarrierWithWaitList(source_queue, 1, &after, nullptr), "clEnqueueBarrierWithWaitList",
               Doing::moving);
}

Result<void> Allocator::fill(const ClBuffer& buf, std::byte value) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto owned = checks::own(buf, info(), "fill"); !owned) return owned;
  if (buf.nbytes() == 0) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.byte_offset(), buf.nbytes(), true, "fill"); !unmapped) {
    return unmapped;
  }
  return enqueue_fill(queue(), buf.root(), value, buf.byte_offset(), buf.nbytes(), Doing::moving);
}

Result<Mapping> Allocator::map(const ClBuffer& buf, Access access, std::size_t nbytes,
                               std::size_t byte_offset) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "map"); !inside)
    return fail(inside.error());
  if (nbytes == 0) return Mapping();

  const std::size_t from_root = buf.byte_offset() + byte_offset;
  if (auto begun = buf.block_->begin_map(from_root, nbytes, access != Access::read); !begun) {
    return fail(begun.error());
  }
  cl_int status = CL_SUCCESS;
  void* address = clEnqueueMapBuffer(queue(), buf.root(), CL_TRUE, map_flags(access), from_root, nbytes, 0,
                                     nullptr, nullptr, &status);
  if (status != CL_SUCCESS) {
    buf.block_->end_map(from_root, nbytes, true);
    return fail(error(status, "clEnqueueMapBuffer", Doing::moving).asking(nbytes).at(from_root));
  }

  struct Live {
    detail::Block* block;
    cl_command_queue queue;
    std::size_t byte_offset;
  };
  return Mapping(
      std::span(static_cast<std::byte*>(address), nbytes), Live{buf.block_, queue(), from_root},
      +[](const Live& live, std::span<std::byte> bytes) noexcept -> Result<void> {
        if (!process::may_release()) return {};
        auto unmapped = check(
            clEnqueueUnmapMemObject(live.queue, live.block->root.get(), bytes.data(), 0, nullptr, nullptr),
            "clEnqueueUnmapMemObject", Doing::moving);
        const bool taken = unmapped.has_value();
        // Submitted before the block may go: its end can wait for the driver, which waits for the unmap.
        if (taken) unmapped = check(clFlush(live.queue), "clFlush", Doing::moving);
        live.block->end_map(live.byte_offset, bytes.size(), taken);
        return unmapped;
      });
}

}  // namespace berth::inline BERTH_ABI::opencl
