// SPDX-License-Identifier: MIT
// One cache, three queues of a real driver: a block freed on one queue and reused on another while the first
// still works on it. The negative control leaves the wait out and must see the bytes go wrong.
#include <berth/adaptors/lru.hpp>

#include "support/opencl_fixture.hpp"

namespace {

using namespace berth;

/// OpenCL whose handles forget to wait.
class Forgetful : public Forwarding<opencl::Allocator> {
 public:
  using buffer_type = opencl::ClBuffer;
  explicit Forgetful(opencl::Allocator allocator) noexcept
      : Forwarding<opencl::Allocator>(std::move(allocator)) {}

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
std::vector<std::byte> reuse_while_read(const native::Stream& stream, Lru& first,
                                        cl_command_queue first_queue, Lru& second,
                                        cl_command_queue second_queue) {
  auto result = first.alloc(nbytes, {.nolru = true});
  auto block = first.alloc(nbytes, {});
  REQUIRE(message(result) == "ok");
  REQUIRE(message(block) == "ok");
  REQUIRE(message(first.copyin(*block, native::pattern(nbytes, 1))) == "ok");
  const cl_mem reused = block->root();
  {
    native::Gate gate(stream.context);
    gate.close(first_queue);
    REQUIRE(message(first.transfer(*result, *block, nbytes)) == "ok");
    first.free(*block, nbytes, {});

    auto again = second.alloc(nbytes, {});
    REQUIRE(message(again) == "ok");
    REQUIRE(again->root() == reused);
    REQUIRE(message(second.fill(*again, std::byte{0xEE})) == "ok");
    REQUIRE(clFlush(second_queue) == CL_SUCCESS);
    if constexpr (std::same_as<Lru, LruAllocator<Forgetful>>) {
      REQUIRE(clFinish(second_queue) == CL_SUCCESS);  // nothing holds it back
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
std::size_t wrong_reuses(const native::Stream& stream) {
  auto home = LruAllocator<Upstream>::create(Upstream(stream.allocator));
  REQUIRE(home);
  const auto one = stream.another_queue();
  const auto two = stream.another_queue();
  auto on_one = home->on(opencl::borrow_queue(one));
  auto on_two = home->on(opencl::borrow_queue(two));
  REQUIRE(on_one);
  REQUIRE(on_two);
  struct Side {
    LruAllocator<Upstream>* lru;
    cl_command_queue queue;
  };
  const Side sides[] = {{&*home, stream.queue}, {&*on_one, one}, {&*on_two, two}};
  std::size_t wrong = 0;
  for (const Side& from : sides) {
    for (const Side& to : sides) {
      if (from.lru == to.lru) continue;
      const auto seen = reuse_while_read(stream, *from.lru, from.queue, *to.lru, to.queue);
      if (seen != native::pattern(nbytes, 1)) ++wrong;
    }
  }
  return wrong;
}

TEST_CASE("a block reused on another of three queues is never written under work that reads it") {
  const native::Stream stream;
  CHECK(wrong_reuses<opencl::Allocator>(stream) == 0);
}

TEST_CASE("without the wait every such reuse goes wrong") {
  const native::Stream stream;
  CHECK(wrong_reuses<Forgetful>(stream) == 6);
}

TEST_CASE("a use recorded on another queue is waited for") {
  const native::Stream stream;
  auto home = LruAllocator<opencl::Allocator>::create(stream.allocator);
  REQUIRE(home);
  const auto other = stream.another_queue();
  auto block = home->alloc(nbytes, {});
  auto result = home->alloc(nbytes, {.nolru = true});
  REQUIRE(block);
  REQUIRE(result);
  REQUIRE(message(home->copyin(*block, native::pattern(nbytes, 1))) == "ok");
  {
    native::Gate gate(stream.context);
    gate.close(other);
    REQUIRE(clEnqueueCopyBuffer(other, block->root(), result->root(), 0, 0, nbytes, 0, nullptr, nullptr) ==
            CL_SUCCESS);
    REQUIRE(clFlush(other) == CL_SUCCESS);
    REQUIRE(message(home->record_use(*block, opencl::borrow_queue(other))) == "ok");
    home->free(*block, nbytes, {});
    auto again = home->alloc(nbytes, {});
    REQUIRE(again);
    REQUIRE(again->root() == block->root());
    REQUIRE(message(home->fill(*again, std::byte{0xEE})) == "ok");
    REQUIRE(clFlush(stream.queue) == CL_SUCCESS);
    gate.open();
    REQUIRE(message(home->synchronize()) == "ok");
    home->free(*again, nbytes, {});
  }
  CHECK(native::content(*home, *result) == native::pattern(nbytes, 1));
  home->free(*result, nbytes, {.nolru = true});
}

TEST_CASE("memory that the CPU can write is handed out again only when its last use has completed") {
  const native::Stream stream;
  auto home = LruAllocator<opencl::Allocator>::create(stream.allocator);
  REQUIRE(home);
  const BufferSpec spec{.host = true};
  auto block = home->alloc(nbytes, spec);
  REQUIRE(block);
  const cl_mem used = block->root();
  native::Gate gate(stream.context);
  gate.close(stream.queue);
  REQUIRE(message(home->fill(*block, std::byte{1})) == "ok");
  home->free(*block, nbytes, spec);
  auto fresh = home->alloc(nbytes, spec);
  REQUIRE(fresh);
  CHECK(fresh->root() != used);
  gate.open();
  auto again = home->alloc(nbytes, spec);
  REQUIRE(again);
  CHECK(again->root() == used);
  home->free(*fresh, nbytes, spec);
  home->free(*again, nbytes, spec);
}

}  // namespace
