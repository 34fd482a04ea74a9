// SPDX-License-Identifier: MIT
// Views as real kernels see them. One thread only, so that oclgrind can run this program.
#include <berth/opencl/allocator.hpp>

#include <algorithm>
#include <set>

#include "support/opencl_fixture.hpp"

using namespace berth;
using native::property;
using native::references;
using native::retained;
using native::settled;

namespace {

constexpr const char* source = R"(
  kernel void gather(global const uchar* in, ulong residual, global uchar* out) {
    const size_t i = get_global_id(0);
    out[i] = in[residual + i];
  }
  kernel void scatter(global uchar* out, ulong residual, uchar first) {
    const size_t i = get_global_id(0);
    out[residual + i] = (uchar)(first + i);
  }
)";

/// A root of bytes that tell their place, and a copy of them that no device has seen.
struct Root {
  explicit Root(std::size_t nbytes)
      : bytes(native::pattern(nbytes)),
        program(stream.context, stream.description.id, source),
        gather(program.kernel("gather")),
        scatter(program.kernel("scatter")),
        root(allocated(nbytes)),
        out(allocated(nbytes)) {
    REQUIRE(message(stream.allocator.copyin(root, bytes)) == "ok");
  }
  ~Root() {
    stream.allocator.free(root, root.nbytes());
    stream.allocator.free(out, out.nbytes());
  }
  Root(const Root&) = delete;

  opencl::ClBuffer view(const opencl::ClBuffer& of, std::size_t nbytes, std::size_t byte_offset) {
    auto made = stream.allocator.offset(of, nbytes, byte_offset);
    REQUIRE(message(made) == "ok");
    return *made;
  }
  opencl::KernelArg arg(const opencl::ClBuffer& buf) {
    const auto got = stream.allocator.kernel_arg(buf);
    REQUIRE(message(got) == "ok");
    return *got;
  }
  /// The bytes that a kernel reads through a view.
  std::vector<std::byte> gathered(const opencl::ClBuffer& buf) {
    const opencl::KernelArg in = arg(buf);
    launch(stream.queue, gather, buf.nbytes(), in.mem, cl_ulong{in.residual}, out.root());
    std::vector<std::byte> read(buf.nbytes());
    REQUIRE(message(stream.allocator.copyout(read, out)) == "ok");
    return read;
  }
  [[nodiscard]] std::vector<std::byte> expected(std::size_t nbytes, std::size_t byte_offset) const {
    return {bytes.begin() + static_cast<std::ptrdiff_t>(byte_offset),
            bytes.begin() + static_cast<std::ptrdiff_t>(byte_offset + nbytes)};
  }

  std::vector<std::byte> bytes;
  native::Stream stream;
  native::Program program;
  native::Owned<cl_kernel> gather;
  native::Owned<cl_kernel> scatter;
  opencl::ClBuffer root;
  opencl::ClBuffer out;

 private:
  opencl::ClBuffer allocated(std::size_t nbytes) {
    auto made = stream.allocator.alloc(nbytes);
    REQUIRE(message(made) == "ok");
    return *made;
  }
};

/// Every offset up to 300, and the neighbours of each multiple of the alignment beyond.
std::set<std::size_t> offsets(std::size_t alignment, std::size_t end) {
  std::set<std::size_t> all;
  for (std::size_t i = 0; i <= 300; ++i) all.insert(i);
  for (std::size_t i = alignment; i < end; i += alignment) all.insert({i - 1, i, i + 1});
  return all;
}

}  // namespace

TEST_CASE("a kernel reads the right bytes through a view at any byte offset") {
  constexpr std::size_t nbytes = 97;
  Root fixture(4096 + 1);
  const std::size_t alignment = fixture.stream.description.base_alignment;
  for (const std::size_t offset : offsets(alignment, fixture.bytes.size() - nbytes)) {
    if (offset + nbytes > fixture.bytes.size()) break;
    CAPTURE(offset);
    const auto view = fixture.view(fixture.root, nbytes, offset);
    REQUIRE(fixture.gathered(view) == fixture.expected(nbytes, offset));
    const opencl::KernelArg arg = fixture.arg(view);
    REQUIRE(arg.residual == offset % alignment);
    if (offset != 0) {
      REQUIRE(property<std::size_t>(arg.mem, CL_MEM_OFFSET) == offset - arg.residual);
      REQUIRE(property<std::size_t>(arg.mem, CL_MEM_SIZE) == arg.residual + nbytes);
      REQUIRE(property<cl_mem>(arg.mem, CL_MEM_ASSOCIATED_MEMOBJECT) == fixture.root.root());
    }
  }
}

TEST_CASE("a view may be one byte, or reach the root's last") {
  Root fixture(1021);
  for (const std::size_t offset : {0U, 1U, 127U, 128U, 129U, 1019U, 1020U}) {
    CAPTURE(offset);
    CHECK(fixture.gathered(fixture.view(fixture.root, 1, offset)) == fixture.expected(1, offset));
    const std::size_t rest = fixture.bytes.size() - offset;
    CHECK(fixture.gathered(fixture.view(fixture.root, rest, offset)) == fixture.expected(rest, offset));
  }
}

TEST_CASE("the whole allocation is the root itself") {
  Root fixture(1000);
  const opencl::KernelArg arg = fixture.arg(fixture.root);
  CHECK(arg.mem == fixture.root.root());
  CHECK(arg.residual == 0);
  const auto exact = fixture.stream.allocator.exact_arg(fixture.root);
  REQUIRE(message(exact) == "ok");
  CHECK(*exact == fixture.root.root());
  const auto whole = fixture.view(fixture.root, 1000, 0);
  CHECK(fixture.arg(whole).mem == fixture.root.root());
  const auto whole_exact = fixture.stream.allocator.exact_arg(whole);
  REQUIRE(message(whole_exact) == "ok");
  CHECK(*whole_exact == fixture.root.root());
}

TEST_CASE("an exact argument starts and ends where the view does, or is misaligned with the numbers") {
  Root fixture(4096);
  const std::size_t alignment = fixture.stream.description.base_alignment;
  for (const std::size_t offset : offsets(alignment, 2 * alignment + 2)) {
    CAPTURE(offset);
    const auto view = fixture.view(fixture.root, 70, offset);
    const auto exact = fixture.stream.allocator.exact_arg(view);
    if (offset % alignment == 0) {
      REQUIRE(message(exact) == "ok");
      REQUIRE(property<std::size_t>(*exact, CL_MEM_OFFSET) == offset);
      REQUIRE(property<std::size_t>(*exact, CL_MEM_SIZE) == 70);
      const cl_mem mem = *exact;
      launch(fixture.stream.queue, fixture.gather, 70, mem, cl_ulong{0}, fixture.out.root());
      std::vector<std::byte> read(70);
      REQUIRE(message(fixture.stream.allocator.copyout(read, fixture.out)) == "ok");
      REQUIRE(read == fixture.expected(70, offset));
    } else {
      REQUIRE(outcome(exact) == "misaligned");
      REQUIRE(exact.error().position() == offset);
      REQUIRE(exact.error().limit() == alignment);
      REQUIRE(exact.error().asked() == 70U);
    }
  }
}

TEST_CASE("sub-buffers are made once, and go with the allocation") {
  native::Stream stream;
  const std::size_t alignment = stream.description.base_alignment;
  auto root = stream.allocator.alloc(8 * alignment);
  REQUIRE(message(root) == "ok");
  const auto view = stream.allocator.offset(*root, alignment, 2 * alignment);
  const auto beside = stream.allocator.offset(*root, alignment, 2 * alignment + 3);
  REQUIRE(message(view) == "ok");
  REQUIRE(message(beside) == "ok");

  const auto first = stream.allocator.exact_arg(*view);
  REQUIRE(message(first) == "ok");
  const auto sub = retained(*first);
  const cl_uint with_one = references(sub.get());
  const cl_uint root_references = references(root->root());
  for (int i = 0; i < 3; ++i) {
    const auto again = stream.allocator.exact_arg(*view);
    REQUIRE(message(again) == "ok");
    CHECK(*again == sub.get());
    const auto arg = stream.allocator.kernel_arg(*view);
    REQUIRE(message(arg) == "ok");
    CHECK(arg->mem == sub.get());
  }
  CHECK(references(sub.get()) == with_one);
  CHECK(references(root->root()) == root_references);

  const auto other = stream.allocator.kernel_arg(*beside);
  REQUIRE(message(other) == "ok");
  CHECK(other->mem != sub.get());
  CHECK(other->residual == 3);
  const auto other_again = stream.allocator.kernel_arg(*beside);
  REQUIRE(message(other_again) == "ok");
  CHECK(other_again->mem == other->mem);
  const auto other_sub = retained(other->mem);

  stream.allocator.free(std::move(*root), 8 * alignment);
  CHECK(settled(sub.get(), 1) == 1);
  CHECK(settled(other_sub.get(), 1) == 1);
}

TEST_CASE("a view of a view is at the root") {
  Root fixture(4096);
  const auto middle = fixture.view(fixture.root, 2000, 333);
  const auto inner = fixture.view(middle, 500, 401);
  const auto innermost = fixture.view(inner, 100, 7);
  CHECK(innermost.byte_offset() == 333 + 401 + 7);
  CHECK(innermost.root() == fixture.root.root());
  CHECK(fixture.gathered(innermost) == fixture.expected(100, 741));
  const auto direct = fixture.view(fixture.root, 100, 741);
  CHECK(fixture.arg(direct).mem == fixture.arg(innermost).mem);
  CHECK(fixture.arg(direct).residual == fixture.arg(innermost).residual);
}

TEST_CASE("a kernel that writes through a view leaves its neighbours alone") {
  Root fixture(1500);
  std::vector<std::byte> expected = fixture.bytes;
  for (const std::size_t offset : {0U, 1U, 100U, 127U, 128U, 255U, 300U, 1021U}) {
    constexpr std::size_t nbytes = 77;
    CAPTURE(offset);
    const opencl::KernelArg arg = fixture.arg(fixture.view(fixture.root, nbytes, offset));
    launch(fixture.stream.queue, fixture.scatter, nbytes, arg.mem, cl_ulong{arg.residual},
           cl_uchar(offset + 5));
    for (std::size_t i = 0; i < nbytes; ++i) expected[offset + i] = static_cast<std::byte>(offset + 5 + i);
    REQUIRE(native::content(fixture.stream.allocator, fixture.root) == expected);
  }
}

TEST_CASE("copies and fills of a view stay inside it") {
  Root fixture(1500);
  native::Stream& stream = fixture.stream;
  std::vector<std::byte> expected = fixture.bytes;
  const auto view = fixture.view(fixture.root, 200, 301);
  REQUIRE(message(stream.allocator.fill(view, std::byte{0x5A})) == "ok");
  std::fill_n(expected.begin() + 301, 200, std::byte{0x5A});
  CHECK(native::content(stream.allocator, fixture.root) == expected);

  const auto bytes = native::pattern(150, 9);
  REQUIRE(message(stream.allocator.copyin(view, bytes)) == "ok");
  std::ranges::copy(bytes, expected.begin() + 301);
  CHECK(native::content(stream.allocator, fixture.root) == expected);

  const auto from = fixture.view(fixture.root, 99, 1);
  const auto to = fixture.view(fixture.root, 120, 1003);
  REQUIRE(message(stream.allocator.transfer(to, from, 99)) == "ok");
  std::copy_n(expected.begin() + 1, 99, expected.begin() + 1003);
  CHECK(native::content(stream.allocator, fixture.root) == expected);
}

TEST_CASE("an empty buffer gives a kernel nothing") {
  Root fixture(256);
  auto empty = fixture.stream.allocator.alloc(0);
  REQUIRE(message(empty) == "ok");
  for (const opencl::ClBuffer& buf :
       {*empty, fixture.view(fixture.root, 0, 13), fixture.view(*empty, 0, 0)}) {
    const opencl::KernelArg arg = fixture.arg(buf);
    CHECK(arg.mem == nullptr);
    CHECK(arg.residual == 0);
    const auto exact = fixture.stream.allocator.exact_arg(buf);
    REQUIRE(message(exact) == "ok");
    CHECK(*exact == nullptr);
  }
}

TEST_CASE("another instance's buffer is no argument") {
  Root fixture(256);
  auto other = opencl::Allocator::borrow(fixture.stream.context, fixture.stream.queue);
  REQUIRE(message(other) == "ok");
  CHECK(outcome(other->kernel_arg(fixture.root)) == "wrong_allocator");
  CHECK(outcome(other->exact_arg(fixture.root)) == "wrong_allocator");
  CHECK(outcome(other->offset(fixture.root, 1, 0)) == "wrong_allocator");
}
