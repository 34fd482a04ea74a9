// SPDX-License-Identifier: MIT
// What attach refuses and in which order, on a user's own framework and on the host itself.
#include <berth/host/framework.hpp>
#include <berth/host_ptr/host_access.hpp>
#include <berth/host_ptr/host_ptr.hpp>

#include <atomic>
#include <chrono>
#include <complex>
#include <cstdlib>
#include <functional>
#include <thread>

#include "support/state_table.hpp"
#include "support/toy_framework.hpp"

using namespace berth;
using namespace host_ptr;
using device::Device;
using device::LinkKind;
using state_table::message;

namespace {

template <class E, class T>
E error_of(const HostPtrResult<T>& result) {
  REQUIRE_FALSE(result);
  const E* const error = std::get_if<E>(&result.error());
  INFO(error_message(result.error()));
  REQUIRE(error != nullptr);
  return *error;
}

BigArray<float> array(std::size_t length = 1024) {
  auto made = BigArray<float>::create(length);
  REQUIRE(message(made) == "ok");
  return *made;
}

struct Record {
  float x;
};

}  // namespace

TEST_CASE("install and of_bigarray are attach with the array said") {
  toy::Framework framework;
  const BigArray<float> values = array();
  auto vector = Vector<float>::over(values);
  REQUIRE(message(install(vector, framework.first, values, float32)) == "ok");
  CHECK(host_link(vector, framework.first)->kind == LinkKind::shadow);
  CHECK(message(detach(vector, framework.first)) == "ok");
  REQUIRE(message(install(vector, framework.first, values)) == "ok");

  const BigArray<float> others = array();
  CHECK(error_of<NotBigarrayBacked>(install(vector, framework.second, others)).vector_id == vector.id());
  const auto part = BigArray<float>::over(values.writable_elements().first(512));
  CHECK(error_of<NotBigarrayBacked>(install(vector, framework.second, part)).vector_id == vector.id());

  auto made = of_bigarray(framework.first, float32, others);
  REQUIRE(message(made) == "ok");
  CHECK(made->location() == Location{Location::State::both, framework.first});
  CHECK(made->read()->data() == others.data());
  CHECK(error_of<Refused>(of_bigarray(framework.second, others)).reason.cause == Refusal::Cause::overlap);
  const auto numbers = BigArray<std::complex<double>>::create(8);
  REQUIRE(message(numbers) == "ok");
  CHECK(message(of_bigarray(framework.first, complex64, *numbers)) == "ok");
}

TEST_CASE("each error, with what it names") {
  toy::Framework framework;
  const Device stranger = toy::device("nobody");

  auto records = Vector<Record>::create(8);
  REQUIRE(message(records) == "ok");
  CHECK(error_of<NotBigarrayBacked>(attach(*records, framework.first)).vector_id == records->id());
  auto device_only = Vector<float>::on_device(8, framework.first);
  REQUIRE(message(device_only) == "ok");
  CHECK(error_of<NotBigarrayBacked>(attach(*device_only, framework.second)).vector_id == device_only->id());

  auto vector = Vector<float>::over(array());
  CHECK(error_of<UnknownFramework>(attach(vector, stranger)).framework == "nobody");
  REQUIRE(message(vector.to_device(framework.first)) == "ok");
  const auto exists = error_of<BufferExists>(attach(vector, framework.first));
  CHECK(exists.vector_id == vector.id());
  CHECK(exists.device == "toy 0");
  REQUIRE(message(vector.free_buffer(framework.first)) == "ok");
  REQUIRE(message(attach(vector, framework.first)) == "ok");
  error_of<BufferExists>(attach(vector, framework.first));

  framework.links->refuse = Error(Errc::device_lost, "toy").in("link");
  auto another = Vector<float>::over(array());
  CHECK(error_of<Error>(attach(another, framework.first)).code() == Errc::device_lost);
  CHECK(another.location() == Location{});

  Vector<float> gone;
  CHECK(error_of<Error>(attach(gone, framework.first)).code() == Errc::invalid_argument);
  CHECK(error_of<Error>(detach(gone, framework.first)).code() == Errc::invalid_argument);
  CHECK(error_of<Error>(publish_host_writes(gone, framework.first)).code() == Errc::invalid_argument);
  CHECK(error_of<Error>(acquire_device_writes(gone, framework.first)).code() == Errc::invalid_argument);
  CHECK_FALSE(host_link(gone, framework.first));
}

TEST_CASE("the checks come in order: storage, buffer, framework, memory") {
  toy::Framework framework;
  const Device stranger = toy::device("nobody");
  auto records = Vector<Record>::create(8);
  REQUIRE(message(records) == "ok");
  error_of<NotBigarrayBacked>(attach(*records, stranger));
  const BigArray<float> block = array();
  auto vector = Vector<float>::over(BigArray<float>::over(block.writable_elements().subspan(1)));
  REQUIRE(message(vector.to_device(stranger)) == "ok");
  error_of<BufferExists>(attach(vector, stranger));
  REQUIRE(message(vector.free_all_buffers()) == "ok");
  error_of<UnknownFramework>(attach(vector, stranger));
  CHECK(error_of<Refused>(attach(vector, framework.first)).reason.cause == Refusal::Cause::alignment);
}

TEST_CASE("a framework without a linker refuses as backend") {
  toy::Framework framework(false);
  auto vector = Vector<float>::over(array());
  const auto refused = error_of<Refused>(attach(vector, framework.first));
  CHECK(refused.device == "toy 0");
  CHECK(refused.reason.cause == Refusal::Cause::backend);
  REQUIRE(message(attach(vector, framework.first, {.policy = Policy::copy})) == "ok");
  CHECK(host_link(vector, framework.first)->kind == LinkKind::separate);
}

TEST_CASE("a framework that is unregistered lives on until its last link has gone") {
  auto framework = std::make_unique<toy::Framework>();
  const auto links = framework->links;
  const Device device = framework->first;
  const BigArray<float> values = array();
  auto vector = Vector<float>::over(values);
  REQUIRE(message(attach(vector, device)) == "ok");
  auto other = of_bigarray(device, array());
  REQUIRE(message(other) == "ok");
  framework.reset();
  CHECK(device::find_framework("toy") == nullptr);
  CHECK(links->live_at_end == -1);

  values.writable_elements()[3] = 5;
  REQUIRE(message(publish_host_writes(vector, device)) == "ok");
  {
    auto launch = launching(device, inout(vector));
    REQUIRE(message(launch) == "ok");
    REQUIRE(message(vector.buffer(device)->fill(std::byte{0})) == "ok");
  }
  const bool detached = GENERATE(true, false);
  if (detached) {
    REQUIRE(message(detach(vector, device)) == "ok");
    CHECK(error_of<UnknownFramework>(attach(vector, device)).framework == "toy");
  } else {
    vector = Vector<float>();
  }
  CHECK(values.elements()[3] == 0.0F);
  CHECK(links->live_at_end == -1);
  *other = Vector<float>();
  CHECK(links->live_at_end == 0);
}

TEST_CASE("what a linker says of the memory becomes a refusal, with its numbers") {
  toy::Framework framework;
  const BigArray<float> values = array();
  auto vector = Vector<float>::over(values);
  const auto refusal = [&](const Error& error) {
    framework.links->refuse = error;
    const Refusal reason = error_of<Refused>(attach(vector, framework.first)).reason;
    CHECK(reason.address == reinterpret_cast<std::uintptr_t>(values.data()));
    CHECK(reason.nbytes == values.nbytes());
    CHECK(vector.location() == Location{});
    CHECK(vector.buffer(framework.first) == nullptr);
    return reason;
  };
  using Cause = Refusal::Cause;
  CHECK(refusal(Error(Errc::unsupported, "toy").because("no such memory")).detail == "no such memory");
  CHECK(refusal(Error(Errc::unsupported, "toy")).cause == Cause::backend);
  CHECK(refusal(Error(Errc::misaligned, "toy").limited_to(65536)).limit == 65536);
  CHECK(refusal(Error(Errc::misaligned, "toy")).cause == Cause::alignment);
  CHECK(refusal(Error(Errc::exceeds_device_maximum, "toy").limited_to(16)).limit == 16);
  CHECK(refusal(Error(Errc::exceeds_device_maximum, "toy")).cause == Cause::size);
  CHECK(refusal(Error(Errc::invalid_size, "toy").limited_to(64)).cause == Cause::padding);
  const auto overlap = refusal(Error(Errc::overlap, "toy").at(4096).limited_to(64));
  CHECK(overlap.cause == Cause::overlap);
  CHECK(overlap.other_address == 4096);
  CHECK(overlap.limit == 64);

  auto constant = Vector<float>::over(BigArray<float>::read_only(values.elements()));
  framework.links->refuse = Error(Errc::unsupported, "toy");
  CHECK(error_of<Refused>(attach(constant, framework.first)).reason.cause == Cause::read_only);
  framework.links->refuse_probe = Error(Errc::unsupported, "toy").because("no memory at all");
  for (const bool require_shared : {false, true}) {
    const auto answer = attach(constant, framework.first, {.require_shared = require_shared});
    CHECK(error_of<Refused>(answer).reason.cause == Cause::backend);
  }
}

TEST_CASE("null with a length and a range that wraps are refused before the backend sees them") {
  toy::Framework framework;
  REQUIRE(message(device::register_framework(host::framework())) == "ok");
  const auto devices = host::framework()->devices();
  REQUIRE(message(devices) == "ok");
  auto null = Vector<float>::over(BigArray<float>::over(std::span<float>(static_cast<float*>(nullptr), 16)));
  auto* const last = reinterpret_cast<float*>(UINTPTR_MAX - 4095);  // NOLINT: never touched
  auto wraps = Vector<float>::over(BigArray<float>::over(std::span(last, 2048)));
  const auto check = [&](const Options& options) {
    for (const Device& device : {framework.first, devices->front()}) {
      const auto refused = error_of<Refused>(attach(null, device, options));
      CHECK(refused.reason.cause == Refusal::Cause::null);
      CHECK(refused.reason.nbytes == 64);
      const auto too_long = error_of<Refused>(attach(wraps, device, options));
      CHECK(too_long.reason.cause == Refusal::Cause::size);
      CHECK(too_long.reason.limit == 4095);
      for (auto* const vector : {&null, &wraps}) {
        CHECK(vector->location() == Location{});
        CHECK(vector->buffer(device) == nullptr);
      }
    }
  };
  check({});
  check({.lenient = true});
  check({.policy = Policy::copy});
  REQUIRE(::setenv("BERTH_HOST_PTR", "copy", 1) == 0);
  check({});
  REQUIRE(::unsetenv("BERTH_HOST_PTR") == 0);
  CHECK(framework.links->live == 0);
  device::unregister_framework("Native");
}

TEST_CASE("alignment is 64 and the element's, leniently the element's alone") {
  toy::Framework framework;
  const BigArray<float> block = array();
  for (const std::size_t first : {1U, 2U, 8U, 15U}) {
    auto vector = Vector<float>::over(BigArray<float>::over(block.writable_elements().subspan(first, 64)));
    CHECK(error_of<Refused>(attach(vector, framework.first)).reason.limit == 64);
    CHECK(message(attach(vector, framework.first, {.lenient = true})) == "ok");
  }
  auto aligned = Vector<float>::over(BigArray<float>::over(block.writable_elements().subspan(16, 64)));
  CHECK(message(attach(aligned, framework.first)) == "ok");
}

TEST_CASE("refusals and errors are sentences with the numbers and what would pass") {
  using Cause = Refusal::Cause;
  const auto says = [](const Refusal& refusal, const char* part) {
    INFO(refusal_message(refusal));
    CHECK(refusal_message(refusal).find(part) != std::string::npos);
  };
  says({.cause = Cause::alignment, .address = 0x1001, .nbytes = 8, .limit = 64, .detail = {}}, "0x1001");
  says({.cause = Cause::alignment, .address = 0x1001, .nbytes = 8, .limit = 64, .detail = {}}, "64 bytes");
  says({.cause = Cause::size, .nbytes = 100, .limit = 64, .detail = "reason"},
       "100 bytes, where the limit is 64 (reason)");
  says({.cause = Cause::overlap,
        .address = 0x40,
        .nbytes = 8,
        .limit = 32,
        .other_address = 0x20,
        .detail = {}},
       "32 bytes at 0x20");
  says({.cause = Cause::null, .nbytes = 8, .detail = {}}, "null");
  says({.cause = Cause::read_only, .detail = {}}, "read-only");
  says({.cause = Cause::backend, .detail = {}}, "backend");
  says({.cause = Cause::device_type, .detail = {}}, "share");
  says({.cause = Cause::padding, .nbytes = 100, .limit = 64, .detail = {}},
       "100 bytes are not a multiple of 64");
  for (const Cause cause : {Cause::padding, Cause::backend, Cause::device_type, Cause::null, Cause::alignment,
                            Cause::size, Cause::overlap, Cause::read_only}) {
    CHECK_FALSE(to_string(cause).empty());
    CHECK_FALSE(refusal_message({.cause = cause, .detail = {}}).empty());
  }
  CHECK(error_message(UnknownFramework{"Metal"}) == "no framework is registered as 'Metal'");
  CHECK(error_message(BufferExists{7, "GPU 0"}) == "vector 7 has a buffer on GPU 0 already; free it first");
  CHECK(error_message(NotBigarrayBacked{3}).find("vector 3") == 0);
  CHECK(error_message(Refused{"GPU 0", {.cause = Cause::read_only, .detail = {}}}) ==
        "GPU 0 refuses the host memory: the memory is read-only");
  CHECK(error_message(Error(Errc::device_lost, "toy").in("link")) == "toy link: the device is lost");
}

TEST_CASE("on the host the link is the memory itself, and claims nothing") {
  toy::Framework framework;
  REQUIRE(message(device::register_framework(host::framework())) == "ok");
  const auto devices = host::framework()->devices();
  REQUIRE(message(devices) == "ok");
  const Device native = devices->front();
  const BigArray<float> values = array(16);
  auto vector = of_bigarray(native, float32, values);
  REQUIRE(message(vector) == "ok");
  CHECK(host_link(*vector, native)->kind == LinkKind::same);
  const auto* const buffer = vector->buffer(native)->as<host::HostBuffer>();
  REQUIRE(buffer != nullptr);
  CHECK(buffer->data() == reinterpret_cast<const std::byte*>(values.data()));
  {
    auto launch = launching(native, inout(*vector));
    REQUIRE(message(launch) == "ok");
  }
  CHECK(vector->location() == Location{Location::State::both, native});  // nothing to be stale

  // Another device links it beside, and the two see each other's work in the order of the launches.
  REQUIRE(message(attach(*vector, framework.first)) == "ok");
  {
    auto launch = launching(framework.first, inout(*vector));
    REQUIRE(message(launch) == "ok");
    REQUIRE(message(vector->buffer(framework.first)->fill(std::byte{0})) == "ok");
  }
  {
    auto launch = launching(native, inout(*vector));
    REQUIRE(message(launch) == "ok");
    CHECK(values.elements()[3] == 0.0F);
    values.writable_elements()[3] = 5;
  }
  {
    auto launch = launching(framework.first, in(*vector));
    REQUIRE(message(launch) == "ok");
    const auto seen = vector->buffer(framework.first)->as<host::HostBuffer>()->bytes();
    CHECK(reinterpret_cast<const float*>(seen.data())[3] == 5.0F);
  }
  REQUIRE(message(detach(*vector, native)) == "ok");
  device::unregister_framework("Native");
}

namespace {

/// Work of the caller's own kind on the host, which runs late.
struct Task {
  explicit Task(std::function<void()> work)
      : thread([this, run = std::move(work)] {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          run();
          done = true;
          done.notify_all();
        }) {}
  [[nodiscard]] Event event() {
    static constexpr HandleKind kind{.backend = "pool",
                                     .retain = nullptr,
                                     .release = nullptr,
                                     .complete = [](void* native) noexcept -> Result<bool> {
                                       return static_cast<Task*>(native)->done.load();
                                     },
                                     .wait = [](void* native) noexcept -> Result<void> {
                                       static_cast<Task*>(native)->done.wait(false);
                                       return {};
                                     }};
    return Event::borrow(kind, this);
  }
  std::atomic<bool> done{false};
  std::jthread thread;
};

}  // namespace

TEST_CASE("work on the host that an event or a queue stands for is waited for by who needs it") {
  toy::Framework framework;
  REQUIRE(message(device::register_framework(host::framework())) == "ok");
  const auto devices = host::framework()->devices();
  REQUIRE(message(devices) == "ok");
  const BigArray<float> values = array(64);
  const int way = GENERATE(range(0, 6));
  const bool on_queue = GENERATE(false, true);
  CAPTURE(way, on_queue);
  Device native("Native", 7, "own threads", devices->front().allocator());
  auto vector = Vector<float>::over(values);
  auto part = vector.sub_vector(16, 0);
  REQUIRE(message(part) == "ok");
  REQUIRE(message(attach(vector, native)) == "ok");
  auto launch = launching(native, inout(vector));
  REQUIRE(message(launch) == "ok");
  Task task([&] { std::ranges::fill(values.writable_elements(), 7.0F); });
  static constexpr HandleKind queue{.backend = "pool",
                                    .retain = nullptr,
                                    .release = nullptr,
                                    .complete = nullptr,
                                    .wait = [](void* native_queue) noexcept -> Result<void> {
                                      static_cast<Task*>(native_queue)->done.wait(false);
                                      return {};
                                    }};
  if (on_queue) {
    REQUIRE(message(native.register_queue(Queue::borrow(queue, &task))) == "ok");
    launch->done();
  } else {
    launch->done(task.event());
  }
  const auto seen = [&](const Vector<float>& of) {
    const auto bytes = of.buffer(framework.first)->as<host::HostBuffer>()->bytes();
    return *reinterpret_cast<const float*>(bytes.data());
  };
  if (way == 0) {
    CHECK(vector.get(3).value_or(0) == 7.0F);
  } else if (way == 1) {
    const auto access = HostAccess<float>::open(vector, Access::read);
    REQUIRE(message(access) == "ok");
    CHECK(access->elements()[3] == 7.0F);
  } else if (way == 2) {
    REQUIRE(message(vector.to_device(framework.first)) == "ok");
    CHECK(seen(vector) == 7.0F);
  } else if (way == 3) {
    REQUIRE(message(attach(vector, framework.first)) == "ok");
    CHECK(seen(vector) == 7.0F);
  } else if (way == 4) {
    REQUIRE(message(part->to_device(framework.first)) == "ok");
    CHECK(seen(*part) == 7.0F);
  } else {
    REQUIRE(message(detach(vector, native)) == "ok");
    CHECK(values.elements()[3] == 7.0F);
  }
  device::unregister_framework("Native");
}

TEST_CASE("work on the host that reads the memory ends before the host or another device writes there") {
  toy::Framework framework;
  REQUIRE(message(device::register_framework(host::framework())) == "ok");
  const auto devices = host::framework()->devices();
  REQUIRE(message(devices) == "ok");
  const Device native = devices->front();
  const BigArray<float> values = array(64);
  const int way = GENERATE(range(0, 4));
  CAPTURE(way);
  auto vector = Vector<float>::over(values);
  auto part = vector.sub_vector(64, 0);
  REQUIRE(message(part) == "ok");
  Vector<float>& reader = way == 2 ? *part : vector;
  REQUIRE(message(attach(reader, native)) == "ok");
  REQUIRE(message(attach(vector, framework.first)) == "ok");
  auto launch = launching(native, in(reader));
  REQUIRE(message(launch) == "ok");
  float saw = -1;
  Task task([&] { saw = values.elements()[3]; });
  launch->done(task.event());
  if (way == 3) {
    {
      auto writes = launching(framework.first, out(vector));
      REQUIRE(message(writes) == "ok");
      std::ranges::fill(vector.buffer(framework.first)->as<host::HostBuffer>()->bytes(), std::byte{1});
    }
    REQUIRE(message(vector.to_host()) == "ok");
    CHECK(values.elements()[3] != 0.0F);
  } else {
    auto access = HostAccess<float>::open(vector, way == 0 ? Access::write : Access::overwrite);
    REQUIRE(message(access) == "ok");
    std::ranges::fill(access->writable_elements(), 5.0F);
  }
  CHECK(task.done.load());
  CHECK(saw == 0.0F);
  device::unregister_framework("Native");
}

TEST_CASE("what the host links of its own memory is in nobody's way, nor they in its") {
  toy::Framework framework;
  REQUIRE(message(device::register_framework(host::framework())) == "ok");
  const auto devices = host::framework()->devices();
  REQUIRE(message(devices) == "ok");
  const Device native = devices->front();
  const BigArray<float> values = array(64);
  const auto claimable = [&] { return outcome(HostRange::claim(std::as_bytes(values.elements()), "test")); };
  auto first = of_bigarray(native, values);
  auto second = of_bigarray(native, BigArray<float>::over(values.writable_elements().subspan(16, 16)));
  REQUIRE(message(first) == "ok");
  REQUIRE(message(second) == "ok");
  CHECK(claimable() == "ok");

  auto linked = of_bigarray(framework.first, values);
  REQUIRE(message(linked) == "ok");
  CHECK(claimable() == "overlap");
  CHECK(error_of<Refused>(attach(*second, framework.first)).reason.cause == Refusal::Cause::overlap);
  REQUIRE(message(detach(*first, native)) == "ok");
  CHECK(claimable() == "overlap");
  CHECK(message(attach(*first, native)) == "ok");
  auto third = of_bigarray(native, BigArray<float>::read_only(values.elements()));
  CHECK(message(third) == "ok");
  REQUIRE(message(detach(*linked, framework.first)) == "ok");
  CHECK(claimable() == "ok");
  device::unregister_framework("Native");
}

TEST_CASE("protection needs pages of the array's own and a device that does without them") {
  toy::Framework framework;
  const BigArray<float> values = array();
  auto vector = Vector<float>::over(values);
  framework.links->kind = LinkKind::shared;
  CHECK(error_of<Error>(attach(vector, framework.first, {.protect = true})).code() == Errc::unsupported);
  framework.links->kind = LinkKind::shadow;
  auto part = Vector<float>::over(BigArray<float>::over(values.writable_elements().first(1000)));
  CHECK(error_of<Error>(attach(part, framework.first, {.protect = true})).code() == Errc::unsupported);
  REQUIRE(message(attach(vector, framework.first, {.protect = true})) == "ok");
  {
    auto launch = launching(framework.first, inout(vector));
    REQUIRE(message(launch) == "ok");
    std::ranges::fill(vector.buffer(framework.first)->as<host::HostBuffer>()->bytes(), std::byte{0});
  }
  auto child = vector.sub_vector(16, 16);
  REQUIRE(message(child) == "ok");
  CHECK(child->get(0).value_or(1) == 0.0F);  // the parent came home, and its pages with it
  CHECK(values.elements()[0] == 0.0F);
}

TEST_CASE("what replaces every byte of a protected parent through a part gets at the pages") {
  toy::Framework framework;
  auto parent = Vector<float>::over(array());
  auto child = parent.sub_vector(parent.size(), 0);
  REQUIRE(message(child) == "ok");
  REQUIRE(message(attach(parent, framework.first, {.protect = true})) == "ok");
  for (const bool access : {false, true}) {
    REQUIRE(message(launching(framework.first, inout(parent))) == "ok");
    if (access) {
      auto open = HostAccess<float>::open(*child, Access::overwrite);
      REQUIRE(message(open) == "ok");
      std::ranges::fill(open->writable_elements(), 1.0F);
    } else {
      REQUIRE(message(child->fill(1.0F)) == "ok");
    }
    CHECK(parent.get(1023).value_or(0) == 1.0F);
  }
}

TEST_CASE("a launch that is done while the host has access protects no page under it") {
  toy::Framework framework;
  auto parent = Vector<float>::over(array());
  auto child = parent.sub_vector(16, 16);
  REQUIRE(message(child) == "ok");
  REQUIRE(message(attach(parent, framework.first, {.protect = true})) == "ok");
  auto launch = launching(framework.first, inout(parent));
  REQUIRE(message(launch) == "ok");
  auto access = HostAccess<float>::open(*child, Access::read);
  REQUIRE(message(access) == "ok");
  std::ranges::fill(parent.buffer(framework.first)->as<host::HostBuffer>()->bytes(), std::byte{0});
  launch->done();
  CHECK(parent.location().state == Location::State::stale_cpu);
  CHECK(access->elements()[0] == 0.0F);
  REQUIRE(message(access->close()) == "ok");
  CHECK(parent.get(16).value_or(1) == 0.0F);
}

TEST_CASE("a part is published to a device that lacks the rest only when nobody has access to that") {
  toy::Framework framework;
  auto vector = Vector<float>::over(array(64));
  REQUIRE(message(attach(vector, framework.first)) == "ok");
  {
    const auto access = HostAccess<float>::open(vector, Access::write, 16, 0);
    REQUIRE(message(access) == "ok");
    CHECK(message(publish_host_writes(vector, framework.first, 4, 64)) == "ok");
    CHECK(error_of<Error>(publish_host_writes(vector, framework.second, 4, 64)).code() == Errc::mapped);
  }
  CHECK(message(publish_host_writes(vector, framework.second, 4, 64)) == "ok");
  CHECK(vector.location() == Location{Location::State::both, framework.second});
}

TEST_CASE("what is written through one access is never published half by another") {
  toy::Framework framework;
  auto parent = Vector<float>::over(array(64));
  REQUIRE(message(attach(parent, framework.first)) == "ok");
  auto child = parent.sub_vector(32, 32);
  REQUIRE(message(child) == "ok");
  for (const Access how : {Access::read, Access::write, Access::overwrite}) {
    auto written = HostAccess<float>::open(*child, Access::write);
    REQUIRE(message(written) == "ok");
    CHECK(outcome(HostAccess<float>::open(parent, how, 16, 0)) == "mapped");
    std::ranges::fill(written->writable_elements(), 3.0F);
    REQUIRE(message(written->close()) == "ok");
    {
      auto access = HostAccess<float>::open(parent, how, 16, 0);
      REQUIRE(message(access) == "ok");
      if (how != Access::read) std::ranges::fill(access->writable_elements(), 2.0F);
    }
    auto launch = launching(framework.first, in(parent));
    REQUIRE(message(launch) == "ok");
    const auto seen = parent.buffer(framework.first)->as<host::HostBuffer>()->bytes();
    CHECK(reinterpret_cast<const float*>(seen.data())[63] == 3.0F);
    REQUIRE(message(child->fill(0)) == "ok");
  }
}

TEST_CASE("an access that ends badly loses neither what the host wrote nor what the device has beside it") {
  toy::Framework framework;
  const BigArray<float> values = array(64);
  auto vector = Vector<float>::over(values);
  REQUIRE(message(attach(vector, framework.first)) == "ok");
  const auto device_has = [&] {
    const auto bytes = vector.buffer(framework.first)->as<host::HostBuffer>()->bytes();
    return std::span(reinterpret_cast<float*>(bytes.data()), 64);
  };
  const bool home_fails = GENERATE(false, true);
  const std::size_t count = GENERATE(4U, 64U);
  {
    auto launch = launching(framework.first, inout(vector));
    REQUIRE(message(launch) == "ok");
    std::ranges::fill(device_has(), 9.0F);
  }
  auto access = HostAccess<float>::open(vector, Access::write, count * sizeof(float), 0);
  REQUIRE(message(access) == "ok");
  std::ranges::fill(access->writable_elements(), 2.0F);
  framework.links->fail_unmap = Error(Errc::driver, "toy").in("unmap");
  if (home_fails) framework.links->fail_acquire = Error(Errc::driver, "toy").in("acquire");
  CHECK(outcome(access->close()) == "driver");
  framework.links->fail_unmap.reset();
  framework.links->fail_acquire.reset();
  {
    auto launch = launching(framework.first, in(vector));
    REQUIRE(message(launch) == "ok");
    if (!home_fails || count == 64)
      CHECK(std::ranges::count(device_has().first(count), 2.0F) == static_cast<std::ptrdiff_t>(count));
    CHECK(std::ranges::count(device_has().subspan(count), 9.0F) == static_cast<std::ptrdiff_t>(64 - count));
  }
  REQUIRE(message(vector.free_all_buffers()) == "ok");
  CHECK(std::ranges::count(values.elements().subspan(count), 9.0F) ==
        static_cast<std::ptrdiff_t>(64 - count));
}

TEST_CASE("an access that ends badly leaves alone what others have mapped") {
  toy::Framework framework;
  const BigArray<float> values = array(64);
  auto vector = Vector<float>::over(values);
  REQUIRE(message(attach(vector, framework.first)) == "ok");
  {
    auto launch = launching(framework.first, inout(vector));
    REQUIRE(message(launch) == "ok");
    const auto bytes = vector.buffer(framework.first)->as<host::HostBuffer>()->bytes();
    std::fill_n(reinterpret_cast<float*>(bytes.data()), 64, 9.0F);
  }
  const auto open = [&](std::size_t count, std::size_t first) {
    auto access =
        HostAccess<float>::open(vector, Access::write, count * sizeof(float), first * sizeof(float));
    REQUIRE(message(access) == "ok");
    std::ranges::fill(access->writable_elements(), static_cast<float>(first + 20));
    return std::move(*access);
  };
  auto last = open(8, 56);
  auto failing = open(4, 8);
  auto behind = open(4, 12);
  auto first = open(2, 0);
  framework.links->fail_unmap = Error(Errc::driver, "toy").in("unmap");
  CHECK(outcome(failing.close()) == "driver");
  framework.links->fail_unmap.reset();
  for (auto* const access : {&last, &behind, &first}) {
    CHECK(access->elements().front() == access->elements().back());
    CHECK(access->elements().front() != 9.0F);
    REQUIRE(message(access->close()) == "ok");
  }
  REQUIRE(message(vector.free_all_buffers()) == "ok");
  for (std::size_t i = 0; i < 64; ++i) {
    CAPTURE(i);
    const float expected = i < 2               ? 20.0F
                           : i >= 8 && i < 12  ? 28.0F
                           : i >= 12 && i < 16 ? 32.0F
                           : i >= 56           ? 76.0F
                                               : 9.0F;
    CHECK(values.elements()[i] == expected);
  }
}

TEST_CASE("without a link an access is to the host's own storage") {
  const Device device = toy::device("toy");
  auto vector = Vector<float>::over(array(64));
  REQUIRE(message(vector.to_device(device)) == "ok");
  {
    auto access = HostAccess<float>::open(vector, Access::write, 16, 8);
    REQUIRE(message(access) == "ok");
    CHECK(access->elements().size() == 4);
    std::ranges::fill(access->writable_elements(), 2.0F);
    CHECK(outcome(launching(device, in(vector))) == "mapped");
    CHECK(vector.get(2).value_or(0) == 2.0F);
  }
  CHECK(vector.location() == Location{Location::State::stale_gpu, device});
  CHECK(outcome(launching(device, in(vector))) == "ok");

  const auto odd = HostAccess<float>::open(vector, Access::read, 3, 1);
  REQUIRE(message(odd) == "ok");
  CHECK(odd->bytes().size() == 3);
  CHECK(odd->elements().empty());
  CHECK(outcome(HostAccess<float>::open(vector, Access::read, 257, 0)) == "out_of_range");
  CHECK(outcome(HostAccess<float>::open(vector, Access::read, 2, SIZE_MAX)) == "out_of_range");
  CHECK(message(HostAccess<float>::open(vector, Access::write, 0, 256)) == "ok");

  auto records = Vector<Record>::create(8);
  REQUIRE(message(records) == "ok");
  CHECK(HostAccess<Record>::open(*records, Access::overwrite)->writable_elements().size() == 8);
  auto device_only = Vector<float>::on_device(8, device);
  REQUIRE(message(device_only) == "ok");
  CHECK(outcome(HostAccess<float>::open(*device_only, Access::read)) == "unsupported");
  Vector<float> gone;
  CHECK(outcome(HostAccess<float>::open(gone, Access::read)) == "invalid_argument");
}
