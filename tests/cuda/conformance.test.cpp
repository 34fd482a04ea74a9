// SPDX-License-Identifier: MIT
#include "support/conformance.hpp"

#include "support/cuda_fixture.hpp"

namespace {

using namespace berth;
using berth_test::both;
using berth_test::require_conformance;
using berth_test::Skips;

// A machine may have less than 8 GiB to spare; the rest must be tried.
const Skips typed{"buffers_of_another_backend", "above_4_gib"};
const Skips packed{"above_4_gib"};

/// An allocator whose plain allocations are addresses that the caller allocated, and that berth adopts or
/// borrows.
template <bool adopts>
class NativeBuffers : public Forwarding<cuda::Allocator> {
 public:
  using buffer_type = cuda::CudaBuffer;

  static Result<NativeBuffers> open() {
    auto allocator = cuda::Allocator::open(0, native::options());
    if (!allocator) return fail(allocator.error());
    return NativeBuffers(std::move(*allocator));
  }

  Result<buffer_type> alloc(std::size_t nbytes, const BufferSpec& spec) {
    // A size or spec that CUDA itself would refuse, or not know, is berth's to judge.
    if (nbytes == 0 || nbytes > info().max_bytes || spec != BufferSpec{})
      return upstream().alloc(nbytes, spec);
    const native::Entered entered(upstream().context());
    native::abi::DevicePtr address = 0;
    REQUIRE_CUDA(native::driver().mem_alloc(&address, nbytes));
    return adopts ? upstream().adopt(address, nbytes) : upstream().borrow(address, nbytes);
  }
  void free(buffer_type buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    const bool own =
        !adopts && nbytes != 0 && spec == BufferSpec{} && !buf.is_view() && buf.instance() == info().instance;
    const native::abi::DevicePtr address = buf.address();
    upstream().free(buf, nbytes, spec);
    if (!own) return;
    const native::Entered entered(upstream().context());
    native::driver().mem_free(address);
  }

 private:
  explicit NativeBuffers(cuda::Allocator allocator) noexcept
      : Forwarding<cuda::Allocator>(std::move(allocator)) {}
};

Result<cuda::Allocator> open() { return cuda::Allocator::open(0, native::options()); }

TEST_CASE("CUDA conforms on a device that berth opens") {
  const native::Machine machine;
  berth_test::require_conformance_in_every_form<cuda::Allocator>(open, typed, packed);
}

TEST_CASE("CUDA conforms on a borrowed context and stream") {
  const native::Machine machine;
  const native::Borrowed user;
  require_conformance<cuda::Allocator>(
      [&] { return cuda::Allocator::borrow(user.context, user.stream, native::options()); }, typed);
}

TEST_CASE("CUDA conforms on the legacy default stream of a borrowed context") {
  const native::Machine machine;
  const native::Context context;
  require_conformance<cuda::Allocator>(
      [&] { return cuda::Allocator::borrow(context, nullptr, native::options()); }, typed);
}

TEST_CASE("CUDA conforms on an adopted context and stream") {
  const native::Machine machine;
  require_conformance<cuda::Allocator>(
      [] {
        native::Context context;
        native::Stream stream(context);
        auto allocator = cuda::Allocator::adopt(context, stream, native::options());
        if (allocator) {
          context.give();
          stream.give();
        }
        return allocator;
      },
      typed);
}

TEST_CASE("CUDA conforms through a handle on another stream") {
  const native::Machine machine;
  const native::Borrowed user;
  const native::Stream other = user.another_stream();
  require_conformance<cuda::Allocator>(
      [&]() -> Result<cuda::Allocator> {
        auto allocator = cuda::Allocator::borrow(user.context, user.stream, native::options());
        if (!allocator) return fail(allocator.error());
        return allocator->on(cuda::borrow_queue(other));
      },
      typed);
}

TEST_CASE("CUDA conforms on buffers adopted from the caller") {
  const native::Machine machine;
  require_conformance<NativeBuffers<true>>(NativeBuffers<true>::open, both(typed, {"queues"}));
}

TEST_CASE("CUDA conforms on buffers borrowed from the caller") {
  const native::Machine machine;
  require_conformance<NativeBuffers<false>>(NativeBuffers<false>::open, both(typed, {"queues"}));
}

}  // namespace
