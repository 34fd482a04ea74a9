// SPDX-License-Identifier: MIT
// The fake driver is a driver: what the other tests rely on.
#include "support/cuda_fixture.hpp"
#include "support/pages.hpp"

#include <cstring>

using native::abi::DevicePtr;
using native::abi::MemHandle;
using native::abi::Status;
namespace abi = native::abi;

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20U;

struct Fixture {
  native::Machine machine{{.devices = 2, .total_bytes = 4 * granularity}};
  native::Context context;
  native::Stream stream{context};
  native::Entered entered{context};
  const berth::cuda::Driver& driver = native::driver();

  DevicePtr memory(std::size_t nbytes) const {
    DevicePtr address = 0;
    REQUIRE_CUDA(driver.mem_alloc(&address, nbytes));
    return address;
  }
};

abi::MemAllocationProp properties(int device) {
  abi::MemAllocationProp wanted{};
  wanted.type = abi::mem_allocation_type_pinned;
  wanted.location = {abi::mem_location_type_device, device};
  return wanted;
}

constexpr abi::MemAccessDesc readable{{abi::mem_location_type_device, 0},
                                      abi::mem_access_flags_prot_readwrite};

}  // namespace

TEST_CASE("work runs when it is waited for, in its order") {
  Fixture f;
  const DevicePtr a = f.memory(16);
  REQUIRE_CUDA(f.driver.memset_d8_async(a, 1, 16, f.stream));
  CHECK(f.machine->busy(f.stream));
  CHECK(fake_cuda::Machine::bytes(a)[0] == std::byte{0xA5});
  REQUIRE_CUDA(f.driver.stream_synchronize(f.stream));
  CHECK(fake_cuda::Machine::bytes(a)[0] == std::byte{1});
  REQUIRE_CUDA(f.driver.mem_free(a));
}

TEST_CASE("queries tell what was, and let the work go on") {
  Fixture f;
  const DevicePtr a = f.memory(16);
  REQUIRE_CUDA(f.driver.memset_d8_async(a, 1, 16, f.stream));
  CHECK(f.driver.stream_query(f.stream) == abi::not_ready);
  CHECK(f.driver.stream_query(f.stream) == abi::success);
  REQUIRE_CUDA(f.driver.mem_free(a));
}

TEST_CASE("a copy from pageable memory takes the bytes at once, one from pinned memory late") {
  Fixture f;
  const DevicePtr a = f.memory(16);
  std::vector<std::byte> pageable(16, std::byte{1});
  REQUIRE_CUDA(f.driver.memcpy_htod_async(a, pageable.data(), 16, f.stream));
  pageable.assign(16, std::byte{2});
  REQUIRE_CUDA(f.driver.stream_synchronize(f.stream));
  CHECK(fake_cuda::Machine::bytes(a)[0] == std::byte{1});

  void* pinned = nullptr;
  REQUIRE_CUDA(f.driver.mem_host_alloc(&pinned, 16, abi::memhostalloc_portable));
  std::memset(pinned, 3, 16);
  REQUIRE_CUDA(f.driver.memcpy_htod_async(a, pinned, 16, f.stream));
  std::memset(pinned, 4, 16);
  REQUIRE_CUDA(f.driver.stream_synchronize(f.stream));
  CHECK(fake_cuda::Machine::bytes(a)[0] == std::byte{4});
  REQUIRE_CUDA(f.driver.mem_free_host(pinned));
  REQUIRE_CUDA(f.driver.mem_free(a));
}

TEST_CASE("registration: overlap is 712, a stranger 713") {
  Fixture f;
  const native::Pages pages(8192);
  REQUIRE_CUDA(f.driver.mem_host_register(pages.data(), 4096, abi::memhostregister_devicemap));
  CHECK(f.driver.mem_host_register(pages.data() + 4000, 200, 0) == abi::host_memory_already_registered);
  CHECK(f.driver.mem_host_unregister(pages.data() + 64) == abi::host_memory_not_registered);
  DevicePtr address = 0;
  CHECK(f.driver.mem_host_get_device_pointer(&address, pages.data(), 0) == abi::success);
  CHECK(fake_cuda::Machine::bytes(address) == pages.data());
  REQUIRE_CUDA(f.driver.mem_host_unregister(pages.data()));
}

TEST_CASE("peers: enabled once, needed for another device's memory") {
  Fixture f;
  native::Context other(1);
  const DevicePtr near = f.memory(16);
  DevicePtr far = 0;
  {
    const native::Entered entered(other);
    REQUIRE_CUDA(f.driver.mem_alloc(&far, 16));
  }
  CHECK(f.driver.memcpy_dtod_async(near, far, 16, f.stream) == abi::invalid_value);
  CHECK(f.machine->violations() ==
        "cuMemcpyDtoDAsync: the memory is another device's, without peer access\n");
  f.machine->reset();
  REQUIRE_CUDA(f.driver.ctx_enable_peer_access(other, 0));
  CHECK(f.driver.ctx_enable_peer_access(other, 0) == abi::peer_access_already_enabled);
  REQUIRE_CUDA(f.driver.memcpy_dtod_async(near, far, 16, f.stream));
  REQUIRE_CUDA(f.driver.stream_synchronize(f.stream));
  REQUIRE_CUDA(f.driver.mem_free(near));
  const native::Entered entered(other);
  REQUIRE_CUDA(f.driver.mem_free(far));
}

TEST_CASE("misuse is written down") {
  Fixture f;
  const DevicePtr a = f.memory(64);
  native::Context other;
  SECTION("memory that goes under queued work") {
    const DevicePtr b = f.memory(64);
    REQUIRE_CUDA(f.driver.memset_d8_async(b + 63, 1, 1, f.stream));
    REQUIRE_CUDA(f.driver.mem_free(b));
    CHECK(f.machine->violations() == "cuMemFree: queued work uses the memory\n");
  }
  SECTION("a stream of another context") {
    const native::Entered entered(other);
    CHECK(f.driver.memset_d8_async(a, 1, 1, f.stream) == abi::invalid_handle);
    CHECK(f.machine->violations() == "cuMemsetD8Async: the stream is not of the current context\n");
  }
  SECTION("bytes behind the end") {
    CHECK(f.driver.memset_d8_async(a + 1, 1, 64, f.stream) == abi::invalid_value);
    CHECK(f.machine->violations() == "cuMemsetD8Async: no memory at the address\n");
  }
  SECTION("what a context leaves behind") {
    {
      const native::Entered entered(other);
      static_cast<void>(f.memory(16));
    }
    REQUIRE_CUDA(f.driver.ctx_destroy(other.give()));
    CHECK(f.machine->violations() == "a context ends with 1 objects of its own\n");
  }
  f.machine->reset();
  REQUIRE_CUDA(f.driver.mem_free(a));
}

TEST_CASE("calls fail on demand") {
  Fixture f;
  DevicePtr a = 0;
  f.machine->fail({.symbol = "cuMemAlloc", .nth = 2, .times = 1, .status = abi::unknown});
  const DevicePtr first = f.memory(16);
  CHECK(f.driver.mem_alloc(&a, 16) == abi::unknown);
  CHECK(f.machine->last_failed() == "cuMemAlloc");
  const DevicePtr third = f.memory(16);
  CHECK(f.machine->failed() == 1);
  REQUIRE_CUDA(f.driver.mem_free(first));
  REQUIRE_CUDA(f.driver.mem_free(third));
}

// Virtual memory.

TEST_CASE("memory is mapped into a reserved range, one piece after the other") {
  Fixture f;
  std::size_t step = 0;
  const auto wanted = properties(0);
  REQUIRE_CUDA(f.driver.mem_get_allocation_granularity(&step, &wanted, abi::mem_alloc_granularity_minimum));
  CHECK(step == granularity);
  DevicePtr range = 0;
  REQUIRE_CUDA(f.driver.mem_address_reserve(&range, 4 * step, 0, 0, 0));
  MemHandle first = 0;
  MemHandle second = 0;
  REQUIRE_CUDA(f.driver.mem_create(&first, step, &wanted, 0));
  REQUIRE_CUDA(f.driver.mem_create(&second, 2 * step, &wanted, 0));
  CHECK(f.machine->free_bytes() == step);
  REQUIRE_CUDA(f.driver.mem_map(range, step, 0, first, 0));
  CHECK(f.driver.mem_map(range, step, 0, first, 0) == abi::invalid_value);
  REQUIRE_CUDA(f.driver.mem_map(range + step, 2 * step, 0, second, 0));
  REQUIRE_CUDA(f.driver.mem_release(first));
  REQUIRE_CUDA(f.driver.mem_release(second));
  CHECK(f.machine->free_bytes() == step);  // the mappings hold it

  CHECK(f.driver.memset_d8_async(range, 1, 1, f.stream) == abi::invalid_value);  // not accessible yet
  f.machine->reset();
  REQUIRE_CUDA(f.driver.mem_set_access(range, 3 * step, &readable, 1));
  REQUIRE_CUDA(f.driver.memset_d8_async(range, 7, 3 * step, f.stream));
  REQUIRE_CUDA(f.driver.stream_synchronize(f.stream));
  CHECK(native::all(std::span(fake_cuda::Machine::bytes(range), 3 * step), 7));

  CHECK(f.driver.mem_address_free(range, 4 * step) == abi::invalid_value);
  CHECK(f.driver.mem_unmap(range + step, step) == abi::invalid_value);  // half a mapping
  REQUIRE_CUDA(f.driver.mem_unmap(range, 3 * step));
  CHECK(f.machine->free_bytes() == 4 * step);
  REQUIRE_CUDA(f.driver.mem_address_free(range, 4 * step));
}

TEST_CASE("memory unmapped under queued work is written down") {
  Fixture f;
  const auto wanted = properties(0);
  DevicePtr range = 0;
  MemHandle handle = 0;
  REQUIRE_CUDA(f.driver.mem_address_reserve(&range, granularity, 0, 0, 0));
  REQUIRE_CUDA(f.driver.mem_create(&handle, granularity, &wanted, 0));
  REQUIRE_CUDA(f.driver.mem_map(range, granularity, 0, handle, 0));
  REQUIRE_CUDA(f.driver.mem_set_access(range, granularity, &readable, 1));
  REQUIRE_CUDA(f.driver.memset_d8_async(range, 1, 16, f.stream));
  REQUIRE_CUDA(f.driver.mem_unmap(range, granularity));
  CHECK(f.machine->violations() == "cuMemUnmap: queued work uses the memory\n");
  f.machine->reset();
  REQUIRE_CUDA(f.driver.mem_release(handle));
  REQUIRE_CUDA(f.driver.mem_address_free(range, granularity));
}

TEST_CASE("memory that runs out by mem_create is out of memory") {
  Fixture f;
  const auto wanted = properties(0);
  MemHandle handle = 0;
  CHECK(f.driver.mem_create(&handle, 5 * granularity, &wanted, 0) == abi::out_of_memory);
  CHECK(f.driver.mem_create(&handle, granularity - 1, &wanted, 0) == abi::invalid_value);
}
