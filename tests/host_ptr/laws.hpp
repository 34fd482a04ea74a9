// SPDX-License-Identifier: MIT
// The laws of host_ptr, on the driver of the fixture that was included before. Each tag is one law and one
// ctest entry for each driver (CMakeLists.txt); what differs between drivers is what a program may observe
// between the calls, never after them.
#pragma once

#include <berth/adaptors/lru.hpp>
#include <berth/adaptors/statistics.hpp>

#include <malloc.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/host_ptr_words.hpp"
#include "support/reports.hpp"
#include "support/scale.hpp"
#include "support/skip.hpp"

using namespace berth;
using namespace host_ptr_test;
using namespace std::chrono_literals;
using host_ptr::acquire_device_writes;
using host_ptr::attach;
using host_ptr::detach;
using host_ptr::host_link;
using host_ptr::HostAccess;
using host_ptr::publish_host_writes;

namespace {

/// An acquire waits for a launch on `queue`, which it is told of.
void check_acquire_covers(Rig& rig, const Rig::Queue& queue) {
  rig.register_queue(queue);
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  Rig::Gate gate(rig);
  gate.close(queue);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 6, queue);
  launch->done();
  std::atomic<bool> returned{false};
  std::string answer;
  std::jthread acquiring([&] {
    answer = message(acquire_device_writes(vector, rig.device));
    returned = true;
  });
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(returned);
  gate.open();
  acquiring.join();
  CHECK(answer == "ok");
  CHECK(host_sees(array) == all(6));
}

/// False for a copy, as all are under `BERTH_HOST_PTR=copy`: laws tagged [copies] hold there too.
bool linked(const Rig& rig, const Words& vector) {
  const auto link = host_link(vector, rig.device);
  REQUIRE(link);
  return link->kind != LinkKind::separate;
}

/// What the next launch there reads.
std::vector<std::int32_t> launch_sees(const Rig& rig, const Words& vector) {
  const auto launch = launching(rig.device, in(vector));
  REQUIRE(message(launch) == "ok");
  return rig.kernel_sees(vector);
}

bool one_memory(LinkKind kind) { return kind != LinkKind::separate && kind != LinkKind::shadow; }

}  // namespace

// What the link is.

TEST_CASE("the kind of a link is what the driver does", "[kind]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  CHECK_FALSE(host_link(vector, rig.device));
  REQUIRE(message(attach(vector, rig.device)) == "ok");
  const auto link = host_link(vector, rig.device);
  REQUIRE(link);
  CHECK(link->map_cost > 0ns);

  // Tried independently: does a device write show without a map?
  write(array, 1);
  REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
  rig.run(rig.put, vector, 2);
  rig.finish();
  CHECK((array.elements()[0] == 2) == one_memory(link->kind));
  REQUIRE(message(detach(vector, rig.device)) == "ok");
  CHECK_FALSE(host_link(vector, rig.device));

  REQUIRE(message(vector.to_device(rig.device)) == "ok");
  CHECK(host_link(vector, rig.device)->kind == LinkKind::separate);
}

TEST_CASE("child: a device is tried while its queue is held back", "[.]") {
  Rig rig;
  Rig::Gate gate(rig);
  gate.close(rig.queue());
  const Array array = Rig::zeros();
  const device::LinkRequest request{.bytes = std::as_writable_bytes(array.writable_elements())};
  const auto first = Rig::linker().probe(rig.device, request);
  REQUIRE(message(first) == "ok");
  const auto again = Rig::linker().probe(rig.device, request);
  REQUIRE(message(again) == "ok");
  CHECK(again->kind == first->kind);
  CHECK(again->map_cost == first->map_cost);  // once for each device
  native::say("tried");
}

TEST_CASE("trying a device waits for nothing that runs there", "[kind]") {
  Rig::require_driver();
  // In a process of its own: what was found out before is remembered.
  const auto child = native::run_child("child: a device is tried while its queue is held back");
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("tried") != std::string::npos);
}

TEST_CASE("a device whose allocator stands below adaptors is linked too", "[kind]") {
  Rig rig;
  auto cached = LruAllocator<Rig::Allocator>::create(rig.allocator());
  REQUIRE(message(cached) == "ok");
  const StatisticsAllocator statistics(pack(*cached));
  const Device stacked(std::string(rig.device.framework()), 7, "stacked", pack(statistics));
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  REQUIRE(message(attach(vector, stacked)) == "ok");
  CHECK(host_link(vector, stacked)->kind == rig.kind());
  write(array, 4);
  REQUIRE(message(publish_host_writes(vector, stacked)) == "ok");
  rig.run_on(stacked, rig.add, vector, 1);
  REQUIRE(message(acquire_device_writes(vector, stacked)) == "ok");
  CHECK(host_sees(array) == all(5));
  CHECK(statistics.statistics().bytes.total == 0);  // borrowed memory is nobody's account
  REQUIRE(message(detach(vector, stacked)) == "ok");
  CHECK_FALSE(claimed(array));
}

TEST_CASE("the state table, attached", "[table]") {
  Rig rig;
  const bool shared = one_memory(rig.kind());
  state_table::check(
      {.first = rig.device,
       .second = rig.another_device(),
       .attach = [](state_table::Bytes& vector,
                    const Device& device) { REQUIRE(message(attach(vector, device)) == "ok"); },
       .shared = shared});
}

TEST_CASE("the state table, with copies", "[table]") {
  Rig rig;
  state_table::check({.first = rig.device, .second = rig.another_device(), .attach = {}});
}

TEST_CASE("the state table, copies by policy", "[table]") {
  Rig rig;
  REQUIRE(::setenv("BERTH_HOST_PTR", "copy", 1) == 0);
  state_table::check({.first = rig.device,
                      .second = rig.another_device(),
                      .attach = [](state_table::Bytes& vector, const Device& device) {
                        REQUIRE(message(attach(vector, device)) == "ok");
                        REQUIRE(host_link(vector, device)->kind == LinkKind::separate);
                      }});
  REQUIRE(::unsetenv("BERTH_HOST_PTR") == 0);
}

// Host to device.

TEST_CASE("a link starts with what the host has", "[publish][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  write(array, 7);
  const Words vector = rig.attached(array);
  CHECK(vector.location().state == Location::State::both);
  CHECK(rig.kernel_sees(vector) == all(7));
}

TEST_CASE("a vector that is meant for a device is attached there with what the host has",
          "[publish][copies]") {
  Rig rig;
  auto vector = Words::create(length, rig.device);
  REQUIRE(message(vector) == "ok");
  CHECK(vector->location().state == Location::State::stale_gpu);
  REQUIRE(message(vector->fill(6)) == "ok");
  REQUIRE(message(attach(*vector, rig.device)) == "ok");
  CHECK(vector->location() == Location{Location::State::both, rig.device});
  CHECK(rig.kernel_sees(*vector) == all(6));
}

TEST_CASE("what was written past the vector is published, again and again", "[publish][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  for (std::int32_t value = 1; value < 6; ++value) {
    write(array, value);
    REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
    CHECK(host_sees(array) == all(value));
    CHECK(rig.kernel_sees(vector) == all(value));
  }
}

TEST_CASE("a publish discards what the device changed and nobody read", "[publish][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  {
    auto launch = launching(rig.device, inout(vector));
    REQUIRE(message(launch) == "ok");
    rig.run(rig.put, vector, 5);
  }
  rig.finish();
  write(array, 9);
  REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
  CHECK(vector.location().state == Location::State::both);
  CHECK(rig.kernel_sees(vector) == all(9));
  CHECK(host_sees(array) == all(9));
}

TEST_CASE("a publish of a range leaves the others as new as they were", "[publish][range][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 5);
  launch->done();
  rig.finish();
  std::ranges::fill(array.writable_elements().subspan(100, 50), 8);
  REQUIRE(message(publish_host_writes(vector, rig.device, 50 * sizeof(std::int32_t),
                                      100 * sizeof(std::int32_t))) == "ok");
  CHECK(vector.location().state == Location::State::stale_cpu);
  auto expected = all(5);
  std::fill_n(expected.begin() + 100, 50, 8);
  CHECK(rig.kernel_sees(vector) == expected);
  CHECK(vector.get(99).value_or(0) == 5);
  CHECK(host_sees(array) == expected);
}

TEST_CASE("ranges are to the byte", "[publish][acquire][access][range][copies]") {
  Rig rig;
  constexpr std::size_t nbytes = length * sizeof(std::int32_t);
  for (const auto& [size, offset] : {std::pair<std::size_t, std::size_t>{1, 0},
                                     {1, 3},
                                     {3, 62},
                                     {5, 4095},
                                     {130, 127},
                                     {4097, 4093},
                                     {1, nbytes - 1}}) {
    CAPTURE(size, offset);
    const Array array = Rig::zeros();
    const std::span host = std::as_writable_bytes(array.writable_elements());
    const auto fill_range = [&](std::span<std::byte> bytes, int value) {
      std::ranges::fill(bytes.subspan(offset, size), static_cast<std::byte>(value));
    };
    const auto launch_fill = [&](Words& vector, int value) {
      auto launch = launching(rig.device, inout(vector));
      REQUIRE(message(launch) == "ok");
      REQUIRE(message(vector.buffer(rig.device)->fill(static_cast<std::byte>(value))) == "ok");
      REQUIRE(message(rig.device.synchronize()) == "ok");
    };
    const auto device_is = [&](Words& vector, const std::vector<std::byte>& expected) {
      return std::ranges::equal(std::as_bytes(std::span<const std::int32_t>(launch_sees(rig, vector))),
                                expected);
    };
    Words vector = rig.attached(array);
    std::vector<std::byte> expected(nbytes, std::byte{1});
    launch_fill(vector, 1);
    fill_range(host, 2);
    fill_range(expected, 2);
    REQUIRE(message(publish_host_writes(vector, rig.device, size, offset)) == "ok");
    CHECK(device_is(vector, expected));
    REQUIRE(message(acquire_device_writes(vector, rig.device, size, offset)) == "ok");
    CHECK(std::ranges::equal(host.subspan(offset, size), std::span(expected).subspan(offset, size)));
    {
      auto access = HostAccess<std::int32_t>::open(vector, Access::write, size, offset);
      REQUIRE(message(access) == "ok");
      CHECK(std::ranges::count(access->bytes(), std::byte{2}) == static_cast<std::ptrdiff_t>(size));
      std::ranges::fill(access->writable_bytes(), std::byte{3});
    }
    fill_range(expected, 3);
    CHECK(device_is(vector, expected));
    {
      auto access = HostAccess<std::int32_t>::open(vector, Access::overwrite, size, offset);
      REQUIRE(message(access) == "ok");
      std::ranges::fill(access->writable_bytes(), std::byte{4});
    }
    fill_range(expected, 4);
    CHECK(device_is(vector, expected));
    REQUIRE(message(vector.to_host()) == "ok");
    CHECK(std::ranges::equal(host, expected));
  }
}

TEST_CASE("a publish where there is no buffer makes a copy", "[publish][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  write(array, 4);
  REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
  CHECK(host_link(vector, rig.device)->kind == LinkKind::separate);
  CHECK(rig.kernel_sees(vector) == all(4));
}

TEST_CASE("a publish comes after earlier work on every queue, and before later work on any",
          "[publish][queues][copies]") {
  Rig rig;
  const auto second = rig.another_queue();
  rig.register_queue(second);
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  rig.run_slowly(vector, 3, second);
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(3));
  rig.run_slowly(vector, 4, second);
  // A publish that did not wait would be overwritten by the kernel, or read by it: where one memory is shared
  // the write itself needs the end of the kernel.
  if (rig.one_memory() && linked(rig, vector)) rig.finish(second);
  write(array, 6);
  REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
  rig.run(rig.add, vector, 1, second);
  rig.finish(second);
  CHECK(rig.kernel_sees(vector) == all(7));
}

// Device to host.

TEST_CASE("what kernels wrote is acquired, announced or not", "[acquire][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  for (std::int32_t round = 1; round < 6; ++round) {
    if (round % 2 == 0) {
      auto launch = launching(rig.device, inout(vector));
      REQUIRE(message(launch) == "ok");
      rig.run(rig.add, vector, 1);
      launch->done();
    } else {
      rig.run(rig.add, vector, 1);
    }
    REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
    CHECK(host_sees(array) == all(round));
    CHECK(vector.location().state == Location::State::both);
  }
}

TEST_CASE("an acquire never touches a host that is newer", "[acquire][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  REQUIRE(message(vector.fill(3)) == "ok");
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(3));
  CHECK(vector.location().state == Location::State::stale_gpu);
  REQUIRE(message(vector.to_device(rig.device)) == "ok");
  CHECK(rig.kernel_sees(vector) == all(3));
}

TEST_CASE("an acquire of a range brings that home", "[acquire][range][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 5);
  launch->done();
  REQUIRE(message(acquire_device_writes(vector, rig.device, 400, 800)) == "ok");
  CHECK(vector.location().state == Location::State::stale_cpu);
  const auto some = array.elements().subspan(200, 100);
  CHECK(std::ranges::count(some, 5) == 100);
  if (!rig.one_memory()) {
    CHECK(array.elements()[199] == 0);
    CHECK(array.elements()[300] == 0);
  }
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(5));

  for (const auto& [nbytes, byte_offset] :
       {std::pair{vector.nbytes() + 1, std::size_t{0}}, {std::size_t{1}, vector.nbytes()}, {SIZE_MAX, 1}}) {
    const auto outside = acquire_device_writes(vector, rig.device, nbytes, byte_offset);
    REQUIRE_FALSE(outside);
    CHECK(std::get<Error>(outside.error()).code() == Errc::out_of_range);
    CHECK_FALSE(publish_host_writes(vector, rig.device, nbytes, byte_offset));
  }
}

TEST_CASE("an acquire covers every registered queue", "[acquire][queues][copies]") {
  Rig rig;
  check_acquire_covers(rig, rig.another_queue());
}

TEST_CASE("an event stands for work on a queue that nobody registered", "[acquire][queues][copies]") {
  Rig rig;
  const auto second = rig.another_queue();
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  Rig::Gate gate(rig);
  gate.close(second);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  launch->done(rig.run_with_event(rig.put, vector, 6, second));
  std::jthread opening([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  CHECK(vector.get(0).value_or(0) == 6);
  CHECK(host_sees(array) == all(6));
}

// Host access.

TEST_CASE("a host access for reading shows the device's elements", "[access][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 5);
  launch->done();
  {
    const auto access = HostAccess<std::int32_t>::open(vector, Access::read);
    REQUIRE(message(access) == "ok");
    CHECK(access->elements().data() == array.data());
    CHECK(std::vector(access->elements().begin(), access->elements().end()) == all(5));
    CHECK(access->writable_bytes().empty());
    CHECK(access->writable_elements().empty());
  }
  CHECK(vector.location().state == Location::State::both);
  CHECK(rig.kernel_sees(vector) == all(5));
}

TEST_CASE("what is written through a host access reaches the next launch, on any queue", "[access]") {
  Rig rig;
  const auto second = rig.another_queue();
  rig.register_queue(second);
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  rig.run(rig.put, vector, 4);
  for (const Access how : {Access::write, Access::overwrite}) {
    auto access = HostAccess<std::int32_t>::open(vector, how);
    REQUIRE(message(access) == "ok");
    if (how == Access::write) CHECK(access->elements()[17] == 4);
    std::ranges::fill(access->writable_elements(), 10);
    REQUIRE(message(access->close()) == "ok");
    CHECK(access->bytes().empty());
    REQUIRE(message(access->close()) == "ok");
    auto launch = launching(rig.device, inout(vector));
    REQUIRE(message(launch) == "ok");
    rig.run(rig.add, vector, 1, second);
    rig.finish(second);
    launch->done();
    CHECK(rig.kernel_sees(vector) == all(11));
    REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
    rig.run(rig.put, vector, 4);
  }
}

TEST_CASE("a host that is newer is published before a range is mapped", "[access][range][copies]") {
  Rig rig;
  const Access how = GENERATE(Access::read, Access::write, Access::overwrite);
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  REQUIRE(message(vector.fill(3)) == "ok");
  auto expected = all(3);
  {
    const auto access = HostAccess<std::int32_t>::open(vector, how, 400, 800);
    REQUIRE(message(access) == "ok");
    CHECK(access->elements().size() == 100);
    if (how != Access::overwrite) CHECK(access->elements()[99] == 3);
    if (how != Access::read) {
      std::ranges::fill(access->writable_elements(), 8);
      std::fill_n(expected.begin() + 200, 100, 8);
    }
  }
  CHECK(launch_sees(rig, vector) == expected);
  REQUIRE(message(vector.to_host(true)) == "ok");
  CHECK(host_sees(array) == expected);
}

TEST_CASE("while the host has access the device stays away", "[access]") {
  Rig rig;
  const Access how = GENERATE(Access::read, Access::write, Access::overwrite);
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  auto access = HostAccess<std::int32_t>::open(vector, how, 400, 800);
  REQUIRE(message(access) == "ok");
  if (how == Access::overwrite) std::ranges::fill(access->writable_elements(), 0);

  CHECK(outcome(launching(rig.device, in(vector))) == "mapped");
  CHECK(outcome(launching(rig.device, out(vector))) == "mapped");
  CHECK(outcome(vector.to_device(rig.another_device())) == "mapped");
  CHECK(outcome(vector.set(0, 1)) == "mapped");
  CHECK(outcome(vector.fill(1)) == "mapped");
  CHECK(outcome(vector.free_buffer(rig.device)) == "mapped");
  for (const auto& refused :
       {publish_host_writes(vector, rig.device), acquire_device_writes(vector, rig.device),
        detach(vector, rig.device), publish_host_writes(vector, rig.device, 1, 1199)}) {
    REQUIRE_FALSE(refused);
    CHECK(std::get<Error>(refused.error()).code() == Errc::mapped);
  }
  for (const Access second : {Access::read, Access::write, Access::overwrite}) {
    const bool shares = how == Access::read && second == Access::read;
    CHECK(outcome(HostAccess<std::int32_t>::open(vector, second, 400, 800)) == (shares ? "ok" : "mapped"));
    CHECK(outcome(HostAccess<std::int32_t>::open(vector, second, 1, 1199)) == "mapped");
    auto beside = HostAccess<std::int32_t>::open(vector, second, 4, 1200);
    REQUIRE(message(beside) == "ok");
    if (second != Access::read) beside->writable_elements()[0] = 0;
  }
  CHECK(outcome(launching(rig.device, in(vector))) == "mapped");  // the others have gone
  CHECK(message(publish_host_writes(vector, rig.device, 4, 1200)) == "ok");
  REQUIRE(message(access->close()) == "ok");
  CHECK(outcome(launching(rig.device, in(vector))) == "ok");
  CHECK(rig.kernel_sees(vector) == all(0));
}

TEST_CASE("an access of a range keeps the others newest on the device", "[access][range]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 5);
  launch->done();
  {
    const auto access = HostAccess<std::int32_t>::open(vector, Access::write, 400, 800);
    REQUIRE(message(access) == "ok");
    CHECK(access->elements()[0] == 5);
    std::ranges::fill(access->writable_elements(), 6);
  }
  CHECK(vector.location().state == Location::State::stale_cpu);
  auto expected = all(5);
  std::fill_n(expected.begin() + 200, 100, 6);
  CHECK(rig.kernel_sees(vector) == expected);
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == expected);
}

TEST_CASE("an access outlives its vector", "[access][lifetime][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  auto vector = std::make_unique<Words>(rig.attached(array));
  auto access = HostAccess<std::int32_t>::open(*vector, Access::write);
  REQUIRE(message(access) == "ok");
  const bool claims = linked(rig, *vector);
  vector.reset();
  CHECK(claimed(array) == claims);
  std::ranges::fill(access->writable_elements(), 12);
  REQUIRE(message(access->close()) == "ok");
  CHECK_FALSE(claimed(array));
  CHECK(host_sees(array) == all(12));
}

// Launches.

TEST_CASE("inputs do not become stale, outputs are not uploaded", "[launch][copies]") {
  Rig rig;
  const Array a = Rig::zeros();
  const Array b = Rig::zeros();
  write(a, 3);
  Words x = rig.attached(a);
  Words y = rig.attached(b);
  REQUIRE(message(y.fill(100)) == "ok");
  {
    auto launch = launching(rig.device, in(x), out(y));
    REQUIRE(message(launch) == "ok");
    rig.run_copy(x, y);
  }  // dropped: counts as run
  CHECK(x.location().state == Location::State::both);
  CHECK(y.location().state == Location::State::gpu);
  CHECK(y.get(5).value_or(0) == 3);
  CHECK(host_sees(b) == all(3));
}

TEST_CASE("a read between the announcement and the kernel is noticed", "[launch][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  CHECK(vector.get(0).value_or(9) == 0);
  rig.run(rig.put, vector, 4);
  launch->done();
  launch->done();
  CHECK(vector.get(0).value_or(9) == 4);
}

TEST_CASE("a read elsewhere between the announcement and the kernel does not cost its results",
          "[launch][copies]") {
  Rig rig;
  const Device other = rig.another_device();
  for (const bool launched : {false, true}) {
    const Array array = Rig::zeros();
    Words vector = rig.attached(array);
    auto launch = launching(rig.device, inout(vector));
    REQUIRE(message(launch) == "ok");
    if (launched) {
      REQUIRE(message(launching(other, in(vector))) == "ok");
    } else {
      REQUIRE(message(vector.to_device(other)) == "ok");
    }
    rig.run(rig.put, vector, 4);
    launch->done();
    CHECK(vector.get(0).value_or(9) == 4);
    CHECK(host_sees(array) == all(4));
  }
}

TEST_CASE("between the announcement and done nothing is mapped", "[launch][access]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  const auto open = [&](Access how) {
    return outcome(HostAccess<std::int32_t>::open(vector, how, 400, 800));
  };
  for (const bool writes : {false, true}) {
    auto launch = launching(rig.device, writes ? inout(vector) : in(vector));
    REQUIRE(message(launch) == "ok");
    for (const Access how : {Access::read, Access::write, Access::overwrite})
      CHECK(open(how) == "invalid_argument");
    if (writes) rig.run(rig.put, vector, 4);
    launch->done();
    CHECK(open(Access::read) == "ok");
  }
  CHECK(vector.get(300).value_or(9) == 4);
}

TEST_CASE("the host waits for kernels that read in place before it writes there", "[launch]") {
  Rig rig;
  const Array a = Rig::zeros();
  const Array b = Rig::zeros();
  write(a, 1);
  Words x = rig.attached(a);
  Words y = rig.attached(b);
  Rig::Gate gate(rig);
  auto launch = launching(rig.device, in(x), out(y));
  REQUIRE(message(launch) == "ok");
  // A wait for the device before the kernel is no wait for the kernel.
  if (GENERATE(false, true)) REQUIRE(message(acquire_device_writes(x, rig.device)) == "ok");
  gate.close(rig.queue());
  rig.run_copy(x, y);
  launch->done();
  std::jthread opening([&] {
    std::this_thread::sleep_for(50ms);
    gate.open();
  });
  REQUIRE(message(x.fill(2)) == "ok");
  opening.join();
  CHECK(y.get(0).value_or(0) == 1);
}

// Lifetime.

TEST_CASE("detach brings the elements home and gives the memory back while a kernel runs",
          "[lifetime][copies]") {
  Rig rig;
  for (const bool destroy : {false, true}) {
    native::Pages pages(length * sizeof(std::int32_t));
    const std::span elements(reinterpret_cast<std::int32_t*>(pages.data()), length);
    {
      auto vector = std::make_unique<Words>(rig.attached(Array::over(elements)));
      auto launch = launching(rig.device, inout(*vector));
      REQUIRE(message(launch) == "ok");
      rig.run_slowly(*vector, 7);
      launch->done();
      if (!destroy) REQUIRE(message(detach(*vector, rig.device)) == "ok");
    }
    CHECK(std::ranges::count(elements, 7) == static_cast<std::ptrdiff_t>(length));
    CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
    pages.unmap();  // a kernel or a copy that still ran would end this program
  }
}

TEST_CASE("detach waits for kernels on registered queues that nobody announced", "[lifetime][copies]") {
  Rig rig;
  const auto second = rig.another_queue();
  rig.register_queue(second);
  native::Pages pages(length * sizeof(std::int32_t));
  const std::span elements(reinterpret_cast<std::int32_t*>(pages.data()), length);
  Words vector = rig.attached(Array::over(elements));
  Rig::Gate gate(rig);
  gate.close(second);
  rig.run(rig.put, vector, 7, second);
  std::atomic<bool> returned{false};
  std::jthread detaching([&] {
    static_cast<void>(detach(vector, rig.device));
    returned = true;
  });
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(returned);
  gate.open();
  detaching.join();
  pages.unmap();
}

TEST_CASE("attach, detach, attach; moved while attached", "[lifetime][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  for (std::int32_t round = 1; round < 4; ++round) {
    rig.run(rig.add, vector, 1);
    Words moved = std::move(vector);
    CHECK(moved.buffer(rig.device) != nullptr);
    REQUIRE(message(acquire_device_writes(moved, rig.device)) == "ok");
    REQUIRE(message(detach(moved, rig.device)) == "ok");
    REQUIRE(message(detach(moved, rig.device)) == "ok");
    CHECK_FALSE(claimed(array));
    CHECK(host_sees(array) == all(round));
    REQUIRE(message(attach(moved, rig.device)) == "ok");
    CHECK(claimed(array) == linked(rig, moved));
    vector = std::move(moved);
  }
}

TEST_CASE("the array lives as long as the link", "[lifetime][copies]") {
  Rig rig;
  std::weak_ptr<const void> watch;
  {
    Words vector = [&] {
      const Array array = Rig::zeros();
      watch = array.memory().owner;
      return rig.attached(array);
    }();
    rig.run(rig.put, vector, 7);
    CHECK_FALSE(watch.expired());
    CHECK(vector.to_host(true));
    CHECK(vector.get(3).value_or(0) == 7);
  }
  CHECK(watch.expired());
}

TEST_CASE("many attach and detach cycles leave nothing", "[cycles][copies]") {
  Rig rig;
  const Array array = Rig::zeros(64);
  static_cast<void>(rig.kind());  // what a device was tried with stays
  const Rig::Alive alive(rig);
  const std::size_t cycles = scaled(100'000);
  std::size_t wrong = 0;
  const auto run = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto vector = host_ptr::of_bigarray(rig.device, int32, array);
      if (!vector || !publish_host_writes(*vector, rig.device) || !detach(*vector, rig.device)) ++wrong;
    }
  };
  run(cycles / 10);
  const std::size_t before = ::mallinfo2().uordblks;  // with the driver's
  run(cycles);
  CHECK(::mallinfo2().uordblks < before + cycles);
  CHECK(wrong == 0);
  CHECK_FALSE(claimed(array));
  CHECK(alive.same());
}

TEST_CASE("vectors of several threads share a device", "[threads][copies]") {
  const Rig rig;
  constexpr int threads = 4;
  const std::size_t rounds = scaled(2000);
  std::atomic<std::size_t> wrong{0};
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        const auto array = Array::create(256);
        for (std::size_t round = 0; array && round < rounds; ++round) {
          auto vector = host_ptr::of_bigarray(rig.device, int32, *array);
          if (!vector || !vector->fill(thread)) break;
          auto launch = launching(rig.device, inout(*vector));
          const auto mark = static_cast<std::byte>(round % 100 + 1);
          if (!launch || !vector->buffer(rig.device)->fill(mark)) break;
          launch->done();
          const auto expected = 0x01010101 * std::to_integer<std::int32_t>(mark);
          if (vector->get(255).value_or(0) != expected || !detach(*vector, rig.device)) break;
          if (round + 1 == rounds) return;
        }
        ++wrong;
      });
    }
  }
  CHECK(wrong == 0);
}

// What is refused.

TEST_CASE("no byte belongs to two links, on whatever device", "[overlap]") {
  Rig rig;
  const Device other = rig.another_device();
  const Array array = Rig::zeros(3 * 1024);
  const auto part = [&](std::size_t first, std::size_t count) {
    return Array::over(array.writable_elements().subspan(first, count));
  };
  Words middle = rig.attached(part(1024, 1024));
  for (const Device& device : {rig.device, other}) {
    for (const auto& [first, count] :
         {std::pair<std::size_t, std::size_t>{1024, 1024}, {0, 1025}, {2032, 16}, {1040, 16}, {0, 3072}}) {
      Words refused = Words::over(part(first, count));
      const auto answer = attach(refused, device);
      REQUIRE(cause(answer) == "overlap");
      const auto& reason = std::get<host_ptr::Refused>(answer.error()).reason;
      CHECK(reason.other_address == reinterpret_cast<std::uintptr_t>(array.data() + 1024));
      CHECK(reason.limit == 4096);
      CHECK(refused.location() == Location{});
      CHECK(refused.buffer(device) == nullptr);
    }
  }
  const Words before = rig.attached(part(0, 1024));
  Words after = Words::over(part(2048, 1024));
  CHECK(message(attach(after, other)) == "ok");
}

TEST_CASE("an owner that moves its elements leaves a stale link, which keeps the old place", "[overlap]") {
  Rig rig;
  const Device other = rig.another_device();
  const Array arena = Rig::zeros(4 * 1024);  // in which somebody's array is moved about
  const auto place = [&](std::size_t first, std::size_t count) {
    return Array::over(arena.writable_elements().subspan(first, count));
  };
  const Array old = place(0, 1024);
  write(old, 1);
  Words stale = rig.attached(old);
  rig.run(rig.add, stale, 1);
  REQUIRE(message(acquire_device_writes(stale, rig.device)) == "ok");

  const Array grown = place(2048, 2048);
  std::ranges::copy(old.elements(), grown.writable_elements().begin());
  Words moved = Words::over(grown);
  CHECK(message(attach(moved, rig.device)) == "ok");

  // The old place is handed out again, to others.
  for (const auto& [first, count] :
       {std::pair<std::size_t, std::size_t>{0, 1024}, {0, 16}, {512, 1024}, {0, 2048}}) {
    CAPTURE(first, count);
    const Array next = place(first, count);
    for (const Device& device : {rig.device, other}) {
      Words vector = Words::over(next);
      const auto answer = attach(vector, device);
      REQUIRE(cause(answer) == "overlap");
      const auto& reason = std::get<host_ptr::Refused>(answer.error()).reason;
      CHECK(reason.other_address == reinterpret_cast<std::uintptr_t>(old.data()));
      CHECK(reason.limit == old.nbytes());
    }
  }
  const Array next = place(512, 1024);
  write(next, 7);
  REQUIRE(message(detach(stale, rig.device)) == "ok");
  CHECK(host_sees(next) == all(7, 1024));  // nothing was newest on the device
  Words vector = Words::over(next);
  REQUIRE(message(attach(vector, other)) == "ok");
  CHECK(cause(attach(stale, rig.device)) == "overlap");
  CHECK(rig.kernel_sees(moved)[1023] == 2);
}

TEST_CASE("a part of an attached array is no array of its own", "[overlap][sub_vectors]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words parent = rig.attached(array);
  auto child = parent.sub_vector(1024, 1024);
  REQUIRE(message(child) == "ok");
  CHECK(cause(attach(*child, rig.device)) == "overlap");
  REQUIRE(message(detach(parent, rig.device)) == "ok");
  CHECK(message(attach(*child, rig.device)) == "ok");
  auto sibling = parent.sub_vector(1024, 2048);
  REQUIRE(message(sibling) == "ok");
  CHECK(message(attach(*sibling, rig.device)) == "ok");
  CHECK(cause(attach(parent, rig.device)) == "overlap");
}

TEST_CASE("parent and part keep each other current", "[sub_vectors][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words parent = rig.attached(array);
  auto made = parent.sub_vector(1024, 1024);
  REQUIRE(message(made) == "ok");
  Words& child = *made;
  // The parent's kernel, then the part's on a copy of its own, then the parent's.
  const auto add = [&](Words& vector, std::uint32_t value) {
    auto launch = launching(rig.device, inout(vector));
    REQUIRE(message(launch) == "ok");
    rig.run(rig.add, vector, value);
    launch->done();
  };
  auto expected = all(0);
  for (std::uint32_t round = 1; round < 4; ++round) {
    add(parent, 1);
    add(child, 10);
    add(parent, 100);
    for (std::size_t i = 0; i < length; ++i) expected[i] += i >= 1024 && i < 2048 ? 111 : 101;
  }
  CHECK(child.get(0).value_or(0) == 333);
  REQUIRE(message(parent.to_host()) == "ok");
  CHECK(host_sees(array) == expected);

  // A host write through one is published by the other.
  REQUIRE(message(child.set(5, -1)) == "ok");
  add(parent, 1);
  CHECK(parent.get(1024 + 5).value_or(7) == 0);
  CHECK(child.get(5).value_or(7) == 0);

  // Guards and launches see each other.
  const auto access = HostAccess<std::int32_t>::open(child, Access::read);
  REQUIRE(message(access) == "ok");
  CHECK(outcome(launching(rig.device, in(parent))) == "mapped");
  CHECK(outcome(launching(rig.device, in(parent), inout(child))) == "mapped");
}

TEST_CASE("a part is attached with what its parent has newest, and the other way about", "[sub_vectors]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words parent = Words::over(array);
  auto made = parent.sub_vector(1024, 1024);
  REQUIRE(message(made) == "ok");
  Words& child = *made;
  const auto add = [&](Words& vector) {
    auto launch = launching(rig.device, inout(vector));
    REQUIRE(message(launch) == "ok");
    rig.run(rig.add, vector, 1);
  };
  add(parent);  // on a copy
  REQUIRE(message(attach(child, rig.device)) == "ok");
  CHECK(rig.kernel_sees(child) == all(1, 1024));
  add(child);
  REQUIRE(message(parent.free_all_buffers()) == "ok");
  CHECK(cause(attach(parent, rig.device)) == "overlap");
  CHECK(host_link(child, rig.device)->kind != LinkKind::separate);
  REQUIRE(message(detach(child, rig.device)) == "ok");
  REQUIRE(message(child.to_device(rig.device)) == "ok");
  add(child);
  REQUIRE(message(attach(parent, rig.device)) == "ok");
  auto expected = all(1);
  std::fill_n(expected.begin() + 1024, 1024, 3);
  CHECK(rig.kernel_sees(parent) == expected);
  CHECK(host_sees(array) == expected);
}

TEST_CASE("two arguments of a launch share elements only for reading", "[sub_vectors][launch][copies]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words parent = rig.attached(array);
  auto child = parent.sub_vector(1024, 1024);
  auto sibling = parent.sub_vector(1024, 2048);
  REQUIRE(message(child) == "ok");
  REQUIRE(message(sibling) == "ok");
  CHECK(outcome(launching(rig.device, in(parent), in(*child))) == "ok");
  CHECK(outcome(launching(rig.device, in(parent), out(*child))) == "overlap");
  CHECK(outcome(launching(rig.device, inout(parent), in(*child))) == "overlap");
  CHECK(outcome(launching(rig.device, in(parent), inout(parent))) == "overlap");
  CHECK(outcome(launching(rig.device, inout(*child), inout(*sibling))) == "ok");
}

TEST_CASE("alignment: refused with the numbers, or taken leniently", "[alignment]") {
  Rig rig;
  const Array block = Rig::zeros(3 * 1024);
  for (const std::size_t first : {1U, 4U, 8U, 15U, 17U}) {
    CAPTURE(first);
    const Array array = Array::over(block.writable_elements().subspan(first, 1000));
    Words vector = Words::over(array);
    const auto answer = attach(vector, rig.device);
    REQUIRE(cause(answer) == "alignment");
    const auto& reason = std::get<host_ptr::Refused>(answer.error()).reason;
    CHECK(reason.address == reinterpret_cast<std::uintptr_t>(array.data()));
    CHECK(reason.limit == 64);

    REQUIRE(message(attach(vector, rig.device, {.lenient = true})) == "ok");
    write(array, 5);
    REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
    rig.run(rig.add, vector, 1);
    REQUIRE(message(detach(vector, rig.device)) == "ok");
    CHECK(vector.location() == Location{});
  }
  // Not of the element.
  const std::span odd(
      reinterpret_cast<std::int32_t*>(reinterpret_cast<std::byte*>(block.writable_elements().data()) + 2),
      100);
  Words vector = Words::over(Array::over(odd));
  const auto answer = attach(vector, rig.device, {.lenient = true});
  REQUIRE(cause(answer) == "alignment");
  CHECK(std::get<host_ptr::Refused>(answer.error()).reason.limit == sizeof(std::int32_t));
}

TEST_CASE("64 bytes are enough, a page is not asked for", "[alignment][copies]") {
  Rig rig;
  const Array block = Rig::zeros(3 * 1024);
  for (const std::size_t first : {16U, 32U, 1008U, 1040U}) {
    CAPTURE(first);
    write(block, 1);
    const Array array = Array::over(block.writable_elements().subspan(first, 1024));
    Words vector = rig.attached(array);
    CHECK(rig.kernel_sees(vector) == all(1, 1024));
    {
      auto launch = launching(rig.device, inout(vector));
      REQUIRE(message(launch) == "ok");
      rig.run(rig.add, vector, 1);
    }
    REQUIRE(message(detach(vector, rig.device)) == "ok");
    CHECK(std::ranges::count(block.elements(), 1) == 2048);
    write(array, 5);
    Words again = rig.attached(array);
    rig.run(rig.add, again, 1);
    REQUIRE(message(acquire_device_writes(again, rig.device)) == "ok");
    CHECK(host_sees(array) == all(6, 1024));
  }
}

TEST_CASE("a size that is no multiple of 64 is taken, to the byte", "[alignment][copies]") {
  Rig rig;
  for (const std::size_t count : {1U, 15U, 17U, 1000U, 1023U}) {
    CAPTURE(count);
    const Array block = Rig::zeros(1024);
    write(block, 1);
    const Array array = Array::over(block.writable_elements().first(count));
    Words vector = rig.attached(array);
    rig.run(rig.add, vector, 1);
    REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
    CHECK(std::ranges::count(block.elements(), 2) == static_cast<std::ptrdiff_t>(count));
    CHECK(std::ranges::count(block.elements().subspan(count), 1) ==
          static_cast<std::ptrdiff_t>(1024 - count));
  }
}

TEST_CASE("a size above the device's maximum is refused", "[alignment]") {
  Rig rig;
  const Array array = Rig::zeros(16);
  const std::size_t count = rig.max_bytes() / sizeof(std::int32_t) + 16;
  Words vector = Words::over(Array::over(std::span(array.writable_elements().data(), count)));
  const auto answer = attach(vector, rig.device);
  REQUIRE(cause(answer) == "size");
  CHECK(std::get<host_ptr::Refused>(answer.error()).reason.limit == rig.max_bytes());
}

TEST_CASE("read-only memory is attached and never written", "[read_only][copies]") {
  Rig rig;
  native::Pages pages(length * sizeof(std::int32_t));
  const std::span elements(reinterpret_cast<std::int32_t*>(pages.data()), length);
  std::ranges::fill(elements, 11);
  REQUIRE(::mprotect(pages.data(), length * sizeof(std::int32_t), PROT_READ) == 0);
  {
    Words vector = rig.attached(Array::read_only(elements));
    CHECK(rig.kernel_sees(vector) == all(11));
    const Array b = Rig::zeros();
    Words y = rig.attached(b);
    auto launch = launching(rig.device, in(vector), out(y));
    REQUIRE(message(launch) == "ok");
    rig.run_copy(vector, y);
    launch->done();
    CHECK(y.get(9).value_or(0) == 11);

    REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
    REQUIRE(message(vector.to_host(true)) == "ok");
    REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
    const auto access = HostAccess<std::int32_t>::open(vector, Access::read);
    REQUIRE(message(access) == "ok");
    CHECK(access->elements()[5] == 11);
    CHECK(outcome(HostAccess<std::int32_t>::open(vector, Access::write)) == "invalid_argument");
    CHECK(outcome(launching(rig.device, inout(vector))) == "invalid_argument");
    CHECK(outcome(launching(rig.device, out(vector))) == "invalid_argument");
    CHECK(outcome(vector.set(0, 1)) == "invalid_argument");
    CHECK(outcome(vector.fill(1)) == "invalid_argument");
  }
  CHECK(std::ranges::count(elements, 11) == static_cast<std::ptrdiff_t>(length));
}

TEST_CASE("two devices: the newest goes through the host, whichever has it", "[two_devices]") {
  Rig rig;
  const Device other = rig.another_device();
  const Array array = Rig::zeros();
  Words vector = rig.attached(array);
  CHECK(cause(attach(vector, other)) == "overlap");  // one context at a time over one range
  std::int32_t expected = 0;
  for (int round = 0; round < 3; ++round) {
    {
      auto launch = launching(rig.device, inout(vector));
      REQUIRE(message(launch) == "ok");
      rig.run(rig.add, vector, 1);
    }
    {
      auto launch = launching(other, inout(vector));
      REQUIRE(message(launch) == "ok");
      Buffer* const buffer = vector.buffer(other);
      std::vector<std::int32_t> seen(length);
      REQUIRE(message(buffer->copyout(std::as_writable_bytes(std::span(seen)))) == "ok");
      CHECK(seen == all(expected + 1));
      for (std::int32_t& element : seen) element += 10;
      REQUIRE(message(buffer->copyin(std::as_bytes(std::span(seen)))) == "ok");
    }
    expected += 11;
    CHECK(vector.location() == Location{Location::State::stale_cpu, other});
  }
  CHECK(rig.kernel_sees(vector) != all(expected));
  CHECK(vector.get(0).value_or(0) == expected);
  CHECK(host_sees(array) == all(expected));
}

TEST_CASE("attach when another device has the newest brings it home first", "[two_devices]") {
  Rig rig;
  const Device other = rig.another_device();
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  {
    auto launch = launching(other, out(vector));
    REQUIRE(message(launch) == "ok");
    REQUIRE(message(vector.buffer(other)->fill(std::byte{1})) == "ok");
  }
  REQUIRE(message(attach(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(0x01010101));
  CHECK(rig.kernel_sees(vector) == all(0x01010101));
  CHECK(vector.location() == Location{Location::State::both, rig.device});

  // A refusal leaves it where it was.
  Words more = Words::over(Array::over(array.writable_elements().subspan(1, 100)));
  {
    auto launch = launching(other, out(more));
    REQUIRE(message(launch) == "ok");
    REQUIRE(message(more.buffer(other)->fill(std::byte{2})) == "ok");
  }
  CHECK(cause(attach(more, rig.device)) == "alignment");
  CHECK(more.location() == Location{Location::State::gpu, other});
}

TEST_CASE("attach at any location that names another device", "[two_devices][copies]") {
  Rig rig;
  const state_table::Rig table{.first = rig.another_device(), .second = rig.device, .attach = {}};
  for (const Location::State state : state_table::states) {
    INFO(to_string(state));
    state_table::Subject subject(table);
    state_table::bring(table, subject.vector, state);
    REQUIRE(message(attach(subject.vector, rig.device)) == "ok");
    CHECK(subject.vector.location() == Location{Location::State::both, rig.device});
    const unsigned newest = state == Location::State::stale_gpu                                    ? 3
                            : state == Location::State::gpu || state == Location::State::stale_cpu ? 2
                                                                                                   : 1;
    CHECK(subject.host_sees() == state_table::all(newest));
    CHECK(state_table::Rig::device_sees(subject.vector, rig.device) == state_table::all(newest));
    REQUIRE(message(subject.vector.to_device(table.first)) == "ok");
    CHECK(state_table::Rig::device_sees(subject.vector, table.first) == state_table::all(newest));
  }
}

TEST_CASE("require_shared refuses a device that keeps a copy", "[policy]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  const bool shared = one_memory(rig.kind());
  CHECK(cause(attach(vector, rig.device, {.require_shared = true})) == (shared ? "ok" : "device_type"));
  if (!shared) {
    CHECK(message(attach(vector, rig.device, {.policy = host_ptr::Policy::copy, .require_shared = true})) ==
          "ok");
    CHECK(host_link(vector, rig.device)->kind == LinkKind::separate);
  }
}

TEST_CASE("where sharing is refused the policy may be copies", "[policy]") {
  Rig rig;
  const Array block = Rig::zeros(2048);
  const Array array = Array::over(block.writable_elements().subspan(1, 1000));
  Words vector = Words::over(array);
  REQUIRE(message(attach(vector, rig.device, {.policy = host_ptr::Policy::copy})) == "ok");
  CHECK(host_link(vector, rig.device)->kind == LinkKind::separate);
  write(array, 2);
  REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
  rig.run(rig.add, vector, 1);
  REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(3, 1000));
}

TEST_CASE("an empty array is attached without a call of the driver", "[zero][copies]") {
  Rig rig;
  auto none = Array::create(0);
  REQUIRE(message(none) == "ok");
  Rig::Gate gate(rig);
  gate.close(rig.queue());  // a call that waits would wait for ever
  auto vector = host_ptr::of_bigarray(rig.device, int32, *none);
  REQUIRE(message(vector) == "ok");
  CHECK(host_link(*vector, rig.device));
  CHECK(message(publish_host_writes(*vector, rig.device)) == "ok");
  CHECK(outcome(HostAccess<std::int32_t>::open(*vector, Access::write)) == "ok");
  CHECK(message(detach(*vector, rig.device)) == "ok");
}

TEST_CASE("an empty vector waits for nothing that runs on its device", "[zero][copies]") {
  Rig rig;
  const Device other = rig.another_device();
  const auto second = rig.another_queue();
  rig.register_queue(second);
  const Array array = Rig::zeros();
  Words parent = rig.attached(array);
  auto child = parent.sub_vector(0, 1024);
  REQUIRE(message(child) == "ok");
  Words alone = Words::over(Array::over(array.writable_elements().first(0)));
  auto device_only = Words::on_device(0, rig.device);
  REQUIRE(message(device_only) == "ok");
  Rig::Gate gate(rig);
  auto launch = launching(rig.device, inout(parent));
  REQUIRE(message(launch) == "ok");
  gate.close(rig.queue());
  gate.close(second);
  const Event done = rig.run_with_event(rig.put, parent, 5, rig.queue());
  launch->done(done);
  for (Words* const vector : {&alone, &*child}) {
    REQUIRE(message(attach(*vector, rig.device)) == "ok");
    for (const auto use : {&out<std::int32_t>, &inout<std::int32_t>}) {
      auto empty = launching(rig.device, use(*vector));
      REQUIRE(message(empty) == "ok");
      empty->done(done);
      CHECK(message(acquire_device_writes(*vector, rig.device)) == "ok");
      CHECK(message(publish_host_writes(*vector, rig.device)) == "ok");
      CHECK(message(vector->to_host(true)) == "ok");
      CHECK(message(vector->fill(1)) == "ok");
      CHECK(message(vector->to_device(other)) == "ok");
    }
    for (const Access how : {Access::read, Access::write, Access::overwrite})
      CHECK(outcome(HostAccess<std::int32_t>::open(*vector, how)) == "ok");
    CHECK(message(vector->sync()) == "ok");
    CHECK(vector->read()->empty());
    CHECK(vector->write()->empty());
    CHECK(message(detach(*vector, rig.device)) == "ok");
    CHECK(message(vector->free_all_buffers()) == "ok");
  }
  CHECK(message(device_only->to_device(other)) == "ok");
  CHECK(message(device_only->free_buffer(rig.device)) == "ok");
  // Nor do no bytes of one that is not empty.
  CHECK(message(publish_host_writes(parent, rig.device, 0, 64)) == "ok");
  CHECK(message(acquire_device_writes(parent, rig.device, 0, 64)) == "ok");
  CHECK(outcome(HostAccess<std::int32_t>::open(parent, Access::write, 0, 64)) == "ok");
  CHECK(parent.location().state == Location::State::stale_cpu);
  CHECK_FALSE(done.complete().value_or(true));
  gate.open();
  CHECK(parent.get(0).value_or(0) == 5);
}

TEST_CASE("pages are out of the host's reach while the device has the newest", "[.][protected]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = rig.attached(array, {.protect = true});
  write(array, 1);
  REQUIRE(message(publish_host_writes(vector, rig.device)) == "ok");
  auto launch = launching(rig.device, inout(vector));
  REQUIRE(message(launch) == "ok");
  rig.run(rig.put, vector, 2);
  launch->done();
  native::say("launched");
  native::say("read " + std::to_string(array.elements()[0]));
}

TEST_CASE("protection: an access without an acquire faults, with one it does not", "[protect]") {
  Rig rig;
  const Array array = Rig::zeros();
  Words vector = Words::over(array);
  if (const LinkKind kind = rig.kind(); kind == LinkKind::shared || kind == LinkKind::pageable) {
    const auto answer = attach(vector, rig.device, {.protect = true});
    REQUIRE_FALSE(answer);
    CHECK(std::get<Error>(answer.error()).code() == Errc::unsupported);
    CHECK(vector.buffer(rig.device) == nullptr);
    return;
  }
  const auto child = native::run_child("pages are out of the host's reach while the device has the newest");
  CAPTURE(child.output);
  CHECK(child.status != 0);
  CHECK(child.output.find("launched") != std::string::npos);
  CHECK(child.output.find("read ") == std::string::npos);

  REQUIRE(message(attach(vector, rig.device, {.protect = true})) == "ok");
  for (std::int32_t round = 1; round < 4; ++round) {
    auto launch = launching(rig.device, inout(vector));
    REQUIRE(message(launch) == "ok");
    rig.run(rig.add, vector, 1);
    launch->done();
    if (round == 3) {
      REQUIRE(message(acquire_device_writes(vector, rig.device, 4096, 0)) == "ok");
      CHECK(array.elements()[7] == 3);  // a part of it is open, too
    }
    if (round == 2) {
      const auto access = HostAccess<std::int32_t>::open(vector, Access::read, 4096, 4096);
      REQUIRE(message(access) == "ok");
      CHECK(access->elements()[3] == 2);
    } else {
      REQUIRE(message(acquire_device_writes(vector, rig.device)) == "ok");
      CHECK(host_sees(array) == all(round));
    }
  }
  auto part = Words::over(Array::over(array.writable_elements().first(16)));
  REQUIRE(message(detach(vector, rig.device)) == "ok");
  CHECK(host_sees(array) == all(3));
  const auto answer = attach(part, rig.device, {.protect = true});  // the page is not its own
  REQUIRE_FALSE(answer);
  CHECK(std::get<Error>(answer.error()).code() == Errc::unsupported);
}
