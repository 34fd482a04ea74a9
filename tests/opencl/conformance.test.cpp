// SPDX-License-Identifier: MIT
#include "support/conformance.hpp"

#include "support/opencl_fixture.hpp"

namespace {

using namespace berth;
using berth_test::both;
using berth_test::require_conformance;
using berth_test::Skips;

const Skips typed{"alignment", "buffers_of_another_backend", "above_4_gib"};
const Skips packed{"alignment", "above_4_gib"};

/// An allocator whose plain allocations are `cl_mem`s that the caller made, and that berth adopts or borrows.
template <bool adopts>
class NativeBuffers : public Forwarding<opencl::Allocator> {
 public:
  using buffer_type = opencl::ClBuffer;

  static Result<NativeBuffers> open() {
    auto allocator = opencl::Allocator::open(native::device().id);
    if (!allocator) return fail(allocator.error());
    return NativeBuffers(std::move(*allocator));
  }

  Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec) {
    // A size or spec that OpenCL itself would refuse, or not know, is berth's to judge.
    if (nbytes == 0 || nbytes > info().max_bytes || spec != BufferSpec{})
      return upstream().alloc(nbytes, spec);
    auto mem = native::make_buffer(upstream().context(), nbytes);
    if constexpr (!adopts) return upstream().borrow(mem);
    auto buf = upstream().adopt(mem);
    if (buf) mem.give();
    return buf;
  }
  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    upstream().free(buf, nbytes, spec);
  }

 private:
  explicit NativeBuffers(opencl::Allocator allocator) noexcept
      : Forwarding<opencl::Allocator>(std::move(allocator)) {}
};

Result<opencl::Allocator> open() { return opencl::Allocator::open(native::device().id); }

TEST_CASE("OpenCL conforms on a device that berth opens") {
  berth_test::require_conformance_in_every_form<opencl::Allocator>(open, typed, packed);
}

TEST_CASE("OpenCL conforms when allocations are committed") {
  require_conformance<opencl::Allocator>(
      [] { return opencl::Allocator::open(native::device().id, {.commit = opencl::Commit::always}); }, typed);
}

TEST_CASE("OpenCL conforms on a borrowed context and queue") {
  const native::Stream stream;
  require_conformance<opencl::Allocator>(
      [&] { return opencl::Allocator::borrow(stream.context, stream.queue); }, typed);
}

TEST_CASE("OpenCL conforms on an adopted context and queue") {
  require_conformance<opencl::Allocator>(
      [] {
        const auto device = native::device().id;
        auto context = native::make_context(device);
        auto queue = native::make_queue(context, device);
        auto allocator = opencl::Allocator::adopt(context, queue);
        if (allocator) {
          context.give();
          queue.give();
        }
        return allocator;
      },
      typed);
}

TEST_CASE("OpenCL conforms through a handle on another queue") {
  require_conformance<opencl::Allocator>(
      []() -> Result<opencl::Allocator> {
        auto allocator = open();
        if (!allocator) return fail(allocator.error());
        auto queue = native::make_queue(allocator->context(), allocator->device());
        return allocator->on(opencl::adopt_queue(queue.give()));
      },
      typed);
}

TEST_CASE("OpenCL conforms on buffers adopted from the caller") {
  require_conformance<NativeBuffers<true>>(NativeBuffers<true>::open, both(typed, {"queues"}));
}

TEST_CASE("OpenCL conforms on buffers borrowed from the caller") {
  require_conformance<NativeBuffers<false>>(NativeBuffers<false>::open, both(typed, {"queues"}));
}

}  // namespace
