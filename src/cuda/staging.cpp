// SPDX-License-Identifier: MIT
#include "staging.hpp"

#include <new>

namespace berth::inline BERTH_ABI::cuda::detail {

Result<std::unique_ptr<Staging>> Staging::make(std::shared_ptr<const Context> keeps) {
  const Context& context = *keeps;
  std::unique_ptr<Staging> staging(new (std::nothrow) Staging(std::move(keeps)));
  if (!staging) return fail(Error(Errc::out_of_memory, "host").in("copy_from_disk").asking(sizeof(Staging)));
  for (Chunk& chunk : staging->chunks_) {
    void* memory = nullptr;
    const abi::Status status =
        context.driver.mem_host_alloc(&memory, chunk_bytes, abi::memhostalloc_portable);
    chunk.pinned = status != abi::out_of_memory;
    if (!chunk.pinned) memory = new (std::nothrow) std::byte[chunk_bytes];
    if (chunk.pinned || memory == nullptr) {
      if (auto made = context.check(status, "cuMemHostAlloc"); !made)
        return fail(Error(made.error()).asking(chunk_bytes));
    }
    chunk.bytes = static_cast<std::byte*>(memory);
    auto event = OwnedEvent::make(context);
    if (!event) return fail(event.error());
    chunk.copied = std::move(*event);
  }
  return staging;
}

Staging::~Staging() {
  for (Chunk& chunk : chunks_) {
    if (!chunk.pinned) delete[] std::exchange(chunk.bytes, nullptr);
  }
  if (!process::may_release() || context_->lost()) return;
  const Current current(*context_);
  if (!current.entered_or_told()) return;
  for (const Chunk& chunk : chunks_) {
    if (chunk.bytes != nullptr) context_->told(context_->driver.mem_free_host(chunk.bytes), "cuMemFreeHost");
  }
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
