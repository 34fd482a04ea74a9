// SPDX-License-Identifier: MIT
#include "block.hpp"

namespace berth::inline BERTH_ABI::opencl::detail {
namespace {

// After which a wait is worth a word.
constexpr std::chrono::seconds patience{5};

Error mapped(const char* call, std::size_t byte_offset, std::size_t size) noexcept {
  return Error(Errc::mapped, backend).in(call).asking(size).at(byte_offset);
}

}  // namespace

Result<Handle<cl_mem>> make_sub_buffer(cl_mem root, std::size_t origin, std::size_t size) {
  const cl_buffer_region region{origin, size};
  cl_int status = CL_SUCCESS;
  auto mem =
      Handle<cl_mem>::adopt(clCreateSubBuffer(root, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
  if (status != CL_SUCCESS) {
    return fail(error(status, "clCreateSubBuffer", Doing::allocating).asking(size).at(origin));
  }
  return mem;
}

void External::tell_deleted() {
  {
    const MutexLock lock(mutex);
    deleted = true;
  }
  on_deleted.notify_all();
}

bool External::deleted_within(std::chrono::seconds time) {
  const MutexLock lock(mutex);
  const auto end = std::chrono::steady_clock::now() + time;
  while (!deleted) {
    if (on_deleted.wait_until(mutex, end) == std::cv_status::timeout) return deleted;
  }
  return true;
}

Result<void> Block::begin_map(std::size_t byte_offset, std::size_t size, bool writes) {
  if (!maps_.begin(byte_offset, size, writes)) return fail(mapped("map", byte_offset, size));
  retain();
  return {};
}

void Block::end_map(std::size_t byte_offset, std::size_t size, bool unmapped) noexcept {
  if (unmapped) maps_.end(byte_offset, size);
  release();
}

Result<void> Block::check_unmapped(std::size_t byte_offset, std::size_t size, bool writes,
                                   const char* call) const {
  if (maps_.forbids(byte_offset, size, writes)) return fail(mapped(call, byte_offset, size));
  return {};
}

Result<cl_mem> Block::sub_buffer(std::size_t origin, std::size_t size) {
  const MutexLock lock(mutex_);
  for (const SubBuffer& kept : sub_buffers_) {
    if (kept.origin == origin && kept.nbytes == size) return kept.mem.get();
  }
  auto made = make_sub_buffer(root.get(), origin, size);
  if (!made) return fail(made.error());
  const cl_mem mem = made->get();
  sub_buffers_.push_back({origin, size, std::move(*made)});
  return mem;
}

void Block::keep(std::size_t origin, std::size_t size, Handle<cl_mem> mem) {
  const MutexLock lock(mutex_);
  sub_buffers_.push_back({origin, size, std::move(mem)});
}

Block::~Block() {
  // What the driver did not take back, a map or a reference, keeps the object for good: no deletion to wait
  // for.
  bool deletes = maps_.empty();
  {
    const MutexLock lock(mutex_);
    // Before the root: they keep it alive.
    for (SubBuffer& kept : sub_buffers_) deletes = opencl::release(kept.mem.release()) && deletes;
  }
  if (parent != nullptr) {
    // Before the parent, whose bytes may become part of another block now.
    root = {};
    parent->release();
    return;
  }
  if (external == nullptr || !root) return;
  deletes = opencl::release(root.release()) && deletes;
  if (!deletes) return;
  if (!external->deleted_within(patience)) {
    if (external->lost) {
      // The callback's share of `external` keeps the range claimed until the driver says so.
      report(Error(Errc::device_lost, backend)
                 .in("clReleaseMemObject")
                 .asking(nbytes)
                 .because("the memory stays claimed: the driver does not say that it is done with it"));
      return;
    }
    report(
        Error(Errc::driver, backend)
            .in("clReleaseMemObject")
            .asking(nbytes)
            .because("the driver keeps the memory: a queue that berth does not know may hold commands that "
                     "were never flushed, or somebody a reference"));
    while (!external->deleted_within(patience)) {
    }
  }
  // The callback may still hold its share for a moment; the range is free for another link now.
  external->claim = HostRange();
}

}  // namespace berth::inline BERTH_ABI::opencl::detail
