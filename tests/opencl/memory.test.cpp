// SPDX-License-Identifier: MIT
// What an allocation is asked to be: placement, commit, zero, sizes.
#include <berth/opencl/allocator.hpp>

#include <chrono>
#include <future>
#include <limits>
#include <string>
#include <thread>

#include "support/opencl_fixture.hpp"

using namespace berth;
using native::property;
using native::references;
using opencl::Commit;

namespace {

cl_mem_flags placement(cl_mem mem) {
  return property<cl_mem_flags>(mem, CL_MEM_FLAGS) & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_USE_HOST_PTR);
}

void check_round_trip(opencl::Allocator& allocator, std::size_t nbytes, const BufferSpec& spec) {
  CAPTURE(nbytes);
  auto buf = allocator.alloc(nbytes, spec);
  REQUIRE(message(buf) == "ok");
  CHECK(buf->nbytes() == nbytes);
  CHECK_FALSE(buf->is_view());
  const auto bytes = native::pattern(nbytes);
  REQUIRE(message(allocator.copyin(*buf, bytes)) == "ok");
  CHECK(native::content(allocator, *buf) == bytes);
  allocator.free(std::move(*buf), nbytes, spec);
}

}  // namespace

TEST_CASE("placement follows the spec") {
  native::Stream stream;
  const auto placed = [&](const BufferSpec& spec) {
    auto buf = stream.allocator.alloc(4096, spec);
    REQUIRE(message(buf) == "ok");
    const cl_mem_flags flags = placement(buf->root());
    CHECK((property<cl_mem_flags>(buf->root(), CL_MEM_FLAGS) & CL_MEM_READ_WRITE) != 0);
    stream.allocator.free(std::move(*buf), 4096, spec);
    return flags;
  };
  CHECK(placed({}) == 0);
  CHECK(placed({.uncached = true}) == 0);
  CHECK(placed({.nolru = true}) == 0);
  CHECK(placed({.host = true}) == CL_MEM_ALLOC_HOST_PTR);
  CHECK(placed({.cpu_access = true, .host = true}) == CL_MEM_ALLOC_HOST_PTR);
  CHECK(placed({.cpu_access = true}) ==
        (stream.description.unified_memory ? cl_mem_flags{CL_MEM_ALLOC_HOST_PTR} : cl_mem_flags{0}));

  const native::Pages pages(4096);
  CHECK(placed({.external_ptr = pages.data()}) == CL_MEM_USE_HOST_PTR);
  CHECK(placed({.host = true, .external_ptr = pages.data()}) == CL_MEM_USE_HOST_PTR);
  CHECK(placed({.cpu_access = true, .external_ptr = pages.data()}) == CL_MEM_USE_HOST_PTR);
}

TEST_CASE("memory works, committed or not, wherever it is") {
  const Commit commit = GENERATE(Commit::automatic, Commit::always, Commit::never);
  native::Stream stream({.commit = commit});
  for (const std::size_t nbytes :
       {std::size_t{1}, std::size_t{77}, std::size_t{4096}, (std::size_t{3} << 20U) + 1}) {
    check_round_trip(stream.allocator, nbytes, {});
    check_round_trip(stream.allocator, nbytes, {.host = true});
    check_round_trip(stream.allocator, nbytes, {.uncached = true, .cpu_access = true});
    check_round_trip(stream.allocator, nbytes, {.host = true, .zero = true});
  }
}

TEST_CASE("an allocation that commits waits for no work on the caller's queue") {
  native::Stream stream({.commit = Commit::always});
  native::Gate gate(stream.context);
  gate.close(stream.queue);
  const auto held_back = native::marker(stream.queue);

  std::promise<std::string> promise;
  auto allocated = promise.get_future();
  const std::jthread allocating([&] {
    auto buf = stream.allocator.alloc(1U << 20U);
    promise.set_value(message(buf));
    if (buf) stream.allocator.free(std::move(*buf), 1U << 20U);
  });
  CHECK(allocated.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK(native::pending(held_back));
  gate.open();
  CHECK(allocated.get() == "ok");
}

TEST_CASE("an allocation that commits touches its last byte only") {
  native::Stream stream({.commit = Commit::always});
  const std::size_t nbytes = GENERATE(1, 2, 100);
  auto zeroed = stream.allocator.alloc(nbytes, {.zero = true});
  REQUIRE(message(zeroed) == "ok");
  CHECK(native::content(stream.allocator, *zeroed) == std::vector<std::byte>(nbytes));
  stream.allocator.free(std::move(*zeroed), nbytes, {.zero = true});
}

TEST_CASE("zero means every byte, of memory used before too") {
  const Commit commit = GENERATE(Commit::always, Commit::never);
  native::Stream stream({.commit = commit});
  for (const bool host : {false, true}) {
    for (const std::size_t nbytes : {1U, 3U, 127U, 4096U, 1000003U}) {
      CAPTURE(nbytes);
      const BufferSpec zero{.host = host, .zero = true};
      for (int round = 0; round < 3; ++round) {
        auto used = stream.allocator.alloc(nbytes, {.host = host});
        REQUIRE(message(used) == "ok");
        REQUIRE(message(stream.allocator.fill(*used, std::byte{0xAB})) == "ok");
        REQUIRE(native::content(stream.allocator, *used) == std::vector<std::byte>(nbytes, std::byte{0xAB}));
        stream.allocator.free(std::move(*used), nbytes, {.host = host});

        auto buf = stream.allocator.alloc(nbytes, zero);
        REQUIRE(message(buf) == "ok");
        REQUIRE(native::content(stream.allocator, *buf) == std::vector<std::byte>(nbytes));
        REQUIRE(message(stream.allocator.fill(*buf, std::byte{0xCD})) == "ok");
        stream.allocator.free(std::move(*buf), nbytes, zero);
      }
    }
  }
}

TEST_CASE("above the device's maximum: the numbers, and nothing asked of the driver") {
  native::Stream stream({.commit = Commit::always});
  const std::uint64_t maximum = stream.description.max_alloc_bytes;
  const std::size_t granularity = stream.allocator.info().granularity;
  const cl_uint before = references(stream.context.get());
  std::vector<std::size_t> sizes{maximum + 1, maximum + granularity,
                                 std::numeric_limits<std::size_t>::max() / 2};
  for (std::size_t k = 0; k <= 2 * granularity; ++k)
    sizes.push_back(std::numeric_limits<std::size_t>::max() - k);
  for (const std::size_t nbytes : sizes) {
    CAPTURE(nbytes);
    for (const BufferSpec& spec : {BufferSpec{}, BufferSpec{.host = true}, BufferSpec{.zero = true}}) {
      const auto buf = stream.allocator.alloc(nbytes, spec);
      REQUIRE(outcome(buf) == "exceeds_device_maximum");
      REQUIRE(buf.error().asked() == nbytes);
      REQUIRE(buf.error().limit() == maximum);
      REQUIRE_FALSE(buf.error().status().has_value());
    }
  }
  CHECK(references(stream.context.get()) == before);
  check_round_trip(stream.allocator, 100, {});
}

TEST_CASE("core OpenCL has no addresses") {
  native::Stream stream;
  auto buf = stream.allocator.alloc(64);
  REQUIRE(message(buf) == "ok");
  CHECK(outcome(stream.allocator.addr(*buf)) == "unsupported");
  auto empty = stream.allocator.alloc(0);
  REQUIRE(message(empty) == "ok");
  const auto address = stream.allocator.addr(*empty);
  REQUIRE(message(address) == "ok");
  CHECK(*address == 0);
  stream.allocator.free(std::move(*buf), 64);
}

TEST_CASE("a free may come before the work that uses the buffer has run") {
  native::Stream stream;
  constexpr std::size_t nbytes = 1U << 20U;
  const auto bytes = native::pattern(nbytes);
  auto source = stream.allocator.alloc(nbytes);
  auto kept = stream.allocator.alloc(nbytes);
  REQUIRE(message(source) == "ok");
  REQUIRE(message(kept) == "ok");
  REQUIRE(message(stream.allocator.copyin(*source, bytes)) == "ok");
  native::Gate gate(stream.context);
  gate.close(stream.queue);
  REQUIRE(message(stream.allocator.transfer(*kept, *source, nbytes)) == "ok");
  stream.allocator.free(std::move(*source), nbytes);

  // Memory handed out meanwhile is not the source's.
  const auto other = native::make_queue(stream.context, stream.description.id);
  auto other_handle = opencl::Allocator::borrow(stream.context, other);
  REQUIRE(message(other_handle) == "ok");
  for (int i = 0; i < 8; ++i) {
    auto buf = other_handle->alloc(nbytes);
    REQUIRE(message(buf) == "ok");
    REQUIRE(message(other_handle->copyin(*buf, std::vector<std::byte>(nbytes, std::byte{0xEE}))) == "ok");
    other_handle->free(std::move(*buf), nbytes);
  }
  gate.open();
  CHECK(native::content(stream.allocator, *kept) == bytes);
  stream.allocator.free(std::move(*kept), nbytes);
}
