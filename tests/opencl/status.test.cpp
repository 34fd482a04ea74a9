// SPDX-License-Identifier: MIT
// What each OpenCL status means to a caller. Compiled with the library's own source, which it does not
// export.
#include "opencl/status.hpp"

#include "support/catch.hpp"
#include "support/outcome.hpp"

using namespace berth;
using namespace berth::opencl;

namespace {

struct Case {
  cl_int status;
  const char* name;
  Errc allocating;
  Errc moving;
  Errc other;
};

constexpr Case same(cl_int status, const char* name, Errc code) { return {status, name, code, code, code}; }

#define BERTH_NAMED(status) status, #status

constexpr Case told_apart[] = {
    same(BERTH_NAMED(CL_MEM_OBJECT_ALLOCATION_FAILURE), Errc::out_of_memory),
    same(BERTH_NAMED(CL_OUT_OF_HOST_MEMORY), Errc::out_of_memory),
    {BERTH_NAMED(CL_OUT_OF_RESOURCES), Errc::out_of_memory, Errc::device_lost, Errc::driver},
    same(BERTH_NAMED(CL_DEVICE_NOT_FOUND), Errc::no_device),
    same(BERTH_NAMED(CL_DEVICE_NOT_AVAILABLE), Errc::no_device),
    same(-1001, "CL_PLATFORM_NOT_FOUND_KHR", Errc::no_device),
    same(BERTH_NAMED(CL_INVALID_BUFFER_SIZE), Errc::invalid_size),
    same(BERTH_NAMED(CL_MISALIGNED_SUB_BUFFER_OFFSET), Errc::misaligned),
    same(BERTH_NAMED(CL_MEM_COPY_OVERLAP), Errc::overlap),
    same(-9999, "", Errc::device_lost),
};

constexpr struct {
  cl_int status;
  const char* name;
} of_the_driver[] = {
    {BERTH_NAMED(CL_COMPILER_NOT_AVAILABLE)},
    {BERTH_NAMED(CL_PROFILING_INFO_NOT_AVAILABLE)},
    {BERTH_NAMED(CL_IMAGE_FORMAT_MISMATCH)},
    {BERTH_NAMED(CL_IMAGE_FORMAT_NOT_SUPPORTED)},
    {BERTH_NAMED(CL_BUILD_PROGRAM_FAILURE)},
    {BERTH_NAMED(CL_MAP_FAILURE)},
    {BERTH_NAMED(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)},
    {BERTH_NAMED(CL_COMPILE_PROGRAM_FAILURE)},
    {BERTH_NAMED(CL_LINKER_NOT_AVAILABLE)},
    {BERTH_NAMED(CL_LINK_PROGRAM_FAILURE)},
    {BERTH_NAMED(CL_DEVICE_PARTITION_FAILED)},
    {BERTH_NAMED(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)},
    {BERTH_NAMED(CL_INVALID_VALUE)},
    {BERTH_NAMED(CL_INVALID_DEVICE_TYPE)},
    {BERTH_NAMED(CL_INVALID_PLATFORM)},
    {BERTH_NAMED(CL_INVALID_DEVICE)},
    {BERTH_NAMED(CL_INVALID_CONTEXT)},
    {BERTH_NAMED(CL_INVALID_QUEUE_PROPERTIES)},
    {BERTH_NAMED(CL_INVALID_COMMAND_QUEUE)},
    {BERTH_NAMED(CL_INVALID_HOST_PTR)},
    {BERTH_NAMED(CL_INVALID_MEM_OBJECT)},
    {BERTH_NAMED(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)},
    {BERTH_NAMED(CL_INVALID_IMAGE_SIZE)},
    {BERTH_NAMED(CL_INVALID_SAMPLER)},
    {BERTH_NAMED(CL_INVALID_BINARY)},
    {BERTH_NAMED(CL_INVALID_BUILD_OPTIONS)},
    {BERTH_NAMED(CL_INVALID_PROGRAM)},
    {BERTH_NAMED(CL_INVALID_PROGRAM_EXECUTABLE)},
    {BERTH_NAMED(CL_INVALID_KERNEL_NAME)},
    {BERTH_NAMED(CL_INVALID_KERNEL_DEFINITION)},
    {BERTH_NAMED(CL_INVALID_KERNEL)},
    {BERTH_NAMED(CL_INVALID_ARG_INDEX)},
    {BERTH_NAMED(CL_INVALID_ARG_VALUE)},
    {BERTH_NAMED(CL_INVALID_ARG_SIZE)},
    {BERTH_NAMED(CL_INVALID_KERNEL_ARGS)},
    {BERTH_NAMED(CL_INVALID_WORK_DIMENSION)},
    {BERTH_NAMED(CL_INVALID_WORK_GROUP_SIZE)},
    {BERTH_NAMED(CL_INVALID_WORK_ITEM_SIZE)},
    {BERTH_NAMED(CL_INVALID_GLOBAL_OFFSET)},
    {BERTH_NAMED(CL_INVALID_EVENT_WAIT_LIST)},
    {BERTH_NAMED(CL_INVALID_EVENT)},
    {BERTH_NAMED(CL_INVALID_OPERATION)},
    {BERTH_NAMED(CL_INVALID_GL_OBJECT)},
    {BERTH_NAMED(CL_INVALID_MIP_LEVEL)},
    {BERTH_NAMED(CL_INVALID_GLOBAL_WORK_SIZE)},
    {BERTH_NAMED(CL_INVALID_PROPERTY)},
    {BERTH_NAMED(CL_INVALID_IMAGE_DESCRIPTOR)},
    {BERTH_NAMED(CL_INVALID_COMPILER_OPTIONS)},
    {BERTH_NAMED(CL_INVALID_LINKER_OPTIONS)},
    {BERTH_NAMED(CL_INVALID_DEVICE_PARTITION_COUNT)},
    {BERTH_NAMED(CL_INVALID_PIPE_SIZE)},
    {BERTH_NAMED(CL_INVALID_DEVICE_QUEUE)},
    {BERTH_NAMED(CL_INVALID_SPEC_ID)},
    {BERTH_NAMED(CL_MAX_SIZE_RESTRICTION_EXCEEDED)},
};

#undef BERTH_NAMED

}  // namespace

TEST_CASE("a status means what was being done") {
  for (const Case& c : told_apart) {
    CAPTURE(c.status);
    CHECK(to_string(error(c.status, "call", Doing::allocating).code()) == to_string(c.allocating));
    CHECK(to_string(error(c.status, "call", Doing::moving).code()) == to_string(c.moving));
    CHECK(to_string(error(c.status, "call", Doing::other).code()) == to_string(c.other));
    CHECK(error(c.status, "call").code() == c.other);
    CHECK(std::string(status_name(c.status)) == c.name);
  }
}

TEST_CASE("every other status is the driver's, under its own name") {
  for (const auto& c : of_the_driver) {
    CAPTURE(c.status);
    for (const Doing doing : {Doing::allocating, Doing::moving, Doing::other}) {
      CHECK(to_string(error(c.status, "call", doing).code()) == "driver");
    }
    CHECK(std::string(status_name(c.status)) == c.name);
  }
}

TEST_CASE("a status without a name") {
  for (const cl_int status : {-20, -29, -73, -1000, -1002, 1, 0})
    CHECK(std::string(status_name(status)).empty());
  CHECK(error(-12345, "clCall").message() == "clCall: driver error (status -12345)");
}

TEST_CASE("the call's name and its status travel in the error") {
  const Error e =
      error(CL_MEM_OBJECT_ALLOCATION_FAILURE, "clCreateBuffer", Doing::allocating).asking(1048576);
  CHECK(e.backend() == "opencl");
  CHECK(e.call() == "clCreateBuffer");
  CHECK(e.status() == -4);
  CHECK(e.status_name() == "CL_MEM_OBJECT_ALLOCATION_FAILURE");
  CHECK(e.message() == "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4), asked 1048576 bytes");
}

TEST_CASE("check") {
  CHECK(check(CL_SUCCESS, "clFinish", Doing::moving).has_value());
  CHECK(outcome(check(CL_OUT_OF_RESOURCES, "clFinish", Doing::moving)) == "device_lost");
  CHECK(outcome(check(CL_OUT_OF_RESOURCES, "clCreateBuffer", Doing::allocating)) == "out_of_memory");
  CHECK(outcome(check(CL_INVALID_VALUE, "clFinish")) == "driver");
}
