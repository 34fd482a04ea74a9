// SPDX-License-Identifier: MIT
// What the state table does not say: kinds of storage, bounds, failures, ends of life, launches.
#include <berth/adaptors/failing.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/host/allocator.hpp>
#include <berth/host_ptr/host_access.hpp>

#include <complex>
#include <memory>

#include "support/models.hpp"
#include "support/reports.hpp"
#include "support/state_table.hpp"
#include "support/toy_framework.hpp"

using namespace berth;
using device::Device;
using State = Location::State;

namespace {

struct Particle {
  float x;
  float y;
  std::int32_t charge;
  friend bool operator==(const Particle&, const Particle&) = default;
};

/// A device whose allocator can fail and counts.
struct Watched {
  Watched() : failing(upstream()), statistics(failing), device("watched", 0, "watched", pack(statistics)) {}
  static host::Allocator upstream() {
    auto allocator = host::Allocator::open();
    REQUIRE(message(allocator) == "ok");
    return *allocator;
  }
  FailingAllocator<host::Allocator> failing;
  StatisticsAllocator<FailingAllocator<host::Allocator>> statistics;
  Device device;
};

/// Lists no device and links no memory.
class Watching final : public device::Framework {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "watched"; }
  [[nodiscard]] Result<std::vector<Device>> devices() override { return std::vector<Device>(); }
};

template <class T>
std::span<T> on(const Vector<T>& vector, const Device& device) {
  const Buffer* const buffer = vector.buffer(device);
  REQUIRE(buffer != nullptr);
  const auto bytes = buffer->as<host::HostBuffer>()->bytes();
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

// Events of a model backend.
struct Done {
  bool complete = false;
  bool failed = false;
  int waits = 0;
  int references = 1;
  int lost_waits = 0;  ///< that fail, and tell nothing of the command
};
Done& done(void* native) { return *static_cast<Done*>(native); }
constexpr HandleKind done_kind{"model",
                               [](void* native) noexcept {
                                 ++done(native).references;
                                 return true;
                               },
                               [](void* native) noexcept { --done(native).references; },
                               [](void* native) noexcept -> Result<bool> {
                                 if (done(native).failed)
                                   return fail(Error(Errc::device_lost, "model").in("kernel"));
                                 return done(native).complete;
                               },
                               [](void* native) noexcept -> Result<void> {
                                 ++done(native).waits;
                                 if (done(native).waits <= done(native).lost_waits)
                                   return fail(Error(Errc::driver, "model").in("wait"));
                                 done(native).complete = true;
                                 if (done(native).failed)
                                   return fail(Error(Errc::driver, "model").in("wait"));
                                 return {};
                               }};
Event borrowed(Done& event) { return Event::borrow(done_kind, &event); }

}  // namespace

TEST_CASE("elements of the user's own type move like scalars") {
  const Device device = toy::device("toy");
  auto vector = Vector<Particle>::create(100);
  REQUIRE(message(vector) == "ok");
  CHECK(vector->core()->storage() == detail::VectorStorage::records);
  CHECK(vector->get(99).value_or(Particle{1, 1, 1}) == Particle{0, 0, 0});
  REQUIRE(message(vector->set(7, {1, 2, -3})) == "ok");
  REQUIRE(message(vector->to_device(device)) == "ok");
  CHECK(on(*vector, device)[7] == Particle{1, 2, -3});
  {
    auto launch = launching(device, inout(*vector));
    REQUIRE(message(launch) == "ok");
    on(*vector, device)[8].charge = 5;
  }
  CHECK(vector->get(8).value_or(Particle{}).charge == 5);
}

TEST_CASE("records over the caller's memory") {
  const Device device = toy::device("toy");
  std::vector<Particle> particles(10, {1, 1, 1});
  {
    auto vector = Vector<Particle>::over(std::span(particles));
    auto launch = launching(device, inout(vector));
    REQUIRE(message(launch) == "ok");
    on(vector, device)[3] = {4, 4, 4};
  }
  CHECK(particles[3] == Particle{4, 4, 4});  // the end brought it home
}

TEST_CASE("a device-only vector goes from device to device and never home") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  auto vector = Vector<float>::on_device(64, a);
  REQUIRE(message(vector) == "ok");
  CHECK(vector->location() == Location{State::gpu, a});
  {
    auto launch = launching(a, out(*vector));
    REQUIRE(message(launch) == "ok");
    std::ranges::fill(on(*vector, a), 1.5F);
  }
  REQUIRE(message(vector->to_device(b)) == "ok");
  CHECK(vector->location() == Location{State::gpu, b});
  CHECK(std::ranges::count(on(*vector, b), 1.5F) == 64);
  {
    auto launch = launching(a, inout(*vector));
    REQUIRE(message(launch) == "ok");
    on(*vector, a)[0] = 2;
  }
  CHECK(vector->location() == Location{State::gpu, a});

  CHECK(outcome(vector->get(0)) == "unsupported");
  CHECK(outcome(vector->set(0, 1)) == "unsupported");
  CHECK(outcome(vector->fill(1)) == "unsupported");
  CHECK(outcome(vector->read()) == "unsupported");
  CHECK(outcome(vector->to_host()) == "unsupported");
  CHECK(outcome(vector->sync()) == "unsupported");
  CHECK(outcome(vector->sub_vector(1, 0)) == "unsupported");
  CHECK(outcome(vector->free_buffer(a)) == "unsupported");  // nothing else holds the newest
  CHECK(outcome(vector->free_all_buffers()) == "unsupported");
  CHECK(on(*vector, a)[0] == 2);
  CHECK(outcome(vector->free_buffer(b)) == "ok");
  CHECK(outcome(Vector<double>::on_device(SIZE_MAX / 4, a)) == "invalid_size");
}

TEST_CASE("a device-only vector that moves keeps what an announced launch writes") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  auto vector = Vector<std::int32_t>::on_device(16, a);
  REQUIRE(message(vector) == "ok");
  auto launch = launching(a, inout(*vector));
  REQUIRE(message(launch) == "ok");
  REQUIRE(message(vector->to_device(b)) == "ok");
  const int way = GENERATE(0, 1, 2, 3);
  CAPTURE(way);
  std::ranges::fill(on(*vector, a), 7);
  if (way == 0) {
    REQUIRE(message(vector->to_device(a)) == "ok");
    CHECK(vector->location() == Location{State::gpu, a});
  } else if (way == 1) {
    REQUIRE(message(vector->to_device(b)) == "ok");
    CHECK(on(*vector, b)[3] == 7);
  } else if (way == 2) {
    CHECK(outcome(vector->free_buffer(a)) == "unsupported");
  } else {
    auto other = launching(b, inout(*vector));
    REQUIRE(message(other) == "ok");
    CHECK(on(*vector, b)[3] == 7);
    on(*vector, b)[3] = 8;
  }
  launch->done();
  REQUIRE(message(vector->to_device(a)) == "ok");
  CHECK(on(*vector, a)[0] == 7);
  CHECK(on(*vector, a)[3] == (way == 3 ? 8 : 7));
}

TEST_CASE("a device-only vector does not move under a launch that reads what is replaced") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  auto vector = Vector<std::int32_t>::on_device(16, a);
  REQUIRE(message(vector) == "ok");
  Done reading;
  auto launch = launching(a, in(*vector));
  REQUIRE(message(launch) == "ok");
  launch->done(borrowed(reading));
  REQUIRE(message(vector->to_device(b)) == "ok");
  static_cast<void>(launching(b, inout(*vector)));
  CHECK(reading.waits == 1);  // as the source of the first move
  Done again;
  auto second = launching(a, in(*vector));
  REQUIRE(message(second) == "ok");
  static_cast<void>(launching(b, inout(*vector)));
  second->done(borrowed(again));
  REQUIRE(message(vector->to_device(a)) == "ok");
  CHECK(again.waits == 1);
}

TEST_CASE("a vector made for a device has no buffer until it is needed") {
  const Device device = toy::device("toy");
  auto vector = Vector<float>::create(16, device);
  REQUIRE(message(vector) == "ok");
  CHECK(vector->location() == Location{State::stale_gpu, device});
  CHECK(vector->buffer(device) == nullptr);
  REQUIRE(message(vector->free_buffer(device)) == "ok");
  REQUIRE(message(vector->sync()) == "ok");
  CHECK(vector->location() == Location{State::both, device});
  CHECK(vector->buffer(device) != nullptr);
}

TEST_CASE("elements outside are out_of_range, and nothing is fetched for them") {
  const Device device = toy::device("toy");
  auto vector = Vector<std::int32_t>::create(4);
  REQUIRE(message(vector) == "ok");
  static_cast<void>(launching(device, inout(*vector)));
  CHECK(outcome(vector->get(4)) == "out_of_range");
  CHECK(outcome(vector->set(4, 1)) == "out_of_range");
  CHECK(outcome(vector->get(SIZE_MAX)) == "out_of_range");
  CHECK(outcome(vector->sub_vector(2, 3)) == "out_of_range");
  CHECK(outcome(vector->sub_vector(SIZE_MAX, 2)) == "out_of_range");
  CHECK(outcome(vector->sub_vector(0, 4)) == "ok");
  CHECK(vector->location() == Location{State::stale_cpu, device});
}

TEST_CASE("a moved-from vector answers invalid_argument") {
  const Device device = toy::device("toy");
  auto made = Vector<float>::create(4);
  REQUIRE(message(made) == "ok");
  Vector<float> vector = std::move(*made);
  Vector<float>& gone = *made;
  CHECK(gone.size() == 0);
  CHECK(gone.id() == 0);
  CHECK(vector.id() != 0);
  CHECK(gone.location() == Location{});
  CHECK(gone.buffer(device) == nullptr);
  CHECK(outcome(gone.get(0)) == "invalid_argument");
  CHECK(outcome(gone.set(0, 1)) == "invalid_argument");
  CHECK(outcome(gone.fill(0)) == "invalid_argument");
  CHECK(outcome(gone.to_device(device)) == "invalid_argument");
  CHECK(outcome(gone.to_host()) == "invalid_argument");
  CHECK(outcome(gone.sync()) == "invalid_argument");
  CHECK(outcome(gone.free_buffer(device)) == "invalid_argument");
  CHECK(outcome(gone.free_all_buffers()) == "invalid_argument");
  CHECK(outcome(gone.sub_vector(0, 0)) == "invalid_argument");
  CHECK(outcome(launching(device, in(gone))) == "invalid_argument");

  Vector<float>& self = vector;
  vector = std::move(self);
  CHECK(vector.size() == 4);
  Vector<float> other;
  swap(vector, other);
  CHECK(vector.size() == 0);
  CHECK(other.size() == 4);
}

TEST_CASE("an empty vector goes everywhere") {
  const Device device = toy::device("toy");
  auto vector = Vector<double>::create(0);
  REQUIRE(message(vector) == "ok");
  REQUIRE(message(vector->to_device(device)) == "ok");
  CHECK(outcome(launching(device, inout(*vector))) == "ok");
  CHECK(message(vector->to_host()) == "ok");
  CHECK(vector->read()->empty());
  CHECK(message(vector->fill(1)) == "ok");
  CHECK(message(vector->free_all_buffers()) == "ok");
}

TEST_CASE("a failed allocation leaves the vector as it was") {
  Watched watched;
  const Device other = toy::device("other");
  auto vector = Vector<std::int32_t>::create(100);
  REQUIRE(message(vector) == "ok");
  {
    auto launch = launching(other, inout(*vector));
    REQUIRE(message(launch) == "ok");
    std::ranges::fill(on(*vector, other), 3);
  }
  watched.failing.plan().fail_above(10);
  CHECK(outcome(vector->to_device(watched.device)) == "out_of_memory");
  CHECK(outcome(launching(watched.device, out(*vector))) == "out_of_memory");
  CHECK(vector->buffer(watched.device) == nullptr);
  CHECK(vector->get(99).value_or(0) == 3);
}

TEST_CASE("whatever call of the allocator fails, no buffer stays that was not there") {
  Reports reports;
  Watched watched;
  const Device other = toy::device("other");
  auto array = BigArray<std::int32_t>::create(100);
  REQUIRE(message(array) == "ok");
  const auto ways = std::to_array<bool (*)(Vector<std::int32_t>&, const Device&)>({
      [](auto& vector, const Device& device) { return vector.to_device(device).has_value(); },
      [](auto& vector, const Device& device) {
        return host_ptr::publish_host_writes(vector, device, 40, 40).has_value();
      },
      [](auto& vector, const Device& device) { return launching(device, inout(vector)).has_value(); },
      [](auto& vector, const Device& device) { return launching(device, out(vector)).has_value(); },
      [](auto& vector, const Device& device) {
        return host_ptr::attach(vector, device, {.policy = host_ptr::Policy::copy}).has_value();
      },
  });
  REQUIRE(message(device::register_framework(std::make_shared<Watching>())) == "ok");
  for (const auto& way : ways) {
    CAPTURE(&way - ways.data());
    for (std::uint64_t nth = 1;; ++nth) {
      CAPTURE(nth);
      auto vector = Vector<std::int32_t>::over(*array);
      {
        auto launch = launching(other, inout(vector));
        REQUIRE(message(launch) == "ok");
        std::ranges::fill(on(vector, other), 3);
      }
      const Location before = vector.location();
      watched.failing.plan().fail_nth(nth);
      const bool done = way(vector, watched.device);
      watched.failing.plan().clear();
      if (done) break;
      CHECK(vector.buffer(watched.device) == nullptr);
      CHECK(watched.statistics.statistics().bytes.current == 0);
      const Location after = vector.location();
      const bool publishes = &way == &ways[1];
      CHECK((after == before || after == Location{publishes ? State::stale_gpu : State::both, other}));
      if (&way == &ways.back()) CHECK(after == before);
      CHECK(vector.get(99).value_or(0) == 3);
      REQUIRE(nth < 20);
    }
  }
  device::unregister_framework("watched");
  static_cast<void>(reports.take());
}

TEST_CASE("what is published counts even when it does not get there") {
  toy::Framework framework;
  const Device other = toy::device("other");
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto vector = host_ptr::of_bigarray(framework.first, *array, {.protect = true});
  REQUIRE(state_table::message(vector) == "ok");
  const bool elsewhere = GENERATE(false, true);
  {
    auto launch = launching(elsewhere ? other : framework.first, inout(*vector));
    REQUIRE(message(launch) == "ok");
  }
  if (elsewhere) std::ranges::fill(array->writable_elements(), 5);  // past the vector
  framework.links->fail_publish = Error(Errc::driver, "toy").in("publish");
  REQUIRE_FALSE(host_ptr::publish_host_writes(*vector, framework.first));
  CHECK(vector->location().state == State::stale_gpu);
  CHECK(vector->get(3).value_or(9) == (elsewhere ? 5 : 0));
  framework.links->fail_publish.reset();
  REQUIRE(message(vector->to_device(framework.first)) == "ok");
  CHECK(on(*vector, framework.first)[3] == (elsewhere ? 5 : 0));
}

TEST_CASE("a launch that is refused leaves no buffer for what it would have written") {
  Watched watched;
  auto y = Vector<std::int32_t>::create(10);
  auto x = Vector<std::int32_t>::create(100);
  REQUIRE(message(x) == "ok");
  REQUIRE(message(y) == "ok");
  watched.failing.plan().fail_above(40);
  CHECK(outcome(launching(watched.device, out(*y), in(*x))) == "out_of_memory");
  CHECK(y->buffer(watched.device) == nullptr);
  CHECK(y->location() == Location{});
  watched.failing.plan().clear();
  CHECK(outcome(launching(watched.device, out(*y), in(*x))) == "ok");
}

TEST_CASE("buffers are freed with the vector, each once") {
  Watched watched;
  {
    auto vector = Vector<std::int32_t>::create(100);
    REQUIRE(message(vector) == "ok");
    for (int i = 0; i < 3; ++i) {
      REQUIRE(message(vector->to_device(watched.device)) == "ok");
      if (i < 2) REQUIRE(message(vector->free_buffer(watched.device)) == "ok");
    }
    CHECK(watched.statistics.statistics().bytes.current == 400);
  }
  CHECK(watched.statistics.statistics().bytes.current == 0);
  CHECK(watched.statistics.statistics().allocations.total == 3);
}

TEST_CASE("the end of a vector brings the newest home when somebody can still see the array") {
  const Device device = toy::device("toy");
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  {
    auto vector = Vector<std::int32_t>::over(*array);
    auto launch = launching(device, inout(vector));
    REQUIRE(message(launch) == "ok");
    std::ranges::fill(on(vector, device), 6);
  }
  CHECK(array->elements()[15] == 6);
  // A launch that outlives its vector is an end too.
  {
    auto vector = std::make_unique<Vector<std::int32_t>>(Vector<std::int32_t>::over(*array));
    auto launch = launching(device, inout(*vector));
    REQUIRE(message(launch) == "ok");
    const auto elements = on(*vector, device);
    vector.reset();
    std::ranges::fill(elements, 7);
  }
  CHECK(array->elements()[15] == 7);
}

TEST_CASE("an end brings the newest home although a relative is being read") {
  const Device device = toy::device("toy");
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto parent = Vector<std::int32_t>::over(*array);
  auto child = parent.sub_vector(8, 8);
  REQUIRE(message(child) == "ok");
  auto launch = launching(device, out(*child));
  REQUIRE(message(launch) == "ok");
  std::ranges::fill(on(*child, device), 4);
  const auto access = host_ptr::HostAccess<std::int32_t>::open(parent, Access::read);
  REQUIRE(message(access) == "ok");
  std::ranges::fill(on(*child, device), 5);
  launch->done();
  *child = Vector<std::int32_t>();
  CHECK(array->elements()[15] == 5);
}

TEST_CASE("an owner that keeps nothing alive does not pass for the last one") {
  const Device device = toy::device("toy");
  std::vector<std::int32_t> elements(16);
  {
    auto vector = Vector<std::int32_t>::over(BigArray<std::int32_t>::over(
        std::span(elements), std::shared_ptr<const void>(std::shared_ptr<void>(), elements.data())));
    auto launch = launching(device, inout(vector));
    REQUIRE(message(launch) == "ok");
    std::ranges::fill(on(vector, device), 6);
  }
  CHECK(elements[15] == 6);
}

TEST_CASE("an end that fails is reported") {
  Reports reports;
  toy::Framework framework;
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  {
    auto vector = host_ptr::of_bigarray(framework.first, *array);
    REQUIRE(state_table::message(vector) == "ok");
    static_cast<void>(launching(framework.first, inout(*vector)));
    framework.links->fail_acquire = Error(Errc::device_lost, "toy").in("acquire");
  }
  const auto told = reports.take();
  REQUIRE(told.size() == 1);
  CHECK(told.front() == "toy acquire: the device is lost");
  CHECK(framework.links->live == 0);
}

TEST_CASE("what cannot be brought home is not freed") {
  toy::Framework framework;
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto vector = host_ptr::of_bigarray(framework.first, *array);
  REQUIRE(state_table::message(vector) == "ok");
  {
    auto launch = launching(framework.first, inout(*vector));
    REQUIRE(message(launch) == "ok");
    std::ranges::fill(on(*vector, framework.first), 9);
  }
  framework.links->fail_acquire = Error(Errc::driver, "toy").in("acquire");
  CHECK(outcome(vector->free_buffer(framework.first)) == "driver");
  CHECK(outcome(vector->free_all_buffers()) == "driver");
  CHECK(outcome(vector->to_device(framework.second)) == "driver");
  CHECK(outcome(vector->set(0, 1)) == "driver");
  CHECK(outcome(vector->get(0)) == "driver");
  CHECK_FALSE(host_ptr::detach(*vector, framework.first));
  CHECK(vector->location() == Location{State::stale_cpu, framework.first});
  framework.links->fail_acquire.reset();
  CHECK(vector->get(0).value_or(0) == 9);

  framework.links->fail_publish = Error(Errc::driver, "toy").in("publish");
  REQUIRE(message(vector->set(0, 1)) == "ok");
  CHECK(outcome(vector->to_device(framework.first)) == "driver");
  CHECK(outcome(launching(framework.first, in(*vector))) == "driver");
  CHECK_FALSE(host_ptr::publish_host_writes(*vector, framework.first));
  CHECK(vector->location() == Location{State::stale_gpu, framework.first});
  CHECK(vector->get(0).value_or(0) == 1);
  framework.links->fail_publish.reset();
  REQUIRE(message(vector->to_device(framework.first)) == "ok");
  CHECK(on(*vector, framework.first)[0] == 1);
}

TEST_CASE("events of launches are waited for, and forgotten when they have ended") {
  const Device device = toy::device("toy");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  std::vector<Done> events(50);
  for (Done& event : events) {
    auto launch = launching(device, inout(*vector));
    REQUIRE(message(launch) == "ok");
    launch->done(borrowed(event));
    event.complete = true;
  }
  CHECK(events[3].references == 1);  // pruned
  Done running;
  {
    auto launch = launching(device, inout(*vector));
    REQUIRE(message(launch) == "ok");
    launch->done(borrowed(running));
  }
  REQUIRE(message(vector->to_host()) == "ok");
  CHECK(running.waits == 1);
  CHECK(running.references == 1);
}

TEST_CASE("a launch that failed is told once to who wants its results, and otherwise to the sink") {
  Reports reports;
  const Device device = toy::device("toy");
  auto x = Vector<std::int32_t>::create(16);
  auto y = Vector<std::int32_t>::create(16);
  REQUIRE(message(x) == "ok");
  REQUIRE(message(y) == "ok");
  Done failed{.failed = true};
  {
    auto launch = launching(device, in(*x), inout(*y));
    REQUIRE(message(launch) == "ok");
    launch->done(borrowed(failed));
  }
  CHECK(message(x->to_host(true)) == "ok");
  CHECK(reports.take().size() == 1);
  const auto read = y->get(0);
  REQUIRE(outcome(read) == "device_lost");  // the command's own error, not the wait's
  CHECK(outcome(y->get(0)) == "ok");
  CHECK(reports.take().empty());

  // New bytes make it history.
  {
    auto launch = launching(device, inout(*y));
    REQUIRE(message(launch) == "ok");
    launch->done(borrowed(failed));
  }
  CHECK(state_table::message(host_ptr::publish_host_writes(*y, device)) == "ok");
  CHECK(reports.take().size() == 1);
  CHECK(message(y->to_host(true)) == "ok");
}

TEST_CASE("a launch whose wait failed still runs, until a wait or the event itself says otherwise") {
  toy::Framework framework;
  const Device& device = framework.first;
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto vector = host_ptr::of_bigarray(device, *array);
  REQUIRE(state_table::message(vector) == "ok");
  const auto launch = [&](Done& event, const LaunchArgument& argument) {
    auto announced = launching(device, argument);
    REQUIRE(message(announced) == "ok");
    announced->done(borrowed(event));
  };
  Done writes{.lost_waits = 2};
  launch(writes, inout(*vector));
  CHECK(outcome(vector->to_host()) == "driver");
  CHECK(outcome(vector->get(0)) == "driver");
  CHECK(vector->location() == Location{State::stale_cpu, device});
  std::ranges::fill(on(*vector, device), 5);  // only now
  CHECK(vector->get(0).value_or(0) == 5);
  CHECK(writes.waits == 3);
  CHECK(writes.references == 1);

  Done reads{.lost_waits = 1};
  launch(reads, in(*vector));
  CHECK(outcome(vector->fill(6)) == "driver");
  CHECK(array->elements()[0] == 5);
  CHECK(message(vector->fill(6)) == "ok");
  CHECK(reads.waits == 2);

  Done ended{.complete = true, .lost_waits = 1};
  launch(ended, inout(*vector));
  CHECK(outcome(vector->to_host()) == "driver");
  CHECK(message(vector->to_host()) == "ok");
  CHECK(ended.waits == 1);
}

TEST_CASE("a launch whose results were replaced fails nobody") {
  Reports reports;
  const Device device = toy::device("toy");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  Done failed{.failed = true};
  const bool late = GENERATE(false, true);
  auto first = launching(device, inout(*vector));
  REQUIRE(message(first) == "ok");
  if (!late) first->done(borrowed(failed));
  Done good;
  auto second = launching(device, out(*vector));
  REQUIRE(message(second) == "ok");
  if (late) first->done(borrowed(failed));
  second->done(borrowed(good));
  CHECK(message(vector->to_host()) == "ok");
  CHECK(reports.take().size() == 1);
}

TEST_CASE("a launch that failed is told, in whatever order launches are done") {
  Reports reports;
  const Device device = toy::device("toy");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  Done failed{.failed = true};
  Done good;
  const bool hidden = GENERATE(false, true);
  auto first = launching(
      device, LaunchArgument{vector->core(), hidden ? detail::LaunchUse::out : detail::LaunchUse::inout});
  REQUIRE(message(first) == "ok");
  auto second = launching(
      device, LaunchArgument{vector->core(), hidden ? detail::LaunchUse::inout : detail::LaunchUse::out});
  REQUIRE(message(second) == "ok");
  if (hidden) {
    second->done(borrowed(failed));
    first->done(borrowed(good));
  } else {
    first->done(borrowed(failed));
    second->done();
  }
  CHECK(outcome(vector->to_host()) == (hidden ? "device_lost" : "ok"));
  CHECK(reports.take().size() == (hidden ? 0 : 1));
}

TEST_CASE("an event that its backend cannot wait for orders the device's queue") {
  Reports reports;
  models::Native native;
  // With an allocator that orders by events, and with one that knows none: then it is told, once.
  for (const bool orders : {true, false}) {
    const Device device = orders ? Device("toy", 0, "rich", pack(models::Rich<'a'>())) : toy::device("toy");
    auto vector = Vector<std::int32_t>::create(16);
    REQUIRE(message(vector) == "ok");
    auto launch = launching(device, inout(*vector));
    REQUIRE(message(launch) == "ok");
    launch->done(Event::borrow(models::event_kind, &native));
    CHECK(outcome(vector->to_host()) == (orders ? "ok" : "unsupported"));
    CHECK(message(vector->to_host()) == "ok");
    CHECK(message(vector->free_all_buffers()) == "ok");
  }
  CHECK(reports.take().empty());
}

TEST_CASE("what the host wrote after a launch was announced is newer, however late the launch is done") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  const auto use = GENERATE(detail::LaunchUse::in, detail::LaunchUse::out, detail::LaunchUse::inout);
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  const bool elsewhere = GENERATE(false, true);
  const bool looked = GENERATE(false, true);
  {
    auto launch = launching(a, LaunchArgument{vector->core(), use});
    REQUIRE(message(launch) == "ok");
    if (looked) REQUIRE(outcome(vector->get(1)) == "ok");
    std::ranges::fill(on(*vector, a), 4);
    REQUIRE(message(vector->set(0, 7)) == "ok");
    if (elsewhere) REQUIRE(message(vector->to_device(b)) == "ok");
  }
  CHECK(vector->location() == (elsewhere ? Location{State::both, b} : Location{State::stale_gpu, a}));
  CHECK(vector->get(0).value_or(0) == 7);
  CHECK(vector->get(1).value_or(0) == (use == detail::LaunchUse::in ? 0 : 4));
  REQUIRE(message(vector->to_device(a)) == "ok");
  CHECK(on(*vector, a)[0] == 7);
}

TEST_CASE("what only reads between the announcement and the kernel does not cost its results") {
  toy::Framework framework;
  const Device plain = toy::device("plain");
  const Device a = framework.first;
  const Device b = framework.second;
  const bool linked = GENERATE(false, true);
  const bool later = GENERATE(false, true);  // than the read, or earlier
  const int way = GENERATE(range(0, 8));
  CAPTURE(linked, later, way);
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto vector = Vector<std::int32_t>::over(*array);
  auto parts = vector.sub_vector(8, 8);
  REQUIRE(message(parts) == "ok");
  if (linked) REQUIRE(state_table::message(host_ptr::attach(vector, a)) == "ok");
  auto launch = launching(a, inout(vector));
  REQUIRE(message(launch) == "ok");
  if (!later) std::ranges::fill(on(vector, a), 7);
  const auto ok = [](const auto& result) { REQUIRE(state_table::message(result) == "ok"); };
  switch (way) {
    case 0:
      ok(vector.to_device(b));
      break;
    case 1:
      ok(launching(b, in(vector)));
      break;
    case 2:
      ok(vector.to_device(b));
      ok(vector.to_device(a));
      break;
    case 3:
      ok(parts->get(0));
      break;
    case 4:
      ok(launching(plain, in(*parts)));
      break;
    case 5:
      ok(parts->to_device(a));
      break;
    case 6:
      ok(launching(a, in(vector)));
      break;
    default:
      ok(vector.to_device(plain));
      ok(vector.free_buffer(plain));
      break;
  }
  if (later) std::ranges::fill(on(vector, a), 7);
  launch->done();
  CHECK(parts->get(0).value_or(0) == 7);
  CHECK(vector.get(0).value_or(0) == 7);
}

TEST_CASE("a look before the kernel costs none of its results, whatever comes before done") {
  toy::Framework framework;
  const Device a = framework.first;
  const Device b = framework.second;
  const bool linked = GENERATE(false, true);
  const int look = GENERATE(range(0, 4));
  const int way = GENERATE(range(0, 13));
  CAPTURE(linked, look, way);
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto vector = Vector<std::int32_t>::over(*array);
  auto part = vector.sub_vector(8, 8);
  REQUIRE(message(part) == "ok");
  if (linked) REQUIRE(state_table::message(host_ptr::attach(vector, a)) == "ok");
  auto launch = launching(a, inout(vector));
  REQUIRE(message(launch) == "ok");
  const auto ok = [](const auto& result) { REQUIRE(state_table::message(result) == "ok"); };
  if (look == 1) ok(vector.get(0));
  if (look == 2) ok(vector.to_device(b));
  if (look == 3) ok(part->to_device(b));
  std::ranges::fill(on(vector, a), 7);
  // One element and no more is written; 9 where it is.
  std::size_t written = 12;
  const auto write = [&] { array->writable_elements()[written] = 9; };
  bool writes = true;
  switch (way) {
    case 0:
      ok(vector.set(written, 9));
      break;
    case 1:
      ok(part->set(written - 8, 9));
      break;
    case 2:
      write();
      ok(host_ptr::publish_host_writes(vector, a, 4, 48));
      break;
    case 3:
      write();
      ok(host_ptr::publish_host_writes(vector, b, 4, 48));
      break;
    case 4:
      write();
      ok(host_ptr::publish_host_writes(*part, b, 4, 16));
      break;
    case 5: {
      auto other = launching(b, inout(vector));
      ok(other);
      on(vector, b)[written] = 9;
      break;
    }
    case 6: {
      auto other = launching(b, inout(*part));
      ok(other);
      on(*part, b)[written - 8] = 9;
      break;
    }
    case 7: {
      auto access = host_ptr::HostAccess<std::int32_t>::open(*part, Access::write, 4, 16);
      ok(access);
      access->writable_elements()[0] = 9;
      break;
    }
    case 8: {  // brings what is on the other device, where it is thought equal
      ok(vector.to_device(b));
      on(vector, b)[written] = 9;
      ok(host_ptr::acquire_device_writes(vector, b, 4, 48));
      break;
    }
    case 9: {
      ok(part->to_device(b));
      on(*part, b)[written - 8] = 9;
      ok(host_ptr::acquire_device_writes(*part, b, 4, 16));
      break;
    }
    case 10:
      ok(vector.free_buffer(a));
      writes = false;
      break;
    case 11:
      ok(vector.to_device(b));
      ok(vector.free_all_buffers());
      writes = false;
      break;
    default:
      ok(vector.to_device(b));
      CHECK(std::ranges::count(on(vector, b), 7) == 16);
      CHECK(vector.get(3).value_or(0) == 7);
      writes = false;
      break;
  }
  launch->done();
  ok(vector.to_host());
  ok(part->to_host());
  for (std::size_t i = 0; i < 16; ++i) {
    CAPTURE(i);
    CHECK(array->elements()[i] == (writes && i == written ? 9 : 7));
  }
  for (const Device& device : {a, b}) {
    ok(vector.to_device(device));
    CHECK(std::ranges::equal(on(vector, device), array->elements()));
  }
}

TEST_CASE("a launch that is done late takes nothing from a newer one elsewhere") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  auto parts = vector->sub_vector(8, 8);
  REQUIRE(message(parts) == "ok");
  const bool part = GENERATE(false, true);
  Vector<std::int32_t>& newer = part ? *parts : *vector;
  auto first = launching(a, inout(*vector));
  REQUIRE(message(first) == "ok");
  std::ranges::fill(on(*vector, a), 1);
  auto second = launching(b, inout(newer));
  REQUIRE(message(second) == "ok");
  REQUIRE(message(vector->to_device(a)) == "ok");
  first->done();
  for (std::int32_t& element : on(newer, b)) element += 10;
  second->done();
  CHECK(vector->get(15).value_or(0) == 11);
  CHECK(vector->get(0).value_or(0) == (part ? 1 : 11));
}

TEST_CASE("a call that fails takes no results from a relative") {
  toy::Framework framework;
  const Device plain = toy::device("plain");
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto vector = host_ptr::of_bigarray(framework.first, *array);
  REQUIRE(state_table::message(vector) == "ok");
  auto part = vector->sub_vector(8, 4);
  REQUIRE(message(part) == "ok");
  const bool acquires = GENERATE(false, true);
  Done running{.lost_waits = 1};
  {
    auto reading = launching(framework.first, in(*vector));
    REQUIRE(message(reading) == "ok");
    reading->done(borrowed(running));
  }
  auto launch = launching(plain, inout(*part));
  REQUIRE(message(launch) == "ok");
  if (acquires) {
    running.lost_waits = 0;
    REQUIRE(message(vector->to_device(framework.first)) == "ok");
    framework.links->fail_acquire = Error(Errc::driver, "toy").in("acquire");
  }
  std::ranges::fill(on(*part, plain), 7);
  if (acquires) {
    CHECK_FALSE(host_ptr::acquire_device_writes(*vector, framework.first, 4, 20));
    framework.links->fail_acquire.reset();
  } else {
    CHECK(outcome(vector->fill(3)) == "driver");
  }
  launch->done();
  CHECK(part->get(0).value_or(0) == 7);
  CHECK(part->get(7).value_or(0) == 7);
}

TEST_CASE("a guard for reading is not shared when it shows no longer the newest") {
  const Device device = toy::device("toy");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  const auto open = [&] { return host_ptr::HostAccess<std::int32_t>::open(*vector, Access::read); };
  auto launch = launching(device, inout(*vector));
  REQUIRE(message(launch) == "ok");
  {
    const auto first = open();
    REQUIRE(message(first) == "ok");
    CHECK(outcome(open()) == "ok");
    std::ranges::fill(on(*vector, device), 7);
    launch->done();
    CHECK(outcome(open()) == "mapped");
  }
  const auto again = open();
  REQUIRE(message(again) == "ok");
  CHECK(again->elements()[3] == 7);
}

TEST_CASE("a guard for reading is shared whatever is newest beside its range") {
  const Device device = toy::device("toy");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  auto part = vector->sub_vector(8, 8);
  REQUIRE(message(part) == "ok");
  const std::size_t first_byte = GENERATE(0, 16);  // beside the part, and into it
  const auto open = [&] {
    return host_ptr::HostAccess<std::int32_t>::open(*vector, Access::read, 32, first_byte);
  };
  auto launch = launching(device, inout(*part));
  REQUIRE(message(launch) == "ok");
  const auto first = open();
  REQUIRE(message(first) == "ok");
  launch->done();
  CHECK(outcome(open()) == (first_byte == 0 ? "ok" : "mapped"));
}

TEST_CASE("a vector without a named device names none later either") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  auto part = vector->sub_vector(8, 4);
  REQUIRE(message(part) == "ok");
  auto launch = launching(a, inout(*part));
  REQUIRE(message(launch) == "ok");
  REQUIRE(message(part->to_device(b)) == "ok");
  REQUIRE(message(part->free_buffer(b)) == "ok");
  CHECK(part->location() == Location{});
  REQUIRE(message(vector->fill(3)) == "ok");
  CHECK(part->location() == Location{});
  launch->done();
  CHECK(part->get(0).value_or(0) == 3);
}

TEST_CASE("what writes between the announcement and the kernel is newer than its results") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  auto vector = Vector<std::int32_t>::create(16);
  REQUIRE(message(vector) == "ok");
  const int way = GENERATE(range(0, 4));
  CAPTURE(way);
  auto launch = launching(a, inout(*vector));
  REQUIRE(message(launch) == "ok");
  if (way == 0) {
    auto other = launching(b, out(*vector));
    REQUIRE(message(other) == "ok");
    std::ranges::fill(on(*vector, b), 5);
  } else if (way == 1) {
    REQUIRE(message(vector->to_device(b)) == "ok");
    std::ranges::fill(on(*vector, b), 5);
    REQUIRE(state_table::message(host_ptr::acquire_device_writes(*vector, b)) == "ok");
  } else if (way == 2) {
    REQUIRE(message(vector->fill(5)) == "ok");
    REQUIRE(message(vector->to_device(b)) == "ok");
  } else {
    auto part = vector->sub_vector(16, 0);
    REQUIRE(message(part) == "ok");
    REQUIRE(message(vector->to_device(b)) == "ok");
    REQUIRE(message(part->fill(5)) == "ok");
  }
  std::ranges::fill(on(*vector, a), 7);
  launch->done();
  CHECK(vector->get(0).value_or(0) == 5);
}

TEST_CASE("a buffer that is freed and made again is not the launch's") {
  toy::Framework framework;
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto vector = host_ptr::of_bigarray(framework.first, *array);
  REQUIRE(state_table::message(vector) == "ok");
  auto launch = launching(framework.first, inout(*vector));
  REQUIRE(message(launch) == "ok");
  std::ranges::fill(on(*vector, framework.first), 7);
  REQUIRE(state_table::message(host_ptr::detach(*vector, framework.first)) == "ok");
  CHECK(array->elements()[3] == 7);
  REQUIRE(state_table::message(host_ptr::attach(*vector, framework.first)) == "ok");
  auto second = launching(framework.first, in(*vector));
  REQUIRE(message(second) == "ok");
  launch->done();
  const auto open = [&] { return outcome(host_ptr::HostAccess<std::int32_t>::open(*vector, Access::read)); };
  CHECK(open() == "invalid_argument");
  second->done();
  CHECK(open() == "ok");
  CHECK(vector->get(3).value_or(0) == 7);
}

TEST_CASE("a launch that is done late outdates nobody's newer results") {
  const Device a = toy::device("a");
  const Device b = toy::device("b");
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto parent = Vector<std::int32_t>::over(*array);
  auto child = parent.sub_vector(8, 8);
  REQUIRE(message(child) == "ok");
  {
    auto first = launching(a, inout(parent));
    REQUIRE(message(first) == "ok");
    std::ranges::fill(on(parent, a), 1);
    auto second = launching(b, inout(*child));
    REQUIRE(message(second) == "ok");
    for (std::int32_t& element : on(*child, b)) element += 10;
    first->done();
    CHECK(child->location() == Location{State::stale_cpu, b});
    second->done();
  }
  REQUIRE(message(parent.to_host()) == "ok");
  CHECK(std::ranges::count(array->elements().first(8), 1) == 8);
  CHECK(std::ranges::count(array->elements().subspan(8), 11) == 8);
}

TEST_CASE("what comes home unannounced outdates relatives, however it comes") {
  toy::Framework framework;
  const Device other = toy::device("other");
  auto array = BigArray<std::int32_t>::create(16);
  REQUIRE(message(array) == "ok");
  auto parent = host_ptr::of_bigarray(framework.first, *array);
  REQUIRE(state_table::message(parent) == "ok");
  auto child = parent->sub_vector(8, 8);
  REQUIRE(message(child) == "ok");
  const int way = GENERATE(0, 1, 2);
  REQUIRE(message(child->to_device(other)) == "ok");
  std::ranges::fill(on(*parent, framework.first), 3);
  if (way == 0) {
    CHECK(message(parent->to_host(true)) == "ok");
  } else if (way == 1) {
    CHECK(outcome(host_ptr::HostAccess<std::int32_t>::open(*parent, Access::read)) == "ok");
  } else {
    CHECK(state_table::message(host_ptr::acquire_device_writes(*parent, framework.first)) == "ok");
  }
  CHECK(array->elements()[15] == 3);
  REQUIRE(message(child->to_device(other)) == "ok");
  CHECK(std::ranges::count(on(*child, other), 3) == 8);
}

TEST_CASE("a device waits for its allocator and for every registered queue") {
  struct Queued {
    int waits = 0;
  };
  static constexpr HandleKind queue_kind{"model", nullptr, nullptr, nullptr,
                                         [](void* native) noexcept -> Result<void> {
                                           if (++static_cast<Queued*>(native)->waits > 1)
                                             return fail(Error(Errc::driver, "model").in("wait"));
                                           return {};
                                         }};
  Queued a;
  Queued b;
  Device device = toy::device("toy");
  REQUIRE(message(device.register_queue(Queue::borrow(queue_kind, &a))) == "ok");
  REQUIRE(message(device.register_queue(Queue::borrow(queue_kind, &b))) == "ok");
  CHECK(message(device.synchronize()) == "ok");
  CHECK(a.waits == 1);
  CHECK(b.waits == 1);
  CHECK(outcome(device.synchronize()) == "driver");
  CHECK(b.waits == 2);  // the failure of the first does not keep it from the second
  CHECK(outcome(device.synchronize_registered()) == "driver");
}

TEST_CASE("a queue whose backend cannot wait is waited for through the allocator") {
  models::Native native;
  Device device("toy", 0, "rich", pack(models::Rich<'a'>()));
  REQUIRE(message(device.register_queue(Queue::borrow(models::queue_kind, &native))) == "ok");
  CHECK(message(device.synchronize()) == "ok");
  Device poor = toy::device("toy");
  REQUIRE(message(poor.register_queue(Queue::borrow(models::queue_kind, &native))) == "ok");
  CHECK(outcome(poor.synchronize()) == "unsupported");
}
