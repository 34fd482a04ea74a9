// SPDX-License-Identifier: MIT
// Order on queues and between them. Producers are held back by gates, so that a missing wait shows every
// time.
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/queue.hpp>

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "support/opencl_fixture.hpp"
#include "support/scale.hpp"

using namespace berth;
using namespace std::chrono_literals;
using native::property;
using native::references;
using opencl::ClBuffer;

namespace {

constexpr std::size_t nbytes = 4096;

bool no_retain(void*) noexcept { return true; }
void no_release(void*) noexcept {}
constexpr HandleKind foreign_queue{"other", no_retain, no_release};
constexpr HandleKind foreign_event{"other", no_retain, no_release};

/// Two instances over one context, each on a queue of its own.
struct Pair {
  Pair()
      : second_queue(first.another_queue()),
        second(borrowed()),
        a(allocated(first.allocator)),
        b(allocated(second)) {
    REQUIRE(message(first.allocator.fill(a, std::byte{0xA0})) == "ok");
    REQUIRE(message(second.fill(b, std::byte{0xB0})) == "ok");
    REQUIRE(message(first.allocator.synchronize()) == "ok");
    REQUIRE(message(second.synchronize()) == "ok");
  }
  ~Pair() {
    first.allocator.free(a, nbytes);
    second.free(b, nbytes);
  }
  Pair(const Pair&) = delete;

  native::Stream first;
  native::Owned<cl_command_queue> second_queue;
  opencl::Allocator second;
  ClBuffer a;
  ClBuffer b;

 private:
  opencl::Allocator borrowed() {
    auto made = opencl::Allocator::borrow(first.context, second_queue);
    REQUIRE(message(made) == "ok");
    return *made;
  }
  static ClBuffer allocated(opencl::Allocator& allocator) {
    auto made = allocator.alloc(nbytes);
    REQUIRE(message(made) == "ok");
    return *made;
  }
};

bool all(std::span<const std::byte> bytes, unsigned value) {
  return std::ranges::count(bytes, static_cast<std::byte>(value)) == std::ssize(bytes);
}

ClBuffer view(opencl::Allocator& allocator, const ClBuffer& buf, std::size_t size, std::size_t byte_offset) {
  auto made = allocator.offset(buf, size, byte_offset);
  REQUIRE(message(made) == "ok");
  return *made;
}

}  // namespace

// Transfer.

TEST_CASE("transfer within an instance") {
  Pair pair;
  opencl::Allocator& allocator = pair.first.allocator;
  const auto bytes = native::pattern(nbytes);
  REQUIRE(message(allocator.copyin(pair.a, bytes)) == "ok");
  auto dest = allocator.alloc(nbytes);
  REQUIRE(message(dest) == "ok");
  REQUIRE(message(allocator.fill(*dest, std::byte{1})) == "ok");
  REQUIRE(message(allocator.transfer(view(allocator, *dest, 1000, 501), view(allocator, pair.a, 999, 77),
                                     999)) == "ok");
  auto expected = std::vector<std::byte>(nbytes, std::byte{1});
  std::copy_n(bytes.begin() + 77, 999, expected.begin() + 501);
  CHECK(native::content(allocator, *dest) == expected);
  allocator.free(std::move(*dest), nbytes);
}

TEST_CASE("transfer is queued: it does not wait for the work before it") {
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  gate.close(pair.second_queue);
  REQUIRE(message(pair.first.allocator.transfer(pair.a, pair.b, nbytes)) == "ok");
  const auto after = native::marker(pair.first.queue);
  CHECK(native::pending(after));
  gate.open();
  CHECK(all(native::content(pair.first.allocator, pair.a), 0xB0));
}

TEST_CASE("transfer comes after earlier work on the source's queue") {
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.second_queue);
  REQUIRE(message(pair.second.fill(pair.b, std::byte{0xB1})) == "ok");
  REQUIRE(message(pair.first.allocator.transfer(pair.a, pair.b, nbytes)) == "ok");
  const auto copied = native::marker(pair.first.queue);
  std::this_thread::sleep_for(30ms);
  CHECK(native::pending(copied));
  gate.open();
  CHECK(all(native::content(pair.first.allocator, pair.a), 0xB1));
}

TEST_CASE("transfer comes after earlier work on the destination's queue") {
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  REQUIRE(message(pair.first.allocator.fill(pair.a, std::byte{0xA1})) == "ok");
  REQUIRE(message(pair.first.allocator.transfer(pair.a, pair.b, nbytes / 2)) == "ok");
  gate.open();
  const auto seen = native::content(pair.first.allocator, pair.a);
  CHECK(all(std::span(seen).first(nbytes / 2), 0xB0));
  CHECK(all(std::span(seen).subspan(nbytes / 2), 0xA1));
}

TEST_CASE("later work on the destination's queue comes after transfer") {
  Pair pair;
  auto kept = pair.first.allocator.alloc(nbytes);
  REQUIRE(message(kept) == "ok");
  native::Gate gate(pair.first.context);
  gate.close(pair.second_queue);
  REQUIRE(message(pair.first.allocator.transfer(pair.a, pair.b, nbytes)) == "ok");
  REQUIRE(message(pair.first.allocator.transfer(*kept, pair.a, nbytes)) == "ok");
  REQUIRE(message(pair.first.allocator.fill(pair.a, std::byte{0xA2})) == "ok");
  std::this_thread::sleep_for(30ms);
  gate.open();
  CHECK(all(native::content(pair.first.allocator, *kept), 0xB0));
  CHECK(all(native::content(pair.first.allocator, pair.a), 0xA2));
  pair.first.allocator.free(std::move(*kept), nbytes);
}

TEST_CASE("later work on the source's queue comes after transfer") {
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  REQUIRE(message(pair.first.allocator.transfer(pair.a, pair.b, nbytes)) == "ok");
  REQUIRE(message(pair.second.fill(pair.b, std::byte{0xB2})) == "ok");
  const auto overwritten = native::marker(pair.second_queue);
  std::this_thread::sleep_for(30ms);
  CHECK(native::pending(overwritten));
  gate.open();
  CHECK(all(native::content(pair.first.allocator, pair.a), 0xB0));
  CHECK(all(native::content(pair.second, pair.b), 0xB2));
}

TEST_CASE("transfer between handles of one instance is ordered by record and wait alone") {
  Pair pair;
  auto handle = pair.first.allocator.on(opencl::borrow_queue(pair.second_queue));
  REQUIRE(message(handle) == "ok");
  auto dest = pair.first.allocator.alloc(nbytes);
  REQUIRE(message(dest) == "ok");
  const bool waits = GENERATE(true, false);
  CAPTURE(waits);
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  REQUIRE(message(pair.first.allocator.fill(pair.a, std::byte{0xA3})) == "ok");
  const auto filled = pair.first.allocator.record();
  REQUIRE(message(filled) == "ok");
  if (waits) REQUIRE(message(handle->wait(*filled)) == "ok");
  REQUIRE(message(handle->transfer(*dest, pair.a, nbytes)) == "ok");
  if (!waits) REQUIRE(message(handle->synchronize()) == "ok");
  gate.open();
  CHECK(all(native::content(*handle, *dest), waits ? 0xA3 : 0xA0));
  pair.first.allocator.free(std::move(*dest), nbytes);
}

TEST_CASE("transfer reads no other context") {
  Pair pair;
  native::Stream other;
  auto far = other.allocator.alloc(nbytes);
  REQUIRE(message(far) == "ok");
  CHECK(outcome(pair.first.allocator.transfer(pair.a, *far, nbytes)) == "wrong_allocator");
  CHECK(outcome(other.allocator.transfer(*far, pair.a, nbytes)) == "wrong_allocator");
  CHECK(outcome(other.allocator.transfer(pair.a, *far, nbytes)) == "wrong_allocator");  // not its destination
  CHECK(outcome(pair.second.transfer(pair.a, pair.b, nbytes)) == "wrong_allocator");
  CHECK(all(native::content(pair.first.allocator, pair.a), 0xA0));
  other.allocator.free(std::move(*far), nbytes);
}

TEST_CASE("transfer stays within both buffers") {
  Pair pair;
  opencl::Allocator& allocator = pair.first.allocator;
  const ClBuffer small = view(allocator, pair.a, 10, 100);
  CHECK(outcome(allocator.transfer(small, pair.b, 11)) == "out_of_range");
  CHECK(outcome(allocator.transfer(pair.a, view(pair.second, pair.b, 10, 0), 11)) == "out_of_range");
  CHECK(outcome(allocator.transfer(pair.a, pair.b, SIZE_MAX)) == "out_of_range");
  CHECK(outcome(allocator.transfer(pair.a, pair.b, 0)) == "ok");
  CHECK(all(native::content(allocator, pair.a), 0xA0));
}

TEST_CASE("transfer onto itself is overlap") {
  Pair pair;
  opencl::Allocator& allocator = pair.first.allocator;
  const auto refused = [&](std::size_t to, std::size_t from, std::size_t size) {
    CAPTURE(to, from, size);
    const auto result =
        allocator.transfer(view(allocator, pair.a, size, to), view(allocator, pair.a, size, from), size);
    REQUIRE(outcome(result) == "overlap");
    CHECK_FALSE(result.error().status().has_value());  // not every driver looks
    CHECK(result.error().asked() == size);
    CHECK(result.error().position() == from);
  };
  refused(0, 0, nbytes);
  refused(0, 1, 2);
  refused(1, 0, 2);
  refused(100, 199, 100);
  refused(199, 100, 100);
  CHECK(outcome(allocator.transfer(view(allocator, pair.a, 100, 200), view(allocator, pair.a, 100, 100),
                                   100)) == "ok");
  CHECK(outcome(allocator.transfer(view(allocator, pair.a, 100, 100), view(allocator, pair.a, 100, 200),
                                   100)) == "ok");
}

TEST_CASE("transfer onto itself is overlap through another allocation of one object, too") {
  Pair pair;
  const std::size_t alignment = pair.first.description.base_alignment;
  const auto mem = native::make_buffer(pair.first.context, 8 * alignment);
  auto once = pair.first.allocator.borrow(mem.get());
  auto twice = pair.first.allocator.borrow(mem.get());
  auto elsewhere = pair.second.borrow(mem.get());
  const auto sub = native::make_sub_buffer(mem, 4 * alignment, 4 * alignment);
  auto part = pair.first.allocator.borrow(sub.get());
  for (const auto* buf : {&once, &twice, &elsewhere, &part}) REQUIRE(message(*buf) == "ok");
  const std::size_t size = 4 * alignment + 1;
  CHECK(outcome(pair.first.allocator.transfer(*once, *twice, size)) == "overlap");
  CHECK(outcome(pair.first.allocator.transfer(*once, *elsewhere, size)) == "overlap");
  CHECK(outcome(pair.first.allocator.transfer(
            *part, view(pair.first.allocator, *once, alignment, 4 * alignment), alignment)) == "overlap");
  CHECK(outcome(pair.first.allocator.transfer(*part, *twice, 4 * alignment)) == "ok");
  pair.first.allocator.free(std::move(*once), 8 * alignment);
  pair.first.allocator.free(std::move(*twice), 8 * alignment);
  pair.first.allocator.free(std::move(*part), 4 * alignment);
  pair.second.free(std::move(*elsewhere), 8 * alignment);
}

// Handles on other queues.

TEST_CASE("a handle on another queue is the same allocator") {
  Pair pair;
  const auto third = pair.first.another_queue();
  {
    auto handle = pair.first.allocator.on(opencl::borrow_queue(third));
    REQUIRE(message(handle) == "ok");
    CHECK(handle->queue() == third.get());
    CHECK(pair.first.allocator.queue() == pair.first.queue.get());
    CHECK(handle->info().instance == pair.first.allocator.info().instance);
    CHECK(references(third.get()) > 1);
    auto buf = handle->alloc(100, {.zero = true});
    REQUIRE(message(buf) == "ok");
    CHECK(all(native::content(*handle, *buf), 0));
    pair.first.allocator.free(std::move(*buf), 100, {.zero = true});
    REQUIRE(message(handle->synchronize()) == "ok");  // commands hold references of their own
  }
  CHECK(native::settled(third.get(), 1) == 1);
}

TEST_CASE("a handle's work is on its queue and not on the other") {
  Pair pair;
  auto handle = pair.first.allocator.on(opencl::borrow_queue(pair.second_queue));
  REQUIRE(message(handle) == "ok");
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  REQUIRE(message(pair.first.allocator.fill(pair.a, std::byte{0xA4})) == "ok");
  CHECK(all(native::content(*handle, pair.a), 0xA0));  // a copyout on the gated queue would wait for ever
  CHECK(message(handle->synchronize()) == "ok");
  gate.open();
  CHECK(all(native::content(pair.first.allocator, pair.a), 0xA4));
}

TEST_CASE("queues that cannot order this allocator's work are refused") {
  Pair pair;
  native::Stream other;
  int none = 0;
  const auto refused = [&](const Queue& queue, const char* code) {
    CHECK(outcome(pair.first.allocator.on(queue)) == code);
    CHECK(outcome(pair.first.allocator.record_use(pair.a, queue)) == code);
  };
  refused(Queue(), "invalid_argument");
  refused(Queue::borrow(foreign_queue, &none), "wrong_backend");
  const cl_uint before = references(other.queue.get());
  refused(opencl::borrow_queue(other.queue), "invalid_argument");
  CHECK(references(other.queue.get()) == before);
  REQUIRE(pair.first.description.out_of_order);
  const auto unordered = native::make_queue(pair.first.context, pair.first.description.id,
                                            CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  refused(opencl::borrow_queue(unordered), "invalid_argument");
  CHECK(references(unordered.get()) == 1);
}

TEST_CASE("record_use is for buffers of this instance") {
  Pair pair;
  CHECK(outcome(pair.first.allocator.record_use(pair.a, opencl::borrow_queue(pair.second_queue))) == "ok");
  CHECK(outcome(pair.first.allocator.record_use(pair.b, opencl::borrow_queue(pair.second_queue))) ==
        "wrong_allocator");
}

// Events.

TEST_CASE("wait makes a consumer see what a held back producer writes; without it the old bytes are read") {
  Pair pair;
  auto consumer = pair.first.allocator.on(opencl::borrow_queue(pair.second_queue));
  REQUIRE(message(consumer) == "ok");
  auto result = pair.first.allocator.alloc(nbytes);
  REQUIRE(message(result) == "ok");
  auto source = pair.first.allocator.alloc(nbytes);
  REQUIRE(message(source) == "ok");
  REQUIRE(message(pair.first.allocator.fill(*source, std::byte{0x01})) == "ok");
  REQUIRE(message(pair.first.allocator.synchronize()) == "ok");

  const bool waits = GENERATE(true, false);
  CAPTURE(waits);
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  REQUIRE(message(pair.first.allocator.fill(*source, std::byte{0x02})) == "ok");
  const auto produced = pair.first.allocator.record();
  REQUIRE(message(produced) == "ok");
  CHECK(native::pending(opencl::native_event(*produced)));
  if (waits) REQUIRE(message(consumer->wait(*produced)) == "ok");

  // The consumer copies by the driver's own call: nothing but the wait orders it.
  cl_event event = nullptr;
  REQUIRE(clEnqueueCopyBuffer(pair.second_queue, source->root(), result->root(), 0, 0, nbytes, 0, nullptr,
                              &event) == CL_SUCCESS);
  const native::Owned<cl_event> consumed(event);
  REQUIRE(clFlush(pair.second_queue) == CL_SUCCESS);
  if (waits) {
    std::this_thread::sleep_for(50ms);
    CHECK(native::pending(consumed));
  } else {
    REQUIRE(clWaitForEvents(1, &event) == CL_SUCCESS);
    CHECK(native::pending(opencl::native_event(*produced)));
  }
  gate.open();
  REQUIRE(clWaitForEvents(1, &event) == CL_SUCCESS);
  CHECK(all(native::content(*consumer, *result), waits ? 0x02 : 0x01));
  pair.first.allocator.free(std::move(*result), nbytes);
  pair.first.allocator.free(std::move(*source), nbytes);
}

TEST_CASE("wait takes any event of the context, a user's own too") {
  Pair pair;
  cl_int status = CL_SUCCESS;
  const native::Owned<cl_event> own(clCreateUserEvent(pair.first.context, &status));
  REQUIRE(status == CL_SUCCESS);
  REQUIRE(message(pair.first.allocator.wait(opencl::borrow_event(own))) == "ok");
  REQUIRE(message(pair.first.allocator.fill(pair.a, std::byte{0xA5})) == "ok");
  const auto filled = native::marker(pair.first.queue);
  std::this_thread::sleep_for(20ms);
  CHECK(native::pending(filled));
  REQUIRE(clSetUserEventStatus(own, CL_COMPLETE) == CL_SUCCESS);
  CHECK(all(native::content(pair.first.allocator, pair.a), 0xA5));
}

TEST_CASE("events that cannot be waited for are refused") {
  Pair pair;
  native::Stream other;
  int none = 0;
  CHECK(outcome(pair.first.allocator.wait(Event())) == "invalid_argument");
  CHECK(outcome(pair.first.allocator.wait(Event::borrow(foreign_event, &none))) == "wrong_backend");
  const auto far = other.allocator.record();
  REQUIRE(message(far) == "ok");
  CHECK(outcome(pair.first.allocator.wait(*far)) == "invalid_argument");
  CHECK(outcome(pair.first.allocator.synchronize()) == "ok");
}

TEST_CASE("an event is complete when the work before it is done; the host can ask and wait") {
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  const auto event = pair.first.allocator.record();
  REQUIRE(message(event) == "ok");
  CHECK(event->complete().value() == false);
  std::atomic<bool> returned{false};
  std::jthread waiting([&] {
    if (event->wait()) returned = true;
  });
  std::this_thread::sleep_for(30ms);
  CHECK_FALSE(returned);
  gate.open();
  waiting.join();
  CHECK(returned);
  CHECK(event->complete().value() == true);
}

TEST_CASE("an event of work that failed is its error") {
  Pair pair;
  cl_int status = CL_SUCCESS;
  const native::Owned<cl_event> own(clCreateUserEvent(pair.first.context, &status));
  REQUIRE(status == CL_SUCCESS);
  REQUIRE(clSetUserEventStatus(own, CL_OUT_OF_RESOURCES) == CL_SUCCESS);
  const Event event = opencl::borrow_event(own);
  const auto complete = event.complete();
  REQUIRE(outcome(complete) == "device_lost");
  CHECK(complete.error().status() == CL_OUT_OF_RESOURCES);
  CHECK(outcome(event.wait()) == "device_lost");
}

TEST_CASE("synchronize waits until the queue is empty") {
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.first.queue);
  const auto queued = native::marker(pair.first.queue);
  std::atomic<bool> returned{false};
  std::jthread waiting([&] {
    if (pair.first.allocator.synchronize()) returned = true;
  });
  std::this_thread::sleep_for(30ms);
  CHECK_FALSE(returned);
  gate.open();
  waiting.join();
  CHECK(returned);
  CHECK_FALSE(native::pending(queued));
}

// Threads.

TEST_CASE("a queue is waited for by its handle, one that runs out of order too") {
  Pair pair;
  const auto description = native::device();
  for (const bool out_of_order : {false, true}) {
    if (out_of_order && !description.out_of_order) continue;
    CAPTURE(out_of_order);
    const auto queue = native::make_queue(pair.first.context, description.id,
                                          out_of_order ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
    native::Gate gate(pair.first.context);
    gate.close(queue);
    const auto queued = native::marker(queue);
    std::atomic<bool> returned{false};
    std::jthread waiting([&] {
      if (opencl::borrow_queue(queue).wait()) returned = true;
    });
    std::this_thread::sleep_for(30ms);
    CHECK_FALSE(returned);
    gate.open();
    waiting.join();
    CHECK(returned);
    CHECK_FALSE(native::pending(queued));
    CHECK(outcome(opencl::borrow_queue(queue).complete()) == "unsupported");
  }
}

TEST_CASE("threads share an allocator, a buffer and its sub-buffers") {
  Pair pair;
  constexpr int threads = 8;
  const std::size_t rounds = scaled(200);
  const std::size_t alignment = pair.first.description.base_alignment;
  const std::size_t parts = nbytes / alignment;
  std::barrier start(threads);
  std::vector<std::string> problems(threads);
  std::vector<std::vector<cl_mem>> args(threads);
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        opencl::Allocator allocator = pair.first.allocator;
        const auto note = [&](const auto& result) {
          if (!result && problems[t].empty()) problems[t] = result.error().message();
          return result.has_value();
        };
        start.arrive_and_wait();
        for (std::size_t i = 0; i < parts; ++i) {
          auto part = allocator.offset(pair.a, 64, i * alignment);
          if (!note(part)) return;
          const auto arg = allocator.exact_arg(*part);
          if (!note(arg)) return;
          args[t].push_back(*arg);
        }
        const auto bytes = native::pattern(301, static_cast<unsigned>(t));
        std::vector<std::byte> back(bytes.size());
        for (std::size_t round = 0; round < rounds; ++round) {
          auto buf = allocator.alloc(bytes.size() + round);
          if (!note(buf)) return;
          if (!note(allocator.copyin(*buf, bytes)) || !note(allocator.copyout(back, *buf))) return;
          if (back != bytes) problems[t] = "other bytes came back";
          {
            const auto map = allocator.map(*buf, Access::read, bytes.size(), 0);
            if (!note(map)) return;
            if (!std::ranges::equal(map->bytes(), bytes)) problems[t] = "other bytes were mapped";
          }
          allocator.free(std::move(*buf), bytes.size() + round);
        }
      });
    }
  }
  for (std::size_t t = 0; t < threads; ++t) {
    CHECK(problems[t] == "");
    CHECK(args[t] == args[0]);
    CHECK(args[t].size() == parts);
  }
}
