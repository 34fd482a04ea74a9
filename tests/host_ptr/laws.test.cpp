// SPDX-License-Identifier: MIT
// The laws of host_ptr on an OpenCL driver, and those that only such a driver knows.
#include <berth/host/allocator.hpp>
#include <berth/host/framework.hpp>
#include <berth/testing/scratch_file.hpp>

#include <numeric>

#include "support/host_ptr_opencl_fixture.hpp"

#include "host_ptr/laws.hpp"

TEST_CASE("what a stack of adaptors cannot say is refused, and a tail is linked to the byte", "[kind]") {
  Rig rig;
  const StatisticsAllocator statistics(pack(rig.allocator()));
  const Device stacked("OpenCL", 7, "stacked", pack(statistics));
  const Array block = Rig::zeros(2048);
  Words constant = Words::over(Array::read_only(block.elements()));
  CHECK(cause(attach(constant, stacked)) == "read_only");
  CHECK(constant.location() == Location{});
  CHECK(message(attach(constant, stacked, {.policy = host_ptr::Policy::copy})) == "ok");

  Words misaligned = Words::over(Array::over(block.writable_elements().subspan(1, 1000)));
  const auto answer = attach(misaligned, stacked, {.lenient = true});
  REQUIRE(cause(answer) == "alignment");
  CHECK(std::get<host_ptr::Refused>(answer.error()).reason.limit == 64);
  CHECK_FALSE(claimed(block));

  // As the driver treats memory that ends there.
  const Array odd = Rig::zeros(1000);
  Words vector = Words::over(odd);
  REQUIRE(message(attach(vector, stacked)) == "ok");
  CHECK(native::property<std::size_t>(Rig::mem(vector, stacked), CL_MEM_SIZE) == odd.nbytes());
  const auto kind = host_link(vector, stacked)->kind;
  REQUIRE(message(detach(vector, stacked)) == "ok");
  Words exact = Words::over(Array::over(odd.writable_elements()));
  REQUIRE(message(attach(exact, rig.device)) == "ok");
  CHECK(host_link(exact, rig.device)->kind == kind);
}

TEST_CASE("a device whose memory is not its framework's links nothing", "[kind]") {
  const Rig rig;
  REQUIRE(message(device::register_framework(host::framework())) == "ok");
  auto memory = host::Allocator::open();
  REQUIRE(message(memory) == "ok");
  Words vector = Words::over(Rig::zeros());
  for (const Device& device : {Device("OpenCL", 8, "not OpenCL's", pack(*memory)),
                               Device("Native", 8, "not the host's", rig.device.allocator())}) {
    CHECK(cause(attach(vector, device)) == "backend");
    CHECK(cause(attach(vector, device, {.require_shared = true})) == "backend");
    CHECK(vector.buffer(device) == nullptr);
  }
  device::unregister_framework("Native");
}

TEST_CASE("an acquire covers an out-of-order queue", "[acquire][queues][copies]") {
  Rig rig;
  if (!rig.stream.description.out_of_order) return left_out("the device has no out-of-order queues");
  check_acquire_covers(rig, native::make_queue(rig.stream.context, rig.stream.description.id,
                                               CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE));
}

TEST_CASE("publish and detach wait for an out-of-order queue", "[publish][queues][lifetime][copies]") {
  Rig rig;
  if (!rig.stream.description.out_of_order) return left_out("the device has no out-of-order queues");
  const auto second = native::make_queue(rig.stream.context, rig.stream.description.id,
                                         CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  rig.register_queue(second);
  const bool detaches = GENERATE(false, true);
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  Rig::Gate gate(rig);
  gate.close(second);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 6, second);
  launch->done();
  std::atomic<bool> returned{false};
  std::string answer;
  std::jthread calling([&] {
    answer = message(detaches ? detach(vector, rig.device) : publish_host_writes(vector, rig.device));
    returned = true;
  });
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(returned);
  gate.open();
  calling.join();
  CHECK(answer == "ok");
  if (detaches) {
    CHECK(host_sees(array) == all(6));
  } else if (rig.kind() != LinkKind::shared) {
    CHECK(rig.kernel_sees(vector) == all(0));
  }
}

TEST_CASE("without its event, work on a queue that nobody registered is missed", "[acquire][queues]") {
  Rig rig;
  const auto second = rig.stream.another_queue();
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  native::Gate gate(rig.stream.context);
  gate.close(second);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 6, second);
  launch->done();
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(0));
  gate.open();
}

TEST_CASE("a failed kernel whose event was given is an error, once", "[failed][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  write(array, 1);
  Words vector = rig.attached(array);
  cl_int status = CL_SUCCESS;
  const native::Owned<cl_event> before(clCreateUserEvent(rig.stream.context, &status));
  REQUIRE(status == CL_SUCCESS);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  const cl_mem mem = rig.mem(vector);
  const cl_uint value = 5;
  const std::size_t items = length;
  REQUIRE(clSetKernelArg(rig.put, 0, sizeof mem, &mem) == CL_SUCCESS);
  REQUIRE(clSetKernelArg(rig.put, 1, sizeof value, &value) == CL_SUCCESS);
  const cl_event waits = before.get();
  cl_event raw = nullptr;
  REQUIRE(clEnqueueNDRangeKernel(rig.stream.queue, rig.put, 1, nullptr, &items, nullptr, 1, &waits, &raw) ==
          CL_SUCCESS);
  const native::Owned<cl_event> done(raw);
  launch->done(opencl::borrow_event(done));
  REQUIRE(clSetUserEventStatus(before, -5) == CL_SUCCESS);

  const auto acquired = acquire_device_writes(vector, rig.device);
  REQUIRE_FALSE(acquired);
  CHECK(std::get<Error>(acquired.error()).status().value_or(0) < 0);
  CHECK(vector.location().state == Location::State::stale_cpu);
  CHECK(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(1));
}

namespace {

/// Announced and done with its event, and failed.
void fail_launch(const Rig& rig, std::vector<LaunchArgument> arguments) {
  cl_int status = CL_SUCCESS;
  const native::Owned<cl_event> end(clCreateUserEvent(rig.stream.context, &status));
  REQUIRE(status == CL_SUCCESS);
  auto launch = Launch::announce(rig.device, std::move(arguments));
  REQUIRE(message(launch) == "ok");
  launch->done(opencl::borrow_event(end));
  REQUIRE(clSetUserEventStatus(end, -5) == CL_SUCCESS);
}

}  // namespace

TEST_CASE("a failed launch that wrote fails a detach once, and the link stays until the next",
          "[failed][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  const bool frees = GENERATE(false, true);
  fail_launch(rig, {inout(vector)});
  if (frees) {
    CHECK(outcome(vector.free_buffer(rig.device)) != "ok");
  } else {
    CHECK_FALSE(detach(vector, rig.device));
  }
  CHECK(vector.location() == Location{Location::State::stale_cpu, rig.device});
  CHECK(vector.buffer(rig.device) != nullptr);
  CHECK(claimed(array) == linked(rig, vector));
  CHECK(message(detach(vector, rig.device)) == "ok");
  CHECK_FALSE(claimed(array));
  CHECK(host_sees(array) == all(0));
}

TEST_CASE("of a failed launch its inputs tell the sink alone", "[failed][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words x = rig.attached(array);
  Words y = rig.attached(Rig::zeros());
  Reports reports;
  fail_launch(rig, {in(x), out(y)});
  CHECK(message(x.to_host(true)) == "ok");
  CHECK(reports.take().size() == 1);
  CHECK(message(detach(x, rig.device)) == "ok");
  CHECK(reports.take().empty());
  CHECK_FALSE(y.read());
  CHECK(y.read());
  CHECK(reports.take().empty());
}

TEST_CASE("a failed launch whose results are replaced tells the sink, a part of them is not enough",
          "[failed][range]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  Reports reports;
  const auto replaced = [&](const auto& result) {
    CHECK(message(result) == "ok");
    CHECK(reports.take().size() == 1);
    CHECK(message(vector.to_host(true)) == "ok");
  };
  fail_launch(rig, {inout(vector)});
  replaced(vector.fill(3));
  REQUIRE(message(vector.to_device(rig.device)) == "ok");
  fail_launch(rig, {inout(vector)});
  replaced(publish_host_writes(vector, rig.device));
  fail_launch(rig, {inout(vector)});
  {
    auto access = HostAccess<std::int32_t>::open(vector, Access::overwrite);
    if (access) std::ranges::fill(access->writable_elements(), 3);
    replaced(access ? access->close() : fail(access.error()));
  }

  const auto told = [&](const auto& again) {
    fail_launch(rig, {inout(vector)});
    CHECK_FALSE(again());
    CHECK(message(again()) == "ok");
    CHECK(message(vector.to_host()) == "ok");
    CHECK(reports.take().empty());
  };
  told([&] { return publish_host_writes(vector, rig.device, 64, 128); });
  told([&] { return acquire_device_writes(vector, rig.device, 64, 128); });
  told([&] { return HostAccess<std::int32_t>::open(vector, Access::write, 64, 128); });
  told([&] { return vector.set(0, 3); });
  CHECK(host_sees(array) == all(3));
}

TEST_CASE("a long range is published beside one that the host has mapped", "[publish][range]") {
  Rig rig;
  constexpr std::size_t elements = (std::size_t{5} << 18U) + 3;  // 5 MiB and some: several pieces
  const Array array = Rig::zeros(elements);
  Words vector = rig.attached(array);
  REQUIRE(rig.kernel_sees(vector) == std::vector<std::int32_t>(elements, 0));
  std::vector<std::int32_t> expected(elements);
  std::iota(expected.begin(), expected.end(), 1);
  {
    auto access = HostAccess<std::int32_t>::open(vector, Access::write, 4096, 0);
    REQUIRE(message(access) == "ok");
    std::ranges::copy(expected, array.writable_elements().begin());
    REQUIRE(message(publish_host_writes(vector, rig.device, vector.nbytes() - 4096, 4096)) == "ok");
  }
  CHECK((rig.kernel_sees(vector) == expected));
}

TEST_CASE("readers of one range share a map, which ends with the last", "[access]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  auto first = HostAccess<std::int32_t>::open(vector, Access::read);
  auto second = HostAccess<std::int32_t>::open(vector, Access::read);
  REQUIRE(message(first) == "ok");
  REQUIRE(message(second) == "ok");
  CHECK(native::settled_maps(rig.mem(vector), 1) == 1);
  HostAccess<std::int32_t> moved = std::move(*first);
  REQUIRE(message(moved.close()) == "ok");
  CHECK(outcome(launching(rig.device, in(vector))) == "mapped");
  REQUIRE(message(second->close()) == "ok");
  CHECK(outcome(launching(rig.device, in(vector))) == "ok");
  CHECK(native::settled_maps(rig.mem(vector), 0) == 0);
}

TEST_CASE("an array that owns its padding is linked with it, any other to the byte", "[alignment]") {
  Rig rig;
  const Array block = Rig::zeros(15);
  const auto size = [&](const Words& vector) {
    return native::property<std::size_t>(rig.mem(vector), CL_MEM_SIZE);
  };
  {
    Words vector = rig.attached(block);
    CHECK(size(vector) == 64);
    CHECK(vector.buffer(rig.device)->nbytes() == 60);
    rig.run(rig.add, vector, 1);
    REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
    CHECK(host_sees(block) == all(1, 15));
    auto part = vector.sub_vector(3, 0);
    REQUIRE(message(part) == "ok");
    CHECK(cause(attach(*part, rig.device)) == "overlap");
    REQUIRE(message(detach(vector, rig.device)) == "ok");
    REQUIRE(message(attach(*part, rig.device)) == "ok");
    CHECK(size(*part) == 12);
  }
  CHECK_FALSE(claimed(block));
  const Words vector = rig.attached(Array::over(block.writable_elements()));
  CHECK(size(vector) == 60);
}

TEST_CASE("each class of address and size has the kind that the driver gives it", "[kind][alignment]") {
  const Rig rig;
  const auto* const layer = layers::shadow_layer();
  const bool in_lines = layer != nullptr && layer->mode() == layers::ShadowMode::lines;
  const Array block = Rig::zeros();
  for (int again = 0; again < 2; ++again) {  // tried, then known
    for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 1024},
                                       {16, 1024},
                                       {0, 1000},
                                       {1, 1024},
                                       {1, 1023},
                                       {8, 1000},
                                       {16, 64},
                                       {17, 1}}) {
      CAPTURE(again, first, count);
      const Array array = Array::over(block.writable_elements().subspan(first, count));
      write(array, 1);
      Words vector = rig.attached(array, {.lenient = true});
      const LinkKind kind = host_link(vector, rig.device)->kind;
      if (in_lines) CHECK((kind == LinkKind::shared) == (first % 16 == 0 && count % 16 == 0));
      CHECK(rig.kernel_sees(vector) == all(1, count));
      rig.run(rig.put, vector, 2);
      rig.finish();
      CHECK((array.elements().back() == 2) == (kind == LinkKind::shared));
      REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
      CHECK(host_sees(array) == all(2, count));
      Words required = Words::over(array);
      REQUIRE(message(detach(vector, rig.device)) == "ok");
      CHECK(cause(attach(required, rig.device, {.require_shared = true, .lenient = true})) ==
            (kind == LinkKind::shadow ? "device_type" : "ok"));
    }
  }
  // What an array owns behind its end is linked with it.
  const Array padded = Rig::zeros(1000);
  const Words vector = rig.attached(padded);
  if (in_lines) CHECK(host_link(vector, rig.device)->kind == LinkKind::shared);
}

TEST_CASE("where a driver writes past an end, memory that owns nothing behind it is refused", "[alignment]") {
  Rig rig;
  auto allocator = opencl::Allocator::borrow(rig.stream.context, rig.stream.queue,
                                             {.quirks = opencl::Quirks{opencl::Quirk::writes_past_tail}});
  REQUIRE(message(allocator) == "ok");
  const Device device("OpenCL", 6, "writes past the tail", pack(*allocator));
  const Array block = Rig::zeros(1000);
  Words vector = Words::over(Array::over(block.writable_elements()));
  for (const bool lenient : {false, true}) {
    const auto answer = attach(vector, device, {.lenient = lenient});
    REQUIRE(cause(answer) == "padding");
    const auto& reason = std::get<host_ptr::Refused>(answer.error()).reason;
    CHECK(reason.nbytes == 4000);
    CHECK(reason.limit == 64);
  }
  REQUIRE(message(attach(vector, device, {.policy = host_ptr::Policy::copy})) == "ok");
  CHECK(host_link(vector, device)->kind == LinkKind::separate);
  Words padded = Words::over(block);
  CHECK(message(attach(padded, device)) == "ok");
}

TEST_CASE("a file that is mapped for reading is attached in place", "[read_only]") {
  Rig rig;
  const auto content = all(11);
  const auto file = testing::ScratchFile::holding(std::as_bytes(std::span(content)));
  REQUIRE(message(file) == "ok");
  void* const mapped =
      ::mmap(nullptr, length * sizeof(std::int32_t), PROT_READ, MAP_SHARED, file->extent().fd, 0);
  REQUIRE(mapped != MAP_FAILED);
  const std::shared_ptr<const void> owner(
      mapped, [](void* pages) { ::munmap(pages, length * sizeof(std::int32_t)); });
  const std::span elements(static_cast<const std::int32_t*>(mapped), length);
  const Words vector = rig.attached(Array::read_only(elements, owner));
  CHECK(rig.kernel_sees(vector) == all(11));
}
