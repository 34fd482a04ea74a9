// SPDX-License-Identifier: MIT
// Blocks cut out of a block, as pools do.
#include <berth/opencl/allocator.hpp>

#include "support/conformance.hpp"
#include "support/opencl_fixture.hpp"

using namespace berth;
using native::references;
using opencl::ClBuffer;

namespace {

constexpr const char* source = R"(
  kernel void write(global uchar* out, ulong offset, uchar first) {
    const size_t i = get_global_id(0);
    out[offset + i] = (uchar)(first + i);
  }
)";

struct Pool {
  Pool() : alignment(stream.description.base_alignment), size(16 * alignment), root(allocated()) {
    bytes = native::pattern(size);
    REQUIRE(message(stream.allocator.copyin(root, bytes)) == "ok");
  }
  ~Pool() { stream.allocator.free(root, size); }
  Pool(const Pool&) = delete;

  ClBuffer carved(std::size_t nbytes, std::size_t byte_offset) {
    auto block = stream.allocator.carve(root, nbytes, byte_offset);
    REQUIRE(message(block) == "ok");
    return *block;
  }

  native::Stream stream;
  std::size_t alignment;
  std::size_t size;
  ClBuffer root;
  std::vector<std::byte> bytes;

 private:
  ClBuffer allocated() {
    auto made = stream.allocator.alloc(size);
    REQUIRE(message(made) == "ok");
    return *made;
  }
};

/// An allocator whose blocks are carved out of one of the OpenCL allocator's.
class Carving : public Forwarding<opencl::Allocator> {
 public:
  using buffer_type = ClBuffer;

  static Result<Carving> open() {
    auto allocator = opencl::Allocator::open(native::device().id);
    if (!allocator) return fail(allocator.error());
    return Carving(std::move(*allocator));
  }

  Result<ClBuffer> alloc(std::size_t nbytes, const BufferSpec& spec) {
    if (nbytes == 0 || spec != BufferSpec{} || nbytes > info().max_bytes / 2)
      return upstream().alloc(nbytes, spec);
    const std::size_t alignment = info().alignment;
    auto whole = upstream().alloc(nbytes + alignment, spec);
    if (!whole) return whole;
    auto block = upstream().carve(*whole, nbytes, alignment);
    upstream().free(*whole, nbytes + alignment, spec);  // the carved block keeps the object
    return block;
  }
  void free(ClBuffer buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    upstream().free(buf, nbytes, spec);
  }

 private:
  explicit Carving(opencl::Allocator allocator) noexcept
      : Forwarding<opencl::Allocator>(std::move(allocator)) {}
};

}  // namespace

TEST_CASE("a carved block is the parent's bytes") {
  Pool pool;
  opencl::Allocator& allocator = pool.stream.allocator;
  const ClBuffer block = pool.carved(pool.alignment + 17, 3 * pool.alignment);
  CHECK_FALSE(block.is_view());
  CHECK(block.nbytes() == pool.alignment + 17);
  const auto part = std::span(pool.bytes).subspan(3 * pool.alignment, block.nbytes());
  CHECK(std::ranges::equal(native::content(allocator, block), part));

  const auto other = native::pattern(block.nbytes(), 1);
  REQUIRE(message(allocator.copyin(block, other)) == "ok");
  allocator.free(block, block.nbytes());
  std::ranges::copy(other, part.begin());
  CHECK(native::content(allocator, pool.root) == pool.bytes);
}

TEST_CASE("kernels on views of a carved block take its one sub-buffer and the residual") {
  Pool pool;
  opencl::Allocator& allocator = pool.stream.allocator;
  const ClBuffer block = pool.carved(4 * pool.alignment, 2 * pool.alignment);
  auto view = allocator.offset(block, 100, pool.alignment + 5);
  REQUIRE(message(view) == "ok");
  const auto whole = allocator.kernel_arg(block);
  const auto part = allocator.kernel_arg(*view);
  REQUIRE(message(whole) == "ok");
  REQUIRE(message(part) == "ok");
  CHECK(whole->mem == block.root());
  CHECK(whole->residual == 0);
  CHECK(part->mem == block.root());
  CHECK(part->residual == pool.alignment + 5);
  CHECK(allocator.exact_arg(block).value() == block.root());
  CHECK(outcome(allocator.exact_arg(*view)) == "unsupported");

  const native::Program program(pool.stream.context, pool.stream.description.id, source);
  const auto kernel = program.kernel("write");
  launch(pool.stream.queue, kernel, 100, part->mem, cl_ulong{part->residual}, cl_uchar{7});
  for (std::size_t i = 0; i < 100; ++i) {
    pool.bytes[3 * pool.alignment + 5 + i] = static_cast<std::byte>(7 + i);
  }
  allocator.free(block, block.nbytes());
  CHECK(native::content(allocator, pool.root) == pool.bytes);
}

TEST_CASE("free releases the sub-buffer before its bytes become part of another block") {
  Pool pool;
  opencl::Allocator& allocator = pool.stream.allocator;
  const cl_uint before = native::at_rest(pool.root.root());
  for (int round = 0; round < 3; ++round) {
    const ClBuffer first = pool.carved(2 * pool.alignment, 0);
    const ClBuffer second = pool.carved(2 * pool.alignment, 2 * pool.alignment);
    REQUIRE(message(allocator.fill(first, std::byte{1})) == "ok");
    REQUIRE(message(allocator.fill(second, std::byte{2})) == "ok");
    REQUIRE(message(allocator.synchronize()) == "ok");
    allocator.free(first, first.nbytes());
    allocator.free(second, second.nbytes());
    CHECK(native::settled(pool.root.root(), before) == before);
    const ClBuffer both = pool.carved(4 * pool.alignment, 0);
    CHECK(std::ranges::count(native::content(allocator, both), std::byte{1}) ==
          static_cast<std::ptrdiff_t>(2 * pool.alignment));
    allocator.free(both, both.nbytes());
  }
}

TEST_CASE("a carved block outlives its parent's free") {
  native::Stream stream;
  auto root = stream.allocator.alloc(10000);
  REQUIRE(message(root) == "ok");
  auto block = stream.allocator.carve(*root, 1000, 0);
  REQUIRE(message(block) == "ok");
  stream.allocator.free(*root, 10000);
  const auto bytes = native::pattern(1000);
  REQUIRE(message(stream.allocator.copyin(*block, bytes)) == "ok");
  CHECK(native::content(stream.allocator, *block) == bytes);
  stream.allocator.free(*block, 1000);
}

TEST_CASE("what cannot be carved is refused, with the numbers") {
  Pool pool;
  opencl::Allocator& allocator = pool.stream.allocator;
  const auto misaligned = allocator.carve(pool.root, 64, pool.alignment + 1);
  REQUIRE(outcome(misaligned) == "misaligned");
  CHECK(misaligned.error().position() == pool.alignment + 1);
  CHECK(misaligned.error().limit() == pool.alignment);
  CHECK(outcome(allocator.carve(pool.root, pool.size, pool.alignment)) == "out_of_range");
  auto other = opencl::Allocator::open(pool.stream.description.id);
  REQUIRE(message(other) == "ok");
  CHECK(outcome(other->carve(pool.root, 64, 0)) == "wrong_allocator");
  const ClBuffer block = pool.carved(2 * pool.alignment, 0);
  CHECK(outcome(allocator.carve(block, 64, 0)) == "unsupported");
  allocator.free(block, block.nbytes());

  auto empty = allocator.carve(pool.root, 0, 1);
  REQUIRE(message(empty) == "ok");
  CHECK(empty->root() == nullptr);
}

TEST_CASE("carved blocks conform") {
  berth_test::require_conformance<Carving>(
      Carving::open, {"alignment", "buffers_of_another_backend", "above_4_gib", "queues"});
}
