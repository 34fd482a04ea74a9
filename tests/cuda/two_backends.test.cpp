// SPDX-License-Identifier: MIT
// One host array, and devices of two backends: no byte belongs to two links.
#include <berth/cuda/framework.hpp>
#include <berth/device/registry.hpp>
#include <berth/opencl/framework.hpp>

#include "support/cuda_fixture.hpp"
#include "support/host_ptr_words.hpp"

using namespace berth;
using namespace host_ptr_test;

TEST_CASE("an array that is linked to a device of one backend is refused to one of the other") {
  const native::Machine machine;
  const native::Borrowed user;
  REQUIRE(message(device::register_framework(cuda::framework())) == "ok");
  REQUIRE(message(device::register_framework(opencl::framework())) == "ok");
  const auto found = opencl::framework()->devices();
  REQUIRE(message(found) == "ok");
  const Device on_cuda("CUDA", 0, "on CUDA", pack(user.allocator));
  const Device& on_opencl = found->front();
  const Array array = zeros(length);
  const Array half = Array::over(array.writable_elements().first(length / 2));
  for (const auto& [first, second] : {std::pair{on_cuda, on_opencl}, {on_opencl, on_cuda}}) {
    CAPTURE(first.name());
    Words vector = Words::over(array);
    Words part = Words::over(half);
    write(array, 1);
    REQUIRE(message(host_ptr::attach(vector, first)) == "ok");
    const auto refused = host_ptr::attach(part, second);
    REQUIRE(cause(refused) == "overlap");
    const auto& reason = std::get<host_ptr::Refused>(refused.error()).reason;
    CHECK(reason.other_address == reinterpret_cast<std::uintptr_t>(array.data()));
    CHECK(reason.limit == array.nbytes());

    // A copy there, and the newest goes over the host from the one to the other.
    {
      auto launch = launching(first, inout(vector));
      REQUIRE(message(launch) == "ok");
      REQUIRE(message(vector.buffer(first)->fill(std::byte{2})) == "ok");
    }
    {
      auto launch = launching(second, inout(vector));
      REQUIRE(message(launch) == "ok");
      std::vector<std::int32_t> seen(length);
      REQUIRE(message(vector.buffer(second)->copyout(std::as_writable_bytes(std::span(seen)))) == "ok");
      CHECK(seen == all(0x02020202));
      REQUIRE(message(vector.buffer(second)->fill(std::byte{3})) == "ok");
    }
    CHECK(vector.get(5).value_or(0) == 0x03030303);
    REQUIRE(message(host_ptr::detach(vector, first)) == "ok");
    REQUIRE(message(host_ptr::attach(part, second)) == "ok");
    CHECK(part.get(5).value_or(0) == 0x03030303);
  }
  device::unregister_framework("CUDA");
  device::unregister_framework("OpenCL");
}
