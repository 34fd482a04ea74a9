// SPDX-License-Identifier: MIT
// The laws of host_ptr on CUDA, and those that only CUDA knows.
#include "support/host_ptr_cuda_fixture.hpp"

#include "host_ptr/laws.hpp"

namespace {

bool pageable(const Rig& rig) { return rig.kind() == LinkKind::pageable; }

}  // namespace

TEST_CASE("an acquire covers every stream of the context, registered or not", "[acquire][queues]") {
  Rig rig;
  const auto second = rig.another_queue();
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  Rig::Gate gate(rig);
  gate.close(second);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 6, second);
  launch->done();
  std::jthread opening([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(6));
}

TEST_CASE("the end of a link waits for every stream of the context", "[lifetime]") {
  Rig rig;
  const auto second = rig.another_queue();
  native::Pages pages(length * sizeof(std::int32_t));
  const std::span elements(reinterpret_cast<std::int32_t*>(pages.data()), length);
  Words vector = rig.attached(Array::over(elements));
  Rig::Gate gate(rig);
  gate.close(second);
  rig.run(rig.put, vector, 7, second);
  std::jthread opening([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  REQUIRE(message(detach(vector, rig.device)) == "ok");
  CHECK(std::ranges::count(elements, 7) == static_cast<std::ptrdiff_t>(length));
  pages.unmap();
}

TEST_CASE("a link is what the device reaches, and is registered for what it does", "[kind]") {
  Rig rig;
  if (!rig.machine.fake()) return left_out("only the fake driver tells how memory is registered");
  const Array array = Rig::zeros();
  const bool registers = !pageable(rig);
  const auto before = rig.machine->balance().registered;
  {
    const Words vector = rig.attached(array);
    CHECK(host_link(vector, rig.device)->kind == (registers ? LinkKind::registered : LinkKind::pageable));
    CHECK((rig.machine->balance().registered > before) == registers);
    if (registers) {
      CHECK(rig.machine->host_flags(array.data()) ==
            (native::abi::memhostregister_portable | native::abi::memhostregister_devicemap));
    }
  }
  CHECK(rig.machine->balance().registered == before);
  const Words vector = rig.attached(Array::read_only(array.elements()));
  if (registers) {
    CHECK((rig.machine->host_flags(array.data()) & native::abi::memhostregister_read_only) != 0);
  }
}

TEST_CASE("a device that is said to reach any page, and does not, gets it registered", "[kind]") {
  if (native::real()) return left_out("no real driver does so at will");
  Rig rig({.pageable_memory_access = true, .pageable_copies = false});
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  CHECK(host_link(vector, rig.device)->kind == LinkKind::registered);
  rig.run(rig.put, vector, 3);
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(3));
}

TEST_CASE("a device that reaches no memory of the host's refuses, or copies", "[policy]") {
  if (native::real()) return left_out("the device reaches the host's memory");
  Rig rig({.host_register = false});
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  CHECK(cause(attach(vector, rig.device)) == "backend");
  CHECK_FALSE(claimed(array));
  REQUIRE(message(attach(vector, rig.device, {.policy = host_ptr::Policy::copy})) == "ok");
  CHECK(host_link(vector, rig.device)->kind == LinkKind::separate);
}

TEST_CASE("a read-only array is refused as any by a device that registers nothing", "[read_only]") {
  if (native::real()) return left_out("the device registers memory");
  Rig rig({.host_register = false});
  Words constant = Words::over(Array::read_only(Rig::zeros().elements()));
  CHECK(cause(attach(constant, rig.device)) == "backend");
}

TEST_CASE("a device that registers nothing for reading only refuses that alone", "[read_only]") {
  if (native::real()) return left_out("the device registers memory for reading only");
  Rig rig({.read_only_host_register = false});
  const Array array = Rig::zeros();
  Words constant = Words::over(Array::read_only(array.elements()));
  CHECK(cause(attach(constant, rig.device)) == "read_only");
  CHECK_FALSE(claimed(array));
  const Words vector = rig.attached(array);
}

TEST_CASE("memory that the driver does not register is refused with the driver's answer", "[policy]") {
  if (native::real()) return left_out("the fake driver refuses at will");
  if (native::options().registration_chunk_bytes <= 4096) return left_out("chunks are small enough");
  Rig rig({.max_registration_bytes = 4096});
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  const auto answer = attach(vector, rig.device);
  REQUIRE(cause(answer) == "backend");
  CHECK(message(answer).find("registers no such memory") != std::string::npos);
  CHECK_FALSE(claimed(array));
  CHECK(message(attach(vector, rig.device, {.policy = host_ptr::Policy::copy})) == "ok");
}

TEST_CASE("memory that the user pinned is linked, and stays pinned", "[lifetime]") {
  Rig rig;
  const Array array = Rig::zeros(3 * 1024);
  const auto part = Array::over(array.writable_elements().subspan(1024, 1024));
  const native::Entered entered(rig.user.context);
  constexpr unsigned flags = native::abi::memhostregister_portable | native::abi::memhostregister_devicemap;
  REQUIRE_CUDA(native::driver().mem_host_register(array.writable_elements().data(), array.nbytes(), flags));
  for (const Array& linked : {array, part}) {
    Words vector = rig.attached(linked);
    rig.run(rig.add, vector, 1);
    REQUIRE(message(detach(vector, rig.device)) == "ok");
  }
  rig.finish();
  CHECK(array.elements()[1023] == 1);
  CHECK(array.elements()[1024] == 2);
  // Still the user's.
  REQUIRE_CUDA(native::driver().mem_host_unregister(array.writable_elements().data()));

  void* pinned = nullptr;
  REQUIRE_CUDA(native::driver().mem_host_alloc(
      &pinned, 4096, native::abi::memhostalloc_portable | native::abi::memhostalloc_devicemap));
  {
    const Array over = Array::over(std::span(static_cast<std::int32_t*>(pinned), 1024));
    write(over, 4);
    Words vector = rig.attached(over);
    rig.run(rig.add, vector, 1);
    REQUIRE(message(detach(vector, rig.device)) == "ok");
    rig.finish();
    CHECK(host_sees(over) == all(5, 1024));
  }
  REQUIRE_CUDA(native::driver().mem_free_host(pinned));
}

TEST_CASE("a device is tried once, through any stack of adaptors, and nothing is registered for it",
          "[kind]") {
  Rig rig;
  if (!rig.machine.fake()) return left_out("only the fake driver tells what was called");
  const StatisticsAllocator statistics(pack(rig.allocator()));
  const Device stacked("CUDA", 7, "stacked", pack(statistics));
  Rig::Gate gate(rig);
  gate.close(rig.queue());
  const Array array = Rig::zeros();
  const device::LinkRequest request{.bytes = std::as_writable_bytes(array.writable_elements())};
  const auto first = Rig::linker().probe(stacked, request);
  REQUIRE(message(first) == "ok");
  rig.machine->reset();
  for (const Device& again : {stacked, rig.device}) {
    const auto known = Rig::linker().probe(again, request);
    REQUIRE(message(known) == "ok");
    CHECK(known->kind == first->kind);
    CHECK(known->map_cost == first->map_cost);
  }
  CHECK(rig.machine->calls() == 0);
}

TEST_CASE("a copy of an array whose part is attached is right", "[sub_vectors][policy]") {
  Rig rig;
  const Array array = Rig::zeros();
  write(array, 3);
  Words parent = Words::over(array);
  auto child = parent.sub_vector(1024, 1024);
  REQUIRE(message(child) == "ok");
  REQUIRE(message(attach(*child, rig.device)) == "ok");
  REQUIRE(message(parent.to_device(rig.device)) == "ok");
  CHECK(host_link(parent, rig.device)->kind == LinkKind::separate);
  CHECK(rig.kernel_sees(parent) == all(3));
  rig.run(rig.add, parent, 1);
  REQUIRE(message(acquire_device_writes(parent, rig.device)) == "ok");
  CHECK(host_sees(array) == all(4));
}

TEST_CASE("memory of which the user pinned a part is refused", "[overlap]") {
  Rig rig;
  if (pageable(rig)) return left_out("nothing is registered");
  const Array array = Rig::zeros(3 * 1024);
  const native::Entered entered(rig.user.context);
  for (const std::size_t first : {0U, 1024U, 2048U}) {
    CAPTURE(first);
    auto* const pinned = array.writable_elements().data() + first;
    REQUIRE_CUDA(native::driver().mem_host_register(pinned, 4096, 0));
    Words vector = Words::over(array);
    const auto refused = attach(vector, rig.device);
    CHECK(cause(refused) == "overlap");
    // With the numbers where the driver tells them.
    CHECK((message(refused).find("4096 bytes at") != std::string::npos) == (first == 0));
    CHECK((message(refused).find("in use otherwise") != std::string::npos) == (first != 0));
    CHECK_FALSE(claimed(array));
    CHECK(vector.buffer(rig.device) == nullptr);
    REQUIRE_CUDA(native::driver().mem_host_unregister(pinned));
    REQUIRE(message(attach(vector, rig.device)) == "ok");
  }
}

TEST_CASE("child: a kernel faults under a link", "[.]") {
  Reports reports;
  const Array array = Rig::zeros();
  bool registers = true;
  {
    Rig rig;
    registers = !pageable(rig);
    Words vector = rig.attached(array);
    auto launch = launching(rig.device, inout(vector));
    REQUIRE(message(launch) == "ok");
    rig.run_wild();
    launch->done();
    const auto lost = [](const host_ptr::HostPtrResult<void>& result) {
      const auto* const error = result ? nullptr : std::get_if<Error>(&result.error());
      return error != nullptr && error->code() == Errc::device_lost;
    };
    native::say(std::string("acquire: ") + (lost(acquire_device_writes(vector, rig.device)) ? "lost" : "?"));
    native::say("location: " + to_string(vector.location()));
    native::say(std::string("publish: ") + (lost(publish_host_writes(vector, rig.device)) ? "lost" : "?"));
    native::say(std::string("detach: ") + (lost(detach(vector, rig.device)) ? "lost" : "?"));
    native::say(std::string("linked: ") + (vector.buffer(rig.device) != nullptr ? "yes" : "no"));
    native::say("read: " + outcome(vector.get(0)));
    native::say("told: " + std::to_string(reports.take().size()));
  }
  // Registered memory is not given back after a fault: the driver answers no call.
  native::say(std::string("claimed at the end: ") + (claimed(array) == registers ? "as it must" : "?"));
}

TEST_CASE("a kernel that the context does not survive is an error of every call after it", "[failed]") {
  Rig::require_driver();
  const auto child = native::run_child("child: a kernel faults under a link");
  CAPTURE(child.output);
  for (const char* line : {"acquire: lost", "location: Stale_CPU the device", "publish: lost", "detach: lost",
                           "linked: yes", "read: device_lost", "told: 1", "claimed at the end: as it must"}) {
    CAPTURE(line);
    CHECK(child.output.find(line) != std::string::npos);
  }
}
