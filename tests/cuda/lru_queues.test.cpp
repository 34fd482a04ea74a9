// SPDX-License-Identifier: MIT
// One cache, three streams: a block freed on one and reused on another while the first still works on it. The
// negative control leaves the wait out and must see the bytes go wrong. And the ladder, when memory runs out.
#include <berth/adaptors/lru.hpp>
#include <berth/core/buffer.hpp>

#include "support/cuda_fixture.hpp"

namespace {

using namespace berth;
using native::abi::DevicePtr;

/// CUDA whose handles forget to wait.
class Forgetful : public Forwarding<cuda::Allocator> {
 public:
  using buffer_type = cuda::CudaBuffer;
  explicit Forgetful(cuda::Allocator allocator) noexcept
      : Forwarding<cuda::Allocator>(std::move(allocator)) {}

  Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec) {
    return upstream().alloc(nbytes, spec);
  }
  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    upstream().free(buf, nbytes, spec);
  }
  Result<Forgetful> on(const Queue& queue) {
    auto handle = upstream().on(queue);
    if (!handle) return fail(handle.error());
    return Forgetful(std::move(*handle));
  }
  Result<void> wait(const Event&) { return {}; }
};
static_assert(QueueAllocator<Forgetful>);

constexpr std::size_t nbytes = 1 << 16;

/// Work on `first`, held back, reads a block that is freed, and then written over on `second`. What the work
/// read.
template <class Lru>
std::vector<std::byte> reuse_while_read(const native::Borrowed& user, Lru& first, native::abi::Stream stream,
                                        Lru& second) {
  auto result = first.alloc(nbytes, {.nolru = true});
  auto block = first.alloc(nbytes, {});
  REQUIRE(message(result) == "ok");
  REQUIRE(message(block) == "ok");
  REQUIRE(message(first.copyin(*block, native::pattern(nbytes, 1))) == "ok");
  const DevicePtr reused = block->address();
  {
    native::Gate gate(user.context);
    gate.close(stream);
    REQUIRE(message(first.transfer(*result, *block, nbytes)) == "ok");
    first.free(*block, nbytes, {});

    auto again = second.alloc(nbytes, {});
    REQUIRE(message(again) == "ok");
    REQUIRE(again->address() == reused);
    REQUIRE(message(second.fill(*again, std::byte{0xEE})) == "ok");
    if constexpr (std::same_as<Lru, LruAllocator<Forgetful>>) {
      REQUIRE(message(second.synchronize()) == "ok");  // nothing holds it back
    }
    gate.open();
    REQUIRE(message(second.synchronize()) == "ok");
    second.free(*again, nbytes, {});
  }
  auto seen = native::content(first, *result);
  first.free(*result, nbytes, {.nolru = true});
  return seen;
}

template <class Upstream>
std::size_t wrong_reuses(const native::Borrowed& user) {
  const auto one = user.another_stream();  // these outlive the cache, which may have blocks used on them
  const auto two = user.another_stream();
  auto home = LruAllocator<Upstream>::create(Upstream(user.allocator));
  REQUIRE(home);
  auto on_one = home->on(cuda::borrow_queue(one));
  auto on_two = home->on(cuda::borrow_queue(two));
  REQUIRE(on_one);
  REQUIRE(on_two);
  struct Side {
    LruAllocator<Upstream>* lru;
    native::abi::Stream stream;
  };
  const Side sides[] = {{&*home, user.stream}, {&*on_one, one}, {&*on_two, two}};
  std::size_t wrong = 0;
  for (const Side& from : sides) {
    for (const Side& to : sides) {
      if (from.lru == to.lru) continue;
      if (reuse_while_read(user, *from.lru, from.stream, *to.lru) != native::pattern(nbytes, 1)) ++wrong;
    }
  }
  return wrong;
}

TEST_CASE("a block reused on another of three streams is never written under work that reads it") {
  const native::Machine machine;
  const native::Borrowed user;
  CHECK(wrong_reuses<cuda::Allocator>(user) == 0);
}

TEST_CASE("without the wait every such reuse goes wrong") {
  const native::Machine machine;
  const native::Borrowed user;
  CHECK(wrong_reuses<Forgetful>(user) == 6);
}

TEST_CASE("a use recorded on another stream is waited for") {
  const native::Machine machine;
  const native::Borrowed user;
  const auto other = user.another_stream();
  auto home = LruAllocator<cuda::Allocator>::create(user.allocator);
  REQUIRE(home);
  auto block = home->alloc(nbytes, {});
  auto result = home->alloc(nbytes, {.nolru = true});
  REQUIRE(block);
  REQUIRE(result);
  REQUIRE(message(home->copyin(*block, native::pattern(nbytes, 1))) == "ok");
  {
    native::Gate gate(user.context);
    gate.close(other);
    {
      const native::Entered entered(user.context);
      REQUIRE_CUDA(native::driver().memcpy_dtod_async(result->address(), block->address(), nbytes, other));
    }
    REQUIRE(message(home->record_use(*block, cuda::borrow_queue(other))) == "ok");
    const DevicePtr used = block->address();
    home->free(*block, nbytes, {});
    auto again = home->alloc(nbytes, {});
    REQUIRE(again);
    REQUIRE(again->address() == used);
    REQUIRE(message(home->fill(*again, std::byte{0xEE})) == "ok");
    gate.open();
    REQUIRE(message(home->synchronize()) == "ok");
    home->free(*again, nbytes, {});
  }
  CHECK(native::content(*home, *result) == native::pattern(nbytes, 1));
  home->free(*result, nbytes, {.nolru = true});
}

TEST_CASE("memory that the CPU can write is handed out again only when its last use has completed") {
  native::Machine machine;
  if (!machine.fake()) return;  // a real driver may not pin memory while a stream is held back
  const native::Borrowed user;
  auto home = LruAllocator<cuda::Allocator>::create(user.allocator);
  REQUIRE(home);
  const BufferSpec spec{.host = true};
  auto block = home->alloc(nbytes, spec);
  REQUIRE(block);
  const auto used = block->address();
  native::Gate gate(user.context);
  gate.close(user.stream);
  REQUIRE(message(home->fill(*block, std::byte{1})) == "ok");
  home->free(*block, nbytes, spec);
  auto fresh = home->alloc(nbytes, spec);
  REQUIRE(fresh);
  CHECK(fresh->address() != used);
  gate.open();
  REQUIRE(message(home->synchronize()) == "ok");
  auto again = home->alloc(nbytes, spec);
  REQUIRE(again);
  CHECK(again->address() == used);
  home->free(*fresh, nbytes, spec);
  home->free(*again, nbytes, spec);
}

// The ladder.

/// A tenth of the memory that the device has left.
std::size_t tenth(const native::Borrowed& user) {
  const native::Entered entered(user.context);
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE_CUDA(native::driver().mem_get_info(&free, &total));
  return free / 10 / 4096 * 4096;
}

TEST_CASE("a full device gives way: idle blocks go, oldest first, before a caller sees the error") {
  native::Machine machine({.total_bytes = std::size_t{64} << 20U});
  const native::Borrowed user;
  std::vector<std::uint64_t> asked;
  auto lru = LruAllocator<cuda::Allocator>::create(
      user.allocator, {.budget_bytes = UINT64_MAX, .on_out_of_memory = [&](std::uint64_t bytes) {
                         asked.push_back(bytes);
                         return false;
                       }});
  REQUIRE(lru);
  const std::size_t part = tenth(user);
  std::vector<cuda::CudaBuffer> parts;
  for (int i = 0; i < 9; ++i) {
    auto buf = lru->alloc(part, {});
    REQUIRE(message(buf) == "ok");
    REQUIRE(message(lru->fill(*buf, std::byte{1})) == "ok");  // work still queued when it is freed
    parts.push_back(*buf);
  }
  for (const auto& buf : parts) lru->free(buf, part, {});
  CHECK(lru->statistics().cached_bytes == 9 * part);

  auto large = lru->alloc(5 * part, {});
  REQUIRE(message(large) == "ok");
  CHECK(lru->statistics().evictions >= 4);
  CHECK(lru->statistics().cached_bytes < 9 * part);
  CHECK(asked.empty());
  REQUIRE(message(lru->fill(*large, std::byte{2})) == "ok");

  const auto refused = lru->alloc(9 * part, {});
  REQUIRE(outcome(refused) == "out_of_memory");
  CHECK(refused.error().call() == "cuMemAlloc");
  CHECK(refused.error().asked() == 9 * part);
  CHECK(refused.error().live() == 5 * part);
  CHECK(refused.error().cached() == 0U);
  CHECK(asked == std::vector<std::uint64_t>{9 * part});
  const auto evicted = lru->statistics().evictions;
  CHECK(outcome(lru->alloc(static_cast<std::size_t>(lru->info().max_bytes) + 1, {})) ==
        "exceeds_device_maximum");
  CHECK(lru->statistics().evictions == evicted);
  lru->free(*large, 5 * part, {});
  lru->trim(0);
  if (machine.fake()) CHECK(machine->balance().allocations == 0);
}

TEST_CASE("the caches of a device give way to each other") {
  native::Machine machine({.total_bytes = std::size_t{64} << 20U});
  const native::Borrowed user;
  auto opened = cuda::Allocator::open(0, native::options());
  REQUIRE(message(opened) == "ok");
  auto one = LruAllocator<cuda::Allocator>::create(user.allocator, {.budget_bytes = UINT64_MAX});
  auto two = LruAllocator<cuda::Allocator>::create(*opened, {.budget_bytes = UINT64_MAX});
  REQUIRE(one);
  REQUIRE(two);
  const std::size_t part = tenth(user);
  auto idle = one->alloc(7 * part, {});
  REQUIRE(message(idle) == "ok");
  one->free(*idle, 7 * part, {});
  auto wanted = two->alloc(7 * part, {});
  REQUIRE(message(wanted) == "ok");
  CHECK(one->statistics().cached_bytes == 0);
  two->free(*wanted, 7 * part, {});
}

}  // namespace
