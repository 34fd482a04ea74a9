// SPDX-License-Identifier: MIT
// The address layer by plain OpenCL calls, held to what cl_ext_buffer_device_address says.
#include <array>
#include <string>

#include "support/opencl_fixture.hpp"

// The fixture asks for OpenCL 1.2; this entry point is of 3.0.
extern "C" cl_mem clCreateBufferWithProperties(cl_context context, const cl_ulong* properties,
                                               cl_mem_flags flags, size_t nbytes, void* host,
                                               cl_int* errcode);

namespace {

constexpr std::size_t size = 1000;
constexpr cl_ulong device_private_address = 0x5000;
constexpr cl_uint device_address = 0x5001;

struct Fixture {
  cl_device_id device = native::device().id;
  native::Owned<cl_context> context = native::make_context(device);
  native::Owned<cl_command_queue> queue = native::make_queue(context, device);

  native::Owned<cl_mem> make(const std::vector<cl_ulong>& properties, cl_int expected = CL_SUCCESS) const {
    cl_int status = CL_SUCCESS;
    native::Owned<cl_mem> made(
        clCreateBufferWithProperties(context, properties.data(), CL_MEM_READ_WRITE, size, nullptr, &status));
    CHECK(status == expected);
    return made;
  }
};

cl_int address_of(cl_mem object, cl_ulong& address) {
  return clGetMemObjectInfo(object, device_address, sizeof address, &address, nullptr);
}

}  // namespace

TEST_CASE("the device has the extension") {
  const std::string extensions = " " + native::device().extensions + " ";
  CHECK(extensions.find(" cl_ext_buffer_device_address ") != std::string::npos);
}

TEST_CASE("a buffer made with the property has an address") {
  const Fixture fixture;
  const auto first = fixture.make({device_private_address, CL_TRUE, 0});
  const auto second = fixture.make({device_private_address, CL_TRUE, 0});
  cl_ulong a = 0;
  cl_ulong b = 0;
  REQUIRE(address_of(first, a) == CL_SUCCESS);
  REQUIRE(address_of(second, b) == CL_SUCCESS);
  CHECK(a % 128 == 0);
  CHECK(b % 128 == 0);
  CHECK((a + size <= b || b + size <= a));
  cl_ulong again = 0;
  REQUIRE(address_of(first, again) == CL_SUCCESS);
  CHECK(again == a);

  std::size_t nbytes = 0;
  REQUIRE(clGetMemObjectInfo(first, device_address, 0, nullptr, &nbytes) == CL_SUCCESS);
  CHECK(nbytes == sizeof(cl_ulong));  // one device
  std::array<std::byte, 4> small{};
  CHECK(clGetMemObjectInfo(first, device_address, small.size(), small.data(), nullptr) == CL_INVALID_VALUE);

  const auto sub = native::make_sub_buffer(first, 128, 64);
  cl_ulong inside = 0;
  REQUIRE(address_of(sub, inside) == CL_SUCCESS);
  CHECK(inside == a + 128);

  // It is a buffer like any other.
  const cl_uchar value = 7;
  REQUIRE(clEnqueueFillBuffer(fixture.queue, first, &value, 1, 0, size, 0, nullptr, nullptr) == CL_SUCCESS);
  REQUIRE(clFinish(fixture.queue) == CL_SUCCESS);
  CHECK(native::content(first, 1) == std::vector{std::byte{7}});
}

TEST_CASE("a buffer made without the property has none") {
  const Fixture fixture;
  cl_ulong address = 0;
  CHECK(address_of(native::make_buffer(fixture.context, size), address) == CL_INVALID_OPERATION);
  CHECK(address_of(fixture.make({device_private_address, CL_FALSE, 0}), address) == CL_INVALID_OPERATION);
  CHECK(address_of(fixture.make({0}), address) == CL_INVALID_OPERATION);
}

TEST_CASE("properties that make no sense are refused") {
  const Fixture fixture;
  static_cast<void>(fixture.make({device_private_address, 2, 0}, CL_INVALID_PROPERTY));
  static_cast<void>(fixture.make({device_private_address, CL_TRUE, device_private_address, CL_TRUE, 0},
                                 CL_INVALID_PROPERTY));
  static_cast<void>(fixture.make({0x7777, 1, 0}, CL_INVALID_PROPERTY));
}
