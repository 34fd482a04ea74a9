// SPDX-License-Identifier: MIT
// `free` must work when memory is short, so it may not allocate; this program counts every `operator new`.
#include <berth/adaptors/lru.hpp>
#include <berth/host/allocator.hpp>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "support/catch.hpp"

namespace {
std::atomic<std::size_t> news{0};
}

// Not inlined, so that the compiler pairs new with delete and not with free.
[[gnu::noinline]] void* operator new(std::size_t nbytes) {
  ++news;
  if (void* memory = std::malloc(nbytes)) return memory;
  std::abort();
}
[[gnu::noinline]] void* operator new(std::size_t nbytes, const std::nothrow_t&) noexcept {
  ++news;
  return std::malloc(nbytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

TEST_CASE("neither free nor a hit allocates: the room is made when a block is") {
  auto lru = *berth::LruAllocator<berth::host::Allocator>::create(*berth::host::Allocator::open());
  std::vector<berth::host::HostBuffer> buffers;
  buffers.reserve(100);
  const std::size_t start = news;
  for (std::size_t i = 0; i < 100; ++i) buffers.push_back(*lru.alloc(64 + i, {}));
  const std::size_t made = news;
  CHECK(made > start);  // the count sees something
  for (const auto& buf : buffers) lru.free(buf, buf.nbytes(), {});
  CHECK(news == made);
  for (std::size_t i = 0; i < 100; ++i) lru.free(*lru.alloc(64 + i, {}), 64 + i, {});
  CHECK(news == made);
}

}  // namespace
