// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/device/device.hpp>
#include <berth/host/allocator.hpp>
#include <berth/host/framework.hpp>

#include <barrier>
#include <thread>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"

using namespace berth;
using device::Device;

TEST_CASE("a device tells what it was made of") {
  const PackedAllocator allocator = pack(models::Rich<'a'>());
  const Device device("toy", 3, "third", allocator);
  CHECK(device.framework() == "toy");
  CHECK(device.index() == 3);
  CHECK(device.name() == "third");
  CHECK(device.allocator() == allocator);
  CHECK(device.queues().empty());
}

TEST_CASE("copies are the same device, an equal one is another") {
  models::Native queue;
  const PackedAllocator allocator = pack(models::Rich<'a'>());
  const Device device("toy", 0, "first", allocator);
  Device copy = device;
  const Device equal("toy", 0, "first", allocator);
  CHECK(copy == device);
  CHECK(equal != device);

  REQUIRE(message(copy.register_queue(Queue::borrow(models::queue_kind, &queue))) == "ok");
  CHECK(device.queues().size() == 1);
  CHECK(equal.queues().empty());
}

TEST_CASE("queues are registered once each, in order, and held") {
  models::Native a;
  models::Native b;
  {
    Device device("toy", 0, "first", pack(models::Rich<'a'>()));
    const Queue queue_a = Queue::borrow(models::queue_kind, &a);
    const Queue queue_b = Queue::borrow(models::queue_kind, &b);
    REQUIRE(message(device.register_queue(queue_b)) == "ok");
    REQUIRE(message(device.register_queue(queue_a)) == "ok");
    REQUIRE(message(device.register_queue(queue_b)) == "ok");
    REQUIRE(message(device.register_queue(queue_a)) == "ok");
    CHECK(device.queues() == std::vector{queue_b, queue_a});
    CHECK(a.references == 3);
    CHECK(b.references == 3);
  }
  CHECK(a.references == 1);
  CHECK(b.references == 1);
}

TEST_CASE("a queue that is unregistered is let go of, and waited for no more") {
  models::Native a;
  models::Native b;
  Device device("toy", 0, "first", pack(models::Rich<'a'>()));
  const Queue queue_a = Queue::borrow(models::queue_kind, &a);
  const Queue queue_b = Queue::borrow(models::queue_kind, &b);
  CHECK_FALSE(device.unregister_queue(queue_a));
  REQUIRE(message(device.register_queue(queue_a)) == "ok");
  REQUIRE(message(device.register_queue(queue_b)) == "ok");
  CHECK(device.unregister_queue(queue_a));
  CHECK_FALSE(device.unregister_queue(queue_a));
  CHECK_FALSE(device.unregister_queue(Queue()));
  CHECK(device.queues() == std::vector{queue_b});
  CHECK(a.references == 2);
  REQUIRE(message(device.register_queue(queue_a)) == "ok");
  CHECK(device.queues() == std::vector{queue_b, queue_a});
}

namespace {

/// A queue whose backend refuses more references, and says so.
constexpr HandleKind refusing_kind{"model",
                                   [](void* native) noexcept {
                                     if (!*static_cast<bool*>(native)) return true;
                                     report(Error(Errc::driver, "model").in("retain"));
                                     return false;
                                   },
                                   [](void*) noexcept {}};

}  // namespace

TEST_CASE("the sink may ask a device for its queues, whatever it is told of") {
  Device device("toy", 0, "first", pack(models::Rich<'a'>()));
  bool refuses = false;
  REQUIRE(message(device.register_queue(Queue::borrow(refusing_kind, &refuses))) == "ok");
  struct Asking {
    const Device& device;
    bool& refuses;
    std::size_t seen = 0;
  } asking{device, refuses};
  set_diagnostic_sink(
      [](const Error&, void* context) noexcept {
        auto& asks = *static_cast<Asking*>(context);
        asks.refuses = false;
        asks.seen = asks.device.queues().size();
      },
      &asking);
  refuses = true;
  static_cast<void>(device.queues());
  set_diagnostic_sink(nullptr);
  CHECK_FALSE(refuses);
  CHECK(asking.seen == 1);
}

TEST_CASE("an empty queue is invalid_argument") {
  Device device("toy", 0, "first", pack(models::Rich<'a'>()));
  CHECK(outcome(device.register_queue(Queue())) == "invalid_argument");
  CHECK(device.queues().empty());
}

TEST_CASE("threads may register queues") {
  constexpr int threads = 8;
  std::vector<models::Native> natives(16);
  Device device("toy", 0, "first", pack(models::Rich<'a'>()));
  std::barrier start(threads);
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, mine = device]() mutable {
        start.arrive_and_wait();
        for (models::Native& native : natives) {
          static_cast<void>(mine.register_queue(Queue::borrow(models::queue_kind, &native)).has_value());
          static_cast<void>(mine.queues());
        }
      });
    }
  }
  CHECK(device.queues().size() == natives.size());
}

TEST_CASE("the Native framework is one device, the same every time") {
  const auto framework = host::framework();
  REQUIRE(framework != nullptr);
  CHECK(host::framework() == framework);
  CHECK(framework->name() == "Native");
  const auto devices = framework->devices();
  REQUIRE(message(devices) == "ok");
  REQUIRE(devices->size() == 1);
  const auto again = framework->devices();
  REQUIRE(message(again) == "ok");
  CHECK(*again == *devices);

  const Device& device = devices->front();
  CHECK(device.framework() == "Native");
  CHECK(device.index() == 0);
  CHECK_FALSE(device.name().empty());
  REQUIRE(device.allocator().unpack<host::Allocator>() != nullptr);
  auto buffer = Buffer::create(device.allocator(), 100, {.zero = true});
  REQUIRE(message(buffer) == "ok");
  CHECK(buffer->as<host::HostBuffer>()->bytes()[99] == std::byte{0});
}

TEST_CASE("a device keeps its allocator") {
  models::Rich<'a'> model;
  {
    Device device("toy", 0, "first", pack(model));
    auto buffer = Buffer::create(device.allocator(), 10);
    REQUIRE(message(buffer) == "ok");
    CHECK(model.state().live_blocks() == 1);
    device = Device("toy", 1, "second", pack(models::Rich<'a'>()));
    CHECK(message(buffer->fill(std::byte{1})) == "ok");
  }
  CHECK(model.state().live_blocks() == 0);
}
