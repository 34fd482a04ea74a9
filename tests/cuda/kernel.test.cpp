// SPDX-License-Identifier: MIT
// A user's own kernels on berth's buffers, and one that the context does not survive.
#include <berth/cuda/allocator.hpp>

#include <array>

#include "support/child.hpp"
#include "support/cuda_module.hpp"
#include "support/reports.hpp"

using namespace berth;
using native::abi::DevicePtr;

namespace {

// increment: adds 1 to each of `count` bytes.
constexpr const char* ptx = R"(.version 6.0
.target sm_50
.address_size 64

.visible .entry increment(.param .u64 bytes, .param .u32 count)
{
  .reg .pred %outside;
  .reg .b32 %i, %n, %size, %group, %value;
  .reg .b64 %at, %wide;
  mov.u32 %i, %tid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %group, %ctaid.x;
  mad.lo.u32 %i, %group, %size, %i;
  ld.param.u32 %n, [count];
  setp.ge.u32 %outside, %i, %n;
  @%outside bra end;
  ld.param.u64 %at, [bytes];
  cvta.to.global.u64 %at, %at;
  cvt.u64.u32 %wide, %i;
  add.u64 %at, %at, %wide;
  ld.global.u8 %value, [%at];
  add.u32 %value, %value, 1;
  st.global.u8 [%at], %value;
end:
  ret;
}
)";

void increment(const fake_cuda::Launch& launch) {
  std::byte* const bytes = fake_cuda::Machine::bytes(launch.arg<DevicePtr>(0));
  for (std::uint32_t i = 0; i < launch.arg<std::uint32_t>(1); ++i)
    bytes[i] = static_cast<std::byte>(std::to_integer<int>(bytes[i]) + 1);
}

/// A user's module in a user's context.
class Kernels {
 public:
  Kernels(native::Machine& machine, native::abi::Context context) : module_((add(machine), context), ptx) {}
  void increment_on(native::abi::Stream stream, DevicePtr bytes, std::uint32_t count) const {
    const native::abi::Function increment = module_.function("increment");
    const native::Entered entered(module_.context());
    std::array<void*, 2> arguments{&bytes, &count};
    REQUIRE_CUDA(native::driver().launch_kernel(increment, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream,
                                                arguments.data(), nullptr));
  }

 private:
  static void add(native::Machine& machine) {
    if (machine.fake())
      machine->add_kernel("increment", {sizeof(DevicePtr), sizeof(std::uint32_t)}, increment);
  }

  native::Module module_;
};

}  // namespace

TEST_CASE("a user's kernel works on a buffer's address, a view's, and pinned memory's") {
  native::Machine machine;
  native::Borrowed user;
  const Kernels kernels(machine, user.context);
  for (const BufferSpec spec : {BufferSpec{}, BufferSpec{.host = true}}) {
    auto buf = user.allocator.alloc(10'000, spec);
    REQUIRE(message(buf) == "ok");
    REQUIRE(message(user.allocator.fill(*buf, std::byte{1})) == "ok");
    const auto view = user.allocator.offset(*buf, 1001, 3333);
    REQUIRE(message(view) == "ok");
    kernels.increment_on(user.stream, buf->address(), 10'000);
    kernels.increment_on(user.stream, view->address(), 1001);
    const auto seen = native::content(user.allocator, *buf);
    CHECK(native::all(std::span(seen).first(3333), 2));
    CHECK(native::all(std::span(seen).subspan(3333, 1001), 3));
    CHECK(native::all(std::span(seen).subspan(4334), 2));
    kernels.increment_on(user.stream, buf->address(), 10'000);
    user.allocator.free(*buf, 10'000, spec);  // after the kernel
  }
}

TEST_CASE("child: a kernel that writes where no memory is", "[.]") {
  native::Machine machine;
  Reports reports;
  auto opened = cuda::Allocator::open(0, native::options());
  REQUIRE(message(opened) == "ok");
  {
    auto buf = opened->alloc(4096);
    REQUIRE(message(buf) == "ok");
    native::run_wild(machine, opened->context(), opened->queue());
    const auto seen = opened->synchronize();
    native::say("synchronize: " + outcome(seen));
    native::say("alloc: " + outcome(opened->alloc(16)));
    opened->free(*buf, 4096);
  }
  native::say("told: " + std::to_string(reports.take().size()));
}

TEST_CASE("a fault in a kernel is device_lost, told once") {
  const auto child = native::run_child("child: a kernel that writes where no memory is");
  INFO(child.output);
  CHECK(child.output.find("synchronize: device_lost") != std::string::npos);
  CHECK(child.output.find("alloc: device_lost") != std::string::npos);
  CHECK(child.output.find("told: 1") != std::string::npos);
}
