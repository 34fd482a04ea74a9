// SPDX-License-Identifier: MIT
#include <berth/adaptors/failing.hpp>
#include <berth/core/buffer.hpp>

#include <functional>
#include <string>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"

using namespace berth;
using Upstream = models::Rich<'a'>;
using Failing = FailingAllocator<Upstream>;
using Buf = models::RichBuffer<'a'>;

namespace {

Buf allocated(Failing& failing, std::size_t nbytes) {
  auto buf = failing.alloc(nbytes, {});
  REQUIRE(message(buf) == "ok");
  return *buf;
}

struct Operation {
  const char* name;
  std::function<std::string()> call;
};

/// Every operation that can fail, once, on one buffer.
struct Fixture {
  Upstream upstream;
  Failing failing{upstream};
  Buf a = allocated(failing, 64);
  Buf b = allocated(failing, 64);
  models::Native native_queue;
  Queue queue = Queue::borrow(models::queue_kind, &native_queue);
  Event event = Event::borrow(models::event_kind, &upstream.state().event);
  models::TemporaryFile file;
  std::vector<std::byte> bytes = std::vector<std::byte>(64);
  std::vector<Operation> operations{
      {"copyin", [this] { return outcome(failing.copyin(a, bytes)); }},
      {"copyout", [this] { return outcome(failing.copyout(bytes, a)); }},
      {"addr", [this] { return outcome(failing.addr(a)); }},
      {"synchronize", [this] { return outcome(failing.synchronize()); }},
      {"offset", [this] { return outcome(failing.offset(a, 1, 1)); }},
      {"transfer", [this] { return outcome(failing.transfer(a, b, 64)); }},
      {"copy_from_disk", [this] { return outcome(failing.copy_from_disk(a, {file.fd(), 0, 64}, 64)); }},
      {"extent", [this] { return outcome(failing.extent(a)); }},
      {"fill", [this] { return outcome(failing.fill(a, std::byte{1})); }},
      {"map", [this] { return outcome(failing.map(a, Access::read, 1, 0)); }},
      {"on", [this] { return outcome(failing.on(queue)); }},
      {"record_use", [this] { return outcome(failing.record_use(a, queue)); }},
      {"record", [this] { return outcome(failing.record()); }},
      {"wait", [this] { return outcome(failing.wait(event)); }},
      {"alloc",
       [this] {
         auto buf = failing.alloc(16, {});
         if (buf) failing.free(*buf, 16, {});
         return outcome(buf);
       }},
  };

  Fixture() {
    file.write(bytes, file.grow(64));
    failing.plan().clear();
    static_cast<void>(upstream.state().calls());
  }
  ~Fixture() {
    failing.free(a, 64, {});
    failing.free(b, 64, {});
  }
  Fixture(const Fixture&) = delete;
};

}  // namespace

TEST_CASE("without a plan everything passes and is counted") {
  Fixture fixture;
  const std::uint64_t before = fixture.failing.plan().calls();
  std::uint64_t made = 0;
  for (const Operation& operation : fixture.operations) {
    CAPTURE(operation.name);
    CHECK(operation.call() == "ok");
    CHECK(fixture.failing.plan().calls() == before + ++made);
  }
  CHECK(fixture.failing.plan().refused() == 0);
}

TEST_CASE("each operation can be refused, and does not reach upstream") {
  Fixture fixture;
  std::uint64_t refused = 0;
  for (const Operation& operation : fixture.operations) {
    for (const Errc code : {Errc::out_of_memory, Errc::device_lost, Errc::io}) {
      CAPTURE(operation.name);
      fixture.failing.plan().fail_nth(1, code);
      static_cast<void>(fixture.upstream.state().calls());
      CHECK(operation.call() == std::string(to_string(code)));
      CHECK(fixture.upstream.state().calls().empty());
      CHECK(fixture.failing.plan().refused() == ++refused);
      CHECK(operation.call() == "ok");  // once
      CHECK(fixture.failing.plan().refused() == refused);
      CHECK(fixture.upstream.state().calls().contains(operation.name));
    }
  }
}

TEST_CASE("the nth call is counted from now, over every operation") {
  Fixture fixture;
  for (std::size_t nth = 1; nth <= fixture.operations.size(); ++nth) {
    CAPTURE(nth);
    fixture.failing.plan().fail_nth(nth, Errc::device_lost);
    for (std::size_t i = 1; i <= fixture.operations.size(); ++i) {
      CHECK(fixture.operations[i - 1].call() == (i == nth ? "device_lost" : "ok"));
    }
  }
}

TEST_CASE("a refusal says so") {
  Fixture fixture;
  fixture.failing.plan().fail_nth(1);
  const auto refused = fixture.failing.alloc(123, {});
  REQUIRE(outcome(refused) == "out_of_memory");
  CHECK(refused.error().backend() == "failing");
  CHECK(refused.error().call() == "alloc");
  CHECK(refused.error().asked() == 123U);
  CHECK(refused.error().reason() == "told to fail");
}

TEST_CASE("allocations above a size are refused, and nothing else") {
  Fixture fixture;
  fixture.failing.plan().fail_above(15, Errc::exceeds_device_maximum);
  static_cast<void>(fixture.upstream.state().calls());
  for (int i = 0; i < 2; ++i) {
    CHECK(outcome(fixture.failing.alloc(16, {})) == "exceeds_device_maximum");
    CHECK(outcome(fixture.failing.alloc(SIZE_MAX, {})) == "exceeds_device_maximum");
  }
  CHECK(fixture.upstream.state().calls().empty());
  CHECK(fixture.failing.plan().refused() == 4);
  fixture.failing.free(allocated(fixture.failing, 15), 15, {});
  CHECK(outcome(fixture.failing.copyin(fixture.a, fixture.bytes)) == "ok");
  CHECK(outcome(fixture.failing.offset(fixture.a, 64, 0)) == "ok");

  // The nth call keeps its own code.
  fixture.failing.plan().fail_nth(1, Errc::device_lost);
  CHECK(outcome(fixture.failing.alloc(16, {})) == "device_lost");
  CHECK(outcome(fixture.failing.alloc(16, {})) == "exceeds_device_maximum");

  fixture.failing.plan().clear();
  fixture.failing.free(allocated(fixture.failing, 16), 16, {});
}

TEST_CASE("clear forgets the nth call too") {
  Fixture fixture;
  fixture.failing.plan().fail_nth(1);
  fixture.failing.plan().clear();
  for (const Operation& operation : fixture.operations) CHECK(operation.call() == "ok");
}

TEST_CASE("free is never refused nor counted") {
  Fixture fixture;
  const Buf buf = allocated(fixture.failing, 10);
  const std::uint64_t calls = fixture.failing.plan().calls();
  fixture.failing.plan().fail_nth(1);
  static_cast<void>(fixture.upstream.state().calls());
  fixture.failing.free(buf, 10, {});
  CHECK(fixture.failing.plan().calls() == calls);
  CHECK(fixture.upstream.state().calls() == models::Counts{{"free", 1}});
  CHECK(outcome(fixture.failing.synchronize()) == "out_of_memory");
}

TEST_CASE("copies, handles on other queues and the plan that a test keeps are one") {
  models::Native native_queue;
  const auto plan = std::make_shared<FailurePlan>();
  Failing failing(Upstream(), plan);
  CHECK(&failing.plan() == plan.get());
  Failing copy = failing;
  auto handle = failing.on(Queue::borrow(models::queue_kind, &native_queue));
  REQUIRE(message(handle) == "ok");
  CHECK(plan->calls() == 1);
  plan->fail_nth(2, Errc::io);
  CHECK(outcome(copy.synchronize()) == "ok");
  CHECK(outcome(handle->synchronize()) == "io");
  CHECK(outcome(failing.synchronize()) == "ok");
  CHECK(plan->calls() == 4);
  CHECK(plan->refused() == 1);

  const PackedAllocator packed = pack(failing);
  plan->fail_nth(1, Errc::device_lost);
  CHECK(outcome(Buffer::create(packed, 10)) == "device_lost");
  CHECK(outcome(Buffer::create(packed, 10)) == "ok");
}
