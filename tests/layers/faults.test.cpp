// SPDX-License-Identifier: MIT
// The faults layer by plain OpenCL calls.
#include <array>
#include <thread>

#include "layers/control.hpp"
#include "layers/faults_helpers.hpp"
#include "support/opencl_fixture.hpp"

using layers::Balance;

namespace {

constexpr std::size_t size = 4096;

struct Fixture {
  layers::Faults faults;
  cl_device_id device = native::device().id;
  native::Owned<cl_context> context = native::make_context(device);
  native::Owned<cl_command_queue> queue = native::make_queue(context, device);
  native::Owned<cl_mem> buffer = native::make_buffer(context, size);

  cl_int read(std::size_t offset, std::size_t nbytes) const {
    std::array<std::byte, 2 * size> bytes{};
    return clEnqueueReadBuffer(queue, buffer, CL_TRUE, offset, nbytes, bytes.data(), 0, nullptr, nullptr);
  }
};

}  // namespace

TEST_CASE("calls are counted by name") {
  const Fixture fixture;
  fixture.faults.reset();
  CHECK(fixture.read(0, 1) == CL_SUCCESS);
  CHECK(fixture.read(1, 1) == CL_SUCCESS);
  CHECK(clFlush(fixture.queue) == CL_SUCCESS);
  CHECK(fixture.faults.calls("clEnqueueReadBuffer") == 2);
  CHECK(fixture.faults.calls("clFlush") == 1);
  CHECK(fixture.faults.calls("clFinish") == 0);
  CHECK(fixture.faults.calls() == 3);
}

TEST_CASE("the nth call of an entry point fails, and does not reach the driver") {
  const Fixture fixture;
  fixture.faults.reset();
  fixture.faults.fail("clEnqueueWriteBuffer", 2, 1, CL_OUT_OF_RESOURCES);
  const auto write = [&](unsigned value) {
    const auto byte = static_cast<cl_uchar>(value);
    return clEnqueueWriteBuffer(fixture.queue, fixture.buffer, CL_TRUE, 0, 1, &byte, 0, nullptr, nullptr);
  };
  CHECK(write(1) == CL_SUCCESS);
  CHECK(fixture.read(0, 1) == CL_SUCCESS);
  CHECK(write(2) == CL_OUT_OF_RESOURCES);
  CHECK(native::content(fixture.buffer, 1) == std::vector{std::byte{1}});
  CHECK(write(3) == CL_SUCCESS);
  CHECK(fixture.faults.failed() == 1);
  CHECK(fixture.faults.last_failed() == "clEnqueueWriteBuffer");
}

TEST_CASE("the nth call of any entry point fails, and those after it on demand") {
  const Fixture fixture;
  fixture.faults.fail(nullptr, 2, 2, CL_OUT_OF_HOST_MEMORY);
  cl_int status = CL_SUCCESS;
  CHECK(clFlush(fixture.queue) == CL_SUCCESS);
  CHECK(clCreateBuffer(fixture.context, CL_MEM_READ_WRITE, size, nullptr, &status) == nullptr);
  CHECK(status == CL_OUT_OF_HOST_MEMORY);
  CHECK(clEnqueueMapBuffer(fixture.queue, fixture.buffer, CL_TRUE, CL_MAP_READ, 0, size, 0, nullptr, nullptr,
                           nullptr) == nullptr);
  CHECK(clFlush(fixture.queue) == CL_SUCCESS);
  CHECK(fixture.faults.failed() == 2);
  fixture.faults.fail(nullptr, 1, 1, CL_OUT_OF_HOST_MEMORY);
  fixture.faults.disarm();
  CHECK(clFlush(fixture.queue) == CL_SUCCESS);
}

TEST_CASE("handles, references and maps balance") {
  const layers::Faults faults;
  static_cast<void>(native::device());
  const Balance before = faults.balance();
  {
    const Fixture fixture;
    const native::Program program(fixture.context, fixture.device,
                                  "kernel void nothing(global uchar* bytes) {}");
    const auto kernel = program.kernel("nothing");
    const auto sub = native::make_sub_buffer(fixture.buffer, 0, 128);
    const auto more = native::retained(fixture.queue.get());
    const auto event = native::launch(fixture.queue, kernel, 1, sub.get());
    cl_int status = CL_SUCCESS;
    const native::Owned<cl_event> user(clCreateUserEvent(fixture.context, &status));
    REQUIRE(status == CL_SUCCESS);
    REQUIRE(clSetUserEventStatus(user, CL_COMPLETE) == CL_SUCCESS);
    void* const map = clEnqueueMapBuffer(fixture.queue, fixture.buffer, CL_TRUE, CL_MAP_READ, 0, size, 0,
                                         nullptr, nullptr, &status);
    const Balance during = faults.balance();
    CHECK(during.contexts.handles - before.contexts.handles == 1);
    CHECK(during.queues.handles - before.queues.handles == 1);
    CHECK(during.queues.references - before.queues.references == 2);
    CHECK(during.buffers.handles - before.buffers.handles == 2);
    CHECK(during.events.handles - before.events.handles == 2);
    CHECK(during.programs.handles - before.programs.handles == 1);
    CHECK(during.kernels.handles - before.kernels.handles == 1);
    CHECK(during.maps - before.maps == 1);
    REQUIRE(clEnqueueUnmapMemObject(fixture.queue, fixture.buffer, map, 0, nullptr, nullptr) == CL_SUCCESS);
    REQUIRE(clFinish(fixture.queue) == CL_SUCCESS);
  }
  CHECK(faults.balance() == before);
}

TEST_CASE("a release or an unmap that was failed can be settled") {
  const layers::Faults faults;
  static_cast<void>(native::device());
  const Balance before = faults.balance();
  {
    Fixture fixture;
    cl_int status = CL_SUCCESS;
    void* const map = clEnqueueMapBuffer(fixture.queue, fixture.buffer, CL_TRUE, CL_MAP_READ, 0, size, 0,
                                         nullptr, nullptr, &status);
    REQUIRE(status == CL_SUCCESS);
    faults.fail("clEnqueueUnmapMemObject", 1, 1, CL_OUT_OF_RESOURCES);
    CHECK(clEnqueueUnmapMemObject(fixture.queue, fixture.buffer, map, 0, nullptr, nullptr) ==
          CL_OUT_OF_RESOURCES);
    faults.fail("clReleaseMemObject", 1, 1, CL_OUT_OF_RESOURCES);
    CHECK(clReleaseMemObject(fixture.buffer.give()) == CL_OUT_OF_RESOURCES);
  }
  CHECK(faults.balance().buffers.handles - before.buffers.handles == 1);
  CHECK(faults.balance().maps - before.maps == 1);
  CHECK(faults.settle() == 2);
  CHECK(faults.balance() == before);
  CHECK(faults.settle() == 0);
}

TEST_CASE("handles that are no more are kept from the driver") {
  Fixture fixture;
  fixture.faults.reset();
  const auto violations = [&] { return fixture.faults.violations(); };
  const auto told = [&](std::string_view what) {
    const std::string text = violations();
    fixture.faults.reset();
    return text.find(what) != std::string::npos;
  };

  const auto marker = native::marker(fixture.queue);
  const cl_event event = native::retained(marker.get()).get();
  REQUIRE(clFinish(fixture.queue) == CL_SUCCESS);
  CHECK(violations().empty());
  native::Owned<cl_event> gone = native::marker(fixture.queue);
  const cl_event dead = gone.get();
  REQUIRE(clReleaseEvent(gone.give()) == CL_SUCCESS);
  CHECK(clReleaseEvent(dead) == CL_INVALID_EVENT);
  CHECK(told("clReleaseEvent: more releases than references of a event"));
  CHECK(clWaitForEvents(1, &dead) == CL_INVALID_EVENT);
  CHECK(told("clWaitForEvents: use of a released event"));
  const std::array list{event, dead};
  CHECK(clEnqueueBarrierWithWaitList(fixture.queue, 2, list.data(), nullptr) == CL_INVALID_EVENT);
  CHECK(told("clEnqueueBarrierWithWaitList: use of a released event"));

  const native::Program program(fixture.context, fixture.device,
                                "kernel void nothing(global uchar* bytes) {}");
  const auto kernel = program.kernel("nothing");
  const cl_mem buffer = fixture.buffer.give();
  REQUIRE(clReleaseMemObject(buffer) == CL_SUCCESS);
  CHECK(clRetainMemObject(buffer) == CL_INVALID_MEM_OBJECT);
  CHECK(told("clRetainMemObject: use of a released buffer"));
  CHECK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer) != CL_SUCCESS);
  CHECK(told("clSetKernelArg: use of a released buffer"));
}

TEST_CASE("misuse is recorded") {
  const Fixture fixture;
  fixture.faults.reset();
  cl_int status = CL_SUCCESS;
  const auto told = [&](std::string_view what) {
    const std::string text = fixture.faults.violations();
    fixture.faults.reset();
    INFO(text);
    CHECK(text.find(what) != std::string::npos);
  };
  const auto map = [&](cl_map_flags flags, std::size_t offset, std::size_t nbytes) {
    return clEnqueueMapBuffer(fixture.queue, fixture.buffer, CL_TRUE, flags, offset, nbytes, 0, nullptr,
                              nullptr, &status);
  };
  const auto unmap = [&](void* pointer) {
    return clEnqueueUnmapMemObject(fixture.queue, fixture.buffer, pointer, 0, nullptr, nullptr);
  };

  SECTION("nothing wrong") {
    void* const first = map(CL_MAP_READ, 0, 100);
    void* const second = map(CL_MAP_READ, 50, 100);
    void* const third = map(CL_MAP_WRITE, 150, 100);
    CHECK(unmap(second) == CL_SUCCESS);
    CHECK(unmap(first) == CL_SUCCESS);
    CHECK(unmap(third) == CL_SUCCESS);
    CHECK(fixture.faults.violations().empty());
  }
  SECTION("maps that overlap") {
    void* const first = map(CL_MAP_READ, 0, 100);
    void* const second = map(CL_MAP_WRITE, 99, 100);
    told("clEnqueueMapBuffer: overlaps a live map, and one of them writes");
    const auto sub = native::make_sub_buffer(fixture.buffer, 128, 128);
    void* const third =
        clEnqueueMapBuffer(fixture.queue, sub, CL_TRUE, CL_MAP_READ, 0, 128, 0, nullptr, nullptr, &status);
    told("clEnqueueMapBuffer: overlaps a live map, and one of them writes");
    void* const fourth = map(CL_MAP_READ, 0, 10);
    told("clEnqueueMapBuffer: two live maps at one address");
    CHECK(clEnqueueUnmapMemObject(fixture.queue, sub, third, 0, nullptr, nullptr) == CL_SUCCESS);
    CHECK(unmap(second) == CL_SUCCESS);
    CHECK(unmap(fourth) == CL_SUCCESS);
    CHECK(unmap(first) == CL_SUCCESS);
  }
  SECTION("an unmap of what is not mapped") {
    std::byte byte{};
    CHECK(unmap(&byte) == CL_INVALID_VALUE);
    told("clEnqueueUnmapMemObject: no live map at that address");
  }
  SECTION("ranges") {
    CHECK(fixture.read(1, size) != CL_SUCCESS);
    told("clEnqueueReadBuffer: bytes 1 + 4096 of a buffer of 4096");
    static_cast<void>(fixture.read(0, 0));
    told("clEnqueueReadBuffer: a range of no bytes");
    CHECK(map(CL_MAP_READ, size, 1) == nullptr);
    told("clEnqueueMapBuffer: bytes 4096 + 1 of a buffer of 4096");
    const auto copy = [&](std::size_t from, std::size_t to, std::size_t nbytes) {
      return clEnqueueCopyBuffer(fixture.queue, fixture.buffer, fixture.buffer, from, to, nbytes, 0, nullptr,
                                 nullptr);
    };
    CHECK(copy(0, size - 1, 2) != CL_SUCCESS);
    told("clEnqueueCopyBuffer: bytes 4095 + 2 of a buffer of 4096");
    CHECK(copy(0, 9, 10) == CL_MEM_COPY_OVERLAP);
    told("clEnqueueCopyBuffer: source and destination overlap");
    CHECK(clCreateBuffer(fixture.context, CL_MEM_READ_WRITE, 0, nullptr, &status) == nullptr);
    told("clCreateBuffer: a buffer of no bytes");
  }
  SECTION("the buffer's own memory") {
    std::vector<std::byte> memory(size);
    const native::Owned<cl_mem> own(
        clCreateBuffer(fixture.context, CL_MEM_USE_HOST_PTR, size, memory.data(), &status));
    const auto write = [&](std::size_t from) {
      return clEnqueueWriteBuffer(fixture.queue, own, CL_TRUE, 0, 100, memory.data() + from, 0, nullptr,
                                  nullptr);
    };
    CHECK(write(0) == CL_SUCCESS);
    CHECK(fixture.faults.violations().empty());
    void* const pointer =
        clEnqueueMapBuffer(fixture.queue, own, CL_TRUE, CL_MAP_READ, 200, 100, 0, nullptr, nullptr, &status);
    CHECK(write(500) == CL_SUCCESS);
    CHECK(fixture.faults.violations().empty());
    CHECK(write(0) == CL_SUCCESS);
    told("clEnqueueWriteBuffer: the buffer's own memory while some of it is mapped");
    CHECK(clEnqueueUnmapMemObject(fixture.queue, own, pointer, 0, nullptr, nullptr) == CL_SUCCESS);
    REQUIRE(clFinish(fixture.queue) == CL_SUCCESS);
  }
  SECTION("the origin of a sub-buffer") {
    const cl_buffer_region region{1, 10};
    CHECK(clCreateSubBuffer(fixture.buffer, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status) == nullptr);
    CHECK(status == CL_MISALIGNED_SUB_BUFFER_OFFSET);
    told("clCreateSubBuffer: a misaligned origin");
  }
}

TEST_CASE("threads share the ledger") {
  const Fixture fixture;
  const Balance before = fixture.faults.balance();
  fixture.faults.reset();
  constexpr std::uint64_t each = 200;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t round = 0; round < each; ++round) {
        cl_int status = CL_SUCCESS;
        const cl_mem made = clCreateBuffer(fixture.context, CL_MEM_READ_WRITE, 64, nullptr, &status);
        clRetainMemObject(made);
        clReleaseMemObject(made);
        clReleaseMemObject(made);
      }
    });
  }
  threads.clear();
  CHECK(fixture.faults.calls("clCreateBuffer") == 4 * each);
  CHECK(fixture.faults.calls("clReleaseMemObject") == 8 * each);
  CHECK(fixture.faults.balance() == before);
  CHECK(fixture.faults.violations().empty());
}

TEST_CASE("leaves a buffer and makes a mistake", "[.]") {
  Fixture fixture;
  fixture.buffer.give();
  static_cast<void>(clEnqueueUnmapMemObject(fixture.queue, native::make_buffer(fixture.context, size),
                                            &fixture, 0, nullptr, nullptr));
}

TEST_CASE("leaves nothing", "[.]") { const Fixture fixture; }

TEST_CASE("what is left or was wrong at exit is told, and fails the program") {
  const auto left = native::run_child("leaves a buffer and makes a mistake", {"BERTH_FAULTS_AT_EXIT=1"});
  CHECK(left.status != 0);
  CHECK(left.output.find("0 queues, 1 buffers") != std::string::npos);
  CHECK(left.output.find("clEnqueueUnmapMemObject: no live map at that address") != std::string::npos);
  CHECK(native::run_child("leaves nothing", {"BERTH_FAULTS_AT_EXIT=1"}).status == 0);
  CHECK(native::run_child("leaves a buffer and makes a mistake").status == 0);
}
