// SPDX-License-Identifier: MIT
#include "staging.hpp"

#include <algorithm>
#include <new>

namespace berth::inline BERTH_ABI::opencl::detail {
namespace {

constexpr std::size_t page_bytes = 4096;

}  // namespace

Result<std::unique_ptr<Staging>> Staging::make(cl_context context, cl_device_id device) {
  std::unique_ptr<Staging> staging(new (std::nothrow) Staging);
  if (!staging) return fail(Error(Errc::out_of_memory, "host").in("copy_from_disk").asking(sizeof(Staging)));
  cl_int status = CL_SUCCESS;
  staging->queue_ = Handle<cl_command_queue>::adopt(clCreateCommandQueue(context, device, 0, &status));
  if (status != CL_SUCCESS) return fail(error(status, "clCreateCommandQueue", Doing::allocating));
  for (Chunk& chunk : staging->chunks_) {
    const auto pinned = staging->pin(chunk, context);
    if (pinned) continue;
    if (pinned.error().code() != Errc::out_of_memory) return fail(pinned.error());
    chunk.pageable.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, chunk_bytes)));
    if (chunk.pageable == nullptr)
      return fail(Error(Errc::out_of_memory, "host").in("copy_from_disk").asking(chunk_bytes));
  }
  return staging;
}

Result<void> Staging::pin(Chunk& chunk, cl_context context) {
  cl_int status = CL_SUCCESS;
  auto mem = Handle<cl_mem>::adopt(
      clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, chunk_bytes, nullptr, &status));
  if (status != CL_SUCCESS)
    return fail(error(status, "clCreateBuffer", Doing::allocating).asking(chunk_bytes));
  void* const mapped = clEnqueueMapBuffer(queue_.get(), mem.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                          chunk_bytes, 0, nullptr, nullptr, &status);
  if (status != CL_SUCCESS)
    return fail(error(status, "clEnqueueMapBuffer", Doing::allocating).asking(chunk_bytes));
  chunk.mem = std::move(mem);
  chunk.mapped = static_cast<std::byte*>(mapped);
  return {};
}

std::uint64_t Staging::pinned_bytes() const noexcept {
  return chunk_bytes * static_cast<std::uint64_t>(std::ranges::count_if(
                           chunks_, [](const Chunk& chunk) { return chunk.mapped != nullptr; }));
}

Staging::~Staging() {
  if (!process::may_release()) return;
  for (const Chunk& chunk : chunks_) {
    if (chunk.mapped == nullptr) continue;
    if (auto unmapped =
            check(clEnqueueUnmapMemObject(queue_.get(), chunk.mem.get(), chunk.mapped, 0, nullptr, nullptr),
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
