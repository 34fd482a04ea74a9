// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>
#include <berth/device/registry.hpp>
#include <berth/opencl/framework.hpp>
#include <berth/opencl/queue.hpp>

#include "support/opencl_fixture.hpp"

using namespace berth;

TEST_CASE("the OpenCL framework is the same object every time") {
  const auto framework = opencl::framework();
  REQUIRE(framework != nullptr);
  CHECK(framework->name() == "OpenCL");
  CHECK(opencl::framework() == framework);
}

TEST_CASE("its devices are opened once, in the loader's order") {
  const auto devices = opencl::framework()->devices();
  REQUIRE(message(devices) == "ok");
  const auto again = opencl::framework()->devices();
  REQUIRE(message(again) == "ok");
  CHECK(*again == *devices);

  const auto found = opencl::platforms();
  REQUIRE(message(found) == "ok");
  std::size_t index = 0;
  for (const auto& platform : *found) {
    for (const auto& described : platform.devices) {
      if (!described.available) continue;
      REQUIRE(index < devices->size());
      const device::Device& device = (*devices)[index];
      CHECK(device.framework() == "OpenCL");
      CHECK(device.index() == index);
      CHECK(device.name() == described.name);
      auto* const typed = device.allocator().unpack<opencl::Allocator>();
      REQUIRE(typed != nullptr);
      CHECK(typed->device() == described.id);
      CHECK(device.allocator().info().max_bytes == described.max_alloc_bytes);
      CHECK(device.allocator().info().total_bytes == described.global_bytes);
      CHECK(device.allocator().info().alignment == described.base_alignment);
      ++index;
    }
  }
  CHECK(index == devices->size());
}

TEST_CASE("its devices allocate, and stay usable when the framework is taken out") {
  REQUIRE(message(device::register_framework(opencl::framework())) == "ok");
  const auto framework = device::find_framework("OpenCL");
  REQUIRE(framework == opencl::framework());
  const auto devices = framework->devices();
  REQUIRE(message(devices) == "ok");
  REQUIRE(device::unregister_framework("OpenCL"));

  const auto bytes = native::pattern(1001);
  for (const device::Device& device : *devices) {
    auto buffer = Buffer::create(device.allocator(), bytes.size());
    REQUIRE(message(buffer) == "ok");
    REQUIRE(message(buffer->copyin(bytes)) == "ok");
    std::vector<std::byte> back(bytes.size());
    REQUIRE(message(buffer->copyout(back)) == "ok");
    CHECK(back == bytes);
  }
}

TEST_CASE("a user's queue is registered with a device, retained, once") {
  const auto devices = opencl::framework()->devices();
  REQUIRE(message(devices) == "ok");
  device::Device device("OpenCL", 0, "a device of the test", devices->front().allocator());
  const auto* const typed = device.allocator().unpack<opencl::Allocator>();
  const auto queue = native::make_queue(typed->context(), typed->device());
  const cl_uint before = native::references(queue.get());

  REQUIRE(message(device.register_queue(opencl::borrow_queue(queue))) == "ok");
  CHECK(native::references(queue.get()) == before + 1);
  REQUIRE(message(device.register_queue(opencl::borrow_queue(queue))) == "ok");
  CHECK(native::references(queue.get()) == before + 1);
  REQUIRE(device.queues().size() == 1);
  CHECK(opencl::native_queue(device.queues().front()) == queue.get());
}
