// SPDX-License-Identifier: MIT
// Device addresses by cl_ext_buffer_device_address. Runs under the layer "address".
#include <berth/opencl/allocator.hpp>

#include <string>

#include "support/opencl_fixture.hpp"

using namespace berth;
using opencl::ClBuffer;

namespace {

constexpr std::size_t size = 10000;
constexpr cl_uint mem_device_address = 0x5001;

/// What the driver itself says.
cl_ulong native_address(cl_mem mem) {
  cl_ulong address = 0;
  REQUIRE(clGetMemObjectInfo(mem, mem_device_address, sizeof address, &address, nullptr) == CL_SUCCESS);
  return address;
}

}  // namespace

TEST_CASE("a buffer's address is the driver's, plus the offset of the view") {
  native::Stream stream;
  auto buf = stream.allocator.alloc(size);
  REQUIRE(message(buf) == "ok");
  const auto address = stream.allocator.addr(*buf);
  REQUIRE(message(address) == "ok");
  CHECK(*address == native_address(buf->root()));
  CHECK(*address % stream.allocator.info().alignment == 0);

  auto view = stream.allocator.offset(*buf, 100, 1001);
  REQUIRE(message(view) == "ok");
  auto inner = stream.allocator.offset(*view, 7, 13);
  REQUIRE(message(inner) == "ok");
  CHECK(stream.allocator.addr(*view).value() == *address + 1001);
  CHECK(stream.allocator.addr(*inner).value() == *address + 1014);
  stream.allocator.free(std::move(*buf), size);
}

TEST_CASE("buffers do not overlap") {
  native::Stream stream;
  auto a = stream.allocator.alloc(size, {.host = true});
  auto b = stream.allocator.alloc(size, {.zero = true});
  REQUIRE(message(a) == "ok");
  REQUIRE(message(b) == "ok");
  const auto first = stream.allocator.addr(*a).value();
  const auto second = stream.allocator.addr(*b).value();
  CHECK((first + size <= second || second + size <= first));
  CHECK(native::content(stream.allocator, *b) == std::vector<std::byte>(size));
  stream.allocator.free(std::move(*a), size, {.host = true});
  stream.allocator.free(std::move(*b), size, {.zero = true});
}

TEST_CASE("an empty buffer has the address 0") {
  native::Stream stream;
  auto empty = stream.allocator.alloc(0);
  REQUIRE(message(empty) == "ok");
  CHECK(stream.allocator.addr(*empty).value() == 0);
}

TEST_CASE("a buffer of the caller's that was made without an address has none") {
  native::Stream stream;
  const auto mem = native::make_buffer(stream.context, size);
  auto borrowed = stream.allocator.borrow(mem);
  REQUIRE(message(borrowed) == "ok");
  const auto address = stream.allocator.addr(*borrowed);
  REQUIRE(outcome(address) == "unsupported");
  CHECK(address.error().message().find("made without a device address") != std::string::npos);
  stream.allocator.free(std::move(*borrowed), size);
}

TEST_CASE("one of the caller's that was made with an address keeps it") {
  native::Stream stream;
  auto made = stream.allocator.alloc(size);
  REQUIRE(message(made) == "ok");
  auto borrowed = stream.allocator.borrow(made->root());
  REQUIRE(message(borrowed) == "ok");
  CHECK(stream.allocator.addr(*borrowed).value() == stream.allocator.addr(*made).value());
  stream.allocator.free(std::move(*borrowed), size);
  stream.allocator.free(std::move(*made), size);
}
