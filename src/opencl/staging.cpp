// SPDX-License-Identifier: MIT
#include "staging.hpp"

#include <new>

namespace berth::inline BERTH_ABI::opencl::detail {

Result<std::unique_ptr<Staging>> Staging::make(cl_context context, cl_device_id device) {
  std::unique_ptr<Staging> staging(new (std::nothrow) Staging);
  if (!staging) return fail(Error(Errc::out_of_memory, "host").in("copy_from_disk").asking(sizeof(Staging)));
  cl_int status = CL_SUCCESS;
  staging->queue_ = Handle<cl_command_queue>::adopt(clCreateCommandQueue(context, device, 0, &status));
  if (status != CL_SUCCESS) return fail(error(status, "clCreateCommandQueue", Doing::allocating));
  for (Chunk& chunk : staging->chunks_) {
    chunk.mem = Handle<cl_mem>::adopt(
        clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, chunk_bytes, nullptr, &status));
    if (status != CL_SUCCESS) {
      return fail(error(status, "clCreateBuffer", Doing::allocating).asking(chunk_bytes));
    }
    chunk.bytes = static_cast<std::byte*>(clEnqueueMapBuffer(staging->queue_.get(), chunk.mem.get(), CL_TRUE,
                                                             CL_MAP_READ | CL_MAP_WRITE, 0, chunk_bytes, 0,
                                                             nullptr, nullptr, &status));
    if (status != CL_SUCCESS) {
      chunk.bytes = nullptr;
      return fail(error(status, "clEnqueueMapBuffer", Doing::allocating).asking(chunk_bytes));
    }
  }
  return staging;
}

Staging::~Staging() {
  if (!process::may_release()) return;
  for (const Chunk& chunk : chunks_) {
    if (chunk.bytes == nullptr) continue;
    if (auto unmapped =
            check(clEnqueueUnmapMemObject(queue_.get(), chunk.mem.get(), chunk.bytes, 0, nullptr, nullptr),
                  "clEnqueueUnmapMemObject");
        !unmapped) {
      report(unmapped.error());
    }
  }
  // Nothing else is on this queue; after it the chunks go at once.
  if (!queue_) return;
  if (auto done = check(clFinish(queue_.get()), "clFinish"); !done) report(done.error());
}

}  // namespace berth::inline BERTH_ABI::opencl::detail
