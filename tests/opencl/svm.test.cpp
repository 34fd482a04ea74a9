// SPDX-License-Identifier: MIT
// Buffers over shared virtual memory of the caller's have its address. Runs on the driver itself, which has
// no other device addresses.
#include <berth/opencl/allocator.hpp>

#include "support/opencl_fixture.hpp"
#include "support/skip.hpp"

// The fixture asks for OpenCL 1.2; these are of 2.0.
extern "C" {
void* clSVMAlloc(cl_context context, cl_ulong flags, size_t nbytes, cl_uint alignment);
void clSVMFree(cl_context context, void* pointer);
cl_int clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void* value);
}

using namespace berth;

namespace {

constexpr std::size_t size = 4096;

constexpr const char* source = R"(
  kernel void add_one(global uchar* bytes) { bytes[get_global_id(0)] += 1; }
)";

/// Shared virtual memory of the caller's.
class Shared {
 public:
  explicit Shared(cl_context context) : context_(context), memory_(clSVMAlloc(context, 0, size, 64)) {
    REQUIRE(memory_ != nullptr);
  }
  Shared(Shared&&) = delete;
  ~Shared() { clSVMFree(context_, memory_); }
  [[nodiscard]] void* memory() const noexcept { return memory_; }

 private:
  cl_context context_;
  void* memory_;
};

}  // namespace

TEST_CASE("the address over shared virtual memory is the memory's own, and kernels can use it") {
  native::Stream stream;
  if (!stream.description.svm_coarse) return left_out("the device has no shared virtual memory");
  const Shared shared(stream.context);
  const BufferSpec spec{.external_ptr = shared.memory()};
  auto buf = stream.allocator.alloc(size, spec);
  REQUIRE(message(buf) == "ok");
  const auto address = stream.allocator.addr(*buf);
  REQUIRE(message(address) == "ok");
  CHECK(*address == reinterpret_cast<std::uintptr_t>(shared.memory()));
  auto view = stream.allocator.offset(*buf, 100, 1000);
  REQUIRE(message(view) == "ok");
  CHECK(stream.allocator.addr(*view).value() == *address + 1000);

  const auto bytes = native::pattern(size);
  REQUIRE(message(stream.allocator.copyin(*buf, bytes)) == "ok");
  const native::Program program(stream.context, stream.description.id, source);
  const auto kernel = program.kernel("add_one");
  const std::size_t items = 100;
  REQUIRE(clSetKernelArgSVMPointer(kernel, 0, reinterpret_cast<void*>(*address + 1000)) == CL_SUCCESS);
  REQUIRE(clEnqueueNDRangeKernel(stream.queue, kernel, 1, nullptr, &items, nullptr, 0, nullptr, nullptr) ==
          CL_SUCCESS);
  auto expected = bytes;
  for (std::size_t i = 1000; i < 1100; ++i) {
    expected[i] = static_cast<std::byte>(std::to_integer<unsigned>(expected[i]) + 1);
  }
  CHECK(native::content(stream.allocator, *buf) == expected);
  stream.allocator.free(std::move(*buf), size, spec);
}

TEST_CASE("other memory has no address") {
  native::Stream stream;
  auto own = stream.allocator.alloc(size);
  REQUIRE(message(own) == "ok");
  const auto address = stream.allocator.addr(*own);
  REQUIRE(outcome(address) == "unsupported");
  CHECK(address.error().message().find("no buffer device addresses") != std::string::npos);
  stream.allocator.free(std::move(*own), size);
}
