// SPDX-License-Identifier: MIT
// The order of work: on a stream, between streams, between devices.
#include <berth/core/diagnostics.hpp>
#include <berth/core/queue.hpp>
#include <berth/cuda/allocator.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "support/cuda_fixture.hpp"
#include "support/skip.hpp"

using namespace berth;
using namespace std::chrono_literals;
using cuda::CudaBuffer;
using native::all;
using native::content;

namespace {

constexpr std::size_t nbytes = 1 << 16;

constexpr HandleKind foreign_queue{"elsewhere", nullptr, nullptr};
constexpr HandleKind foreign_event{"elsewhere", nullptr, nullptr};

/// A buffer that holds one value, ready.
struct Filled {
  Filled(cuda::Allocator a, int value, const BufferSpec& with = {})
      : allocator(a), spec(with), buf(made(value)) {}
  ~Filled() { allocator.free(buf, nbytes, spec); }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;

  cuda::Allocator allocator;
  BufferSpec spec;
  CudaBuffer buf;

 private:
  CudaBuffer made(int value) {
    auto allocated = allocator.alloc(nbytes, spec);
    REQUIRE(message(allocated) == "ok");
    REQUIRE(message(allocator.fill(*allocated, static_cast<std::byte>(value))) == "ok");
    REQUIRE(message(allocator.synchronize()) == "ok");
    return *allocated;
  }
};

CudaBuffer view(cuda::Allocator allocator, const CudaBuffer& buf, std::size_t size, std::size_t offset) {
  auto made = allocator.offset(buf, size, offset);
  REQUIRE(message(made) == "ok");
  return *made;
}

/// Two instances on one context, with a buffer each.
struct Pair {
  native::Borrowed first;
  native::Stream second_stream = first.another_stream();
  cuda::Allocator second = made();
  Filled a{first.allocator, 0xA0};
  Filled b{second, 0xB0};

 private:
  cuda::Allocator made() const {
    auto allocator = cuda::Allocator::borrow(first.context, second_stream, native::options());
    REQUIRE(message(allocator) == "ok");
    return *allocator;
  }
};

}  // namespace

TEST_CASE("transfer comes after earlier work on the source's stream") {
  const native::Machine machine;
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.second_stream);
  REQUIRE(message(pair.second.fill(pair.b.buf, std::byte{0xB1})) == "ok");
  REQUIRE(message(pair.first.allocator.transfer(pair.a.buf, pair.b.buf, nbytes)) == "ok");
  std::this_thread::sleep_for(20ms);
  CHECK(native::pending(pair.first.context, pair.first.stream));
  gate.open();
  CHECK(all(content(pair.first.allocator, pair.a.buf), 0xB1));
}

TEST_CASE("later work on the source's stream comes after transfer") {
  const native::Machine machine;
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.first.stream);
  REQUIRE(message(pair.first.allocator.transfer(pair.a.buf, pair.b.buf, nbytes)) == "ok");
  REQUIRE(message(pair.second.fill(pair.b.buf, std::byte{0xB2})) == "ok");
  std::this_thread::sleep_for(20ms);
  CHECK(native::pending(pair.first.context, pair.second_stream));
  gate.open();
  CHECK(all(content(pair.first.allocator, pair.a.buf), 0xB0));
  CHECK(all(content(pair.second, pair.b.buf), 0xB2));
}

TEST_CASE("transfer comes between earlier and later work on the destination's stream") {
  const native::Machine machine;
  Pair pair;
  const Filled kept(pair.first.allocator, 0);
  native::Gate gate(pair.first.context);
  gate.close(pair.first.stream);
  REQUIRE(message(pair.first.allocator.fill(pair.a.buf, std::byte{0xA1})) == "ok");
  REQUIRE(message(pair.first.allocator.transfer(pair.a.buf, pair.b.buf, nbytes / 2)) == "ok");
  REQUIRE(message(pair.first.allocator.transfer(kept.buf, pair.a.buf, nbytes)) == "ok");
  REQUIRE(message(pair.first.allocator.fill(pair.a.buf, std::byte{0xA2})) == "ok");
  gate.open();
  const auto seen = content(pair.first.allocator, kept.buf);
  CHECK(all(std::span(seen).first(nbytes / 2), 0xB0));
  CHECK(all(std::span(seen).subspan(nbytes / 2), 0xA1));
  CHECK(all(content(pair.first.allocator, pair.a.buf), 0xA2));
}

TEST_CASE("transfer between handles of one instance is ordered by record and wait alone") {
  const native::Machine machine;
  Pair pair;
  auto handle = pair.first.allocator.on(cuda::borrow_queue(pair.second_stream));
  REQUIRE(message(handle) == "ok");
  const Filled dest(pair.first.allocator, 0);
  const bool waits = GENERATE(true, false);
  CAPTURE(waits);
  native::Gate gate(pair.first.context);
  gate.close(pair.first.stream);
  REQUIRE(message(pair.first.allocator.fill(pair.a.buf, std::byte{0xA3})) == "ok");
  const auto filled = pair.first.allocator.record();
  REQUIRE(message(filled) == "ok");
  CHECK(filled->complete() == false);
  if (waits) REQUIRE(message(handle->wait(*filled)) == "ok");
  REQUIRE(message(handle->transfer(dest.buf, pair.a.buf, nbytes)) == "ok");
  if (!waits) REQUIRE(message(handle->synchronize()) == "ok");
  gate.open();
  CHECK(all(content(*handle, dest.buf), waits ? 0xA3 : 0xA0));
  REQUIRE(message(filled->wait()) == "ok");
  CHECK(filled->complete() == true);
}

TEST_CASE("transfer stays within both buffers, and off itself") {
  const native::Machine machine;
  Pair pair;
  cuda::Allocator& allocator = pair.first.allocator;
  const CudaBuffer& a = pair.a.buf;
  CHECK(outcome(allocator.transfer(view(allocator, a, 10, 100), pair.b.buf, 11)) == "out_of_range");
  CHECK(outcome(allocator.transfer(a, view(pair.second, pair.b.buf, 10, 0), 11)) == "out_of_range");
  CHECK(outcome(allocator.transfer(a, pair.b.buf, SIZE_MAX)) == "out_of_range");
  CHECK(outcome(allocator.transfer(pair.b.buf, a, 1)) == "wrong_allocator");
  const auto shifted = [&](std::size_t to, std::size_t from, std::size_t size) {
    return outcome(allocator.transfer(view(allocator, a, size, to), view(allocator, a, size, from), size));
  };
  CHECK(shifted(0, 0, nbytes) == "overlap");
  CHECK(shifted(0, 1, 2) == "overlap");
  CHECK(shifted(100, 199, 100) == "overlap");
  CHECK(shifted(199, 100, 100) == "overlap");
  CHECK(shifted(200, 100, 100) == "ok");
  const auto part = pair.second.borrow(a.address() + 50, 100);
  REQUIRE(message(part) == "ok");
  CHECK(outcome(allocator.transfer(a, *part, 51)) == "overlap");  // another allocation of the same bytes
  CHECK(outcome(allocator.transfer(a, *part, 50)) == "ok");
  pair.second.free(*part, 100);
}

TEST_CASE("transfer between contexts of one device, of device memory and pinned memory") {
  native::Machine machine;
  native::Borrowed near;
  native::Borrowed far;
  for (const BufferSpec to : {BufferSpec{}, BufferSpec{.host = true}}) {
    for (const BufferSpec from : {BufferSpec{}, BufferSpec{.host = true}}) {
      CAPTURE(to.host, from.host);
      const Filled dest(near.allocator, 1, to);
      const Filled src(far.allocator, 2, from);
      REQUIRE(message(far.allocator.fill(src.buf, std::byte{3})) == "ok");
      REQUIRE(message(near.allocator.fill(dest.buf, std::byte{5})) == "ok");
      REQUIRE(message(near.allocator.transfer(dest.buf, src.buf, nbytes - 1)) == "ok");
      REQUIRE(message(far.allocator.fill(src.buf, std::byte{4})) == "ok");
      const auto seen = content(near.allocator, dest.buf);
      CHECK(all(std::span(seen).first(nbytes - 1), 3));
      CHECK(seen.back() == std::byte{5});
      CHECK(all(content(far.allocator, src.buf), 4));
    }
  }
  if (machine.fake()) CHECK(machine->calls("cuCtxEnablePeerAccess") == 0);
}

TEST_CASE("the default streams of two contexts are two") {
  const native::Machine machine;
  const native::Context context;
  const native::Context far_context;
  auto near = cuda::Allocator::borrow(context, nullptr, native::options());
  auto far = cuda::Allocator::borrow(far_context, nullptr, native::options());
  REQUIRE(message(near) == "ok");
  REQUIRE(message(far) == "ok");
  CHECK(near->queue() == far->queue());
  const Filled dest(*near, 1);
  const Filled src(*far, 2);
  native::Gate gate(far_context);
  gate.close(far->queue());
  REQUIRE(message(far->fill(src.buf, std::byte{3})) == "ok");
  REQUIRE(message(near->transfer(dest.buf, src.buf, nbytes)) == "ok");
  gate.open();
  CHECK(all(content(*near, dest.buf), 3));
}

TEST_CASE("transfer between devices: peers once for each direction, both streams in order") {
  const bool peers = GENERATE(true, false);
  CAPTURE(peers);
  native::Machine machine({.devices = 2, .peers = peers});
  if (native::Machine::devices() < 2) {
    WARN("NOT TRIED: one device only");
    return;
  }
  native::Borrowed near(0);
  native::Borrowed far(1);
  const Filled dest(near.allocator, 1);
  const Filled src(far.allocator, 2);
  // The first one enables peer access, for which a real driver may wait for the contexts.
  REQUIRE(message(near.allocator.transfer(dest.buf, src.buf, nbytes)) == "ok");
  CHECK(all(content(near.allocator, dest.buf), 2));
  native::Gate gate(far.context);
  gate.close(far.stream);
  REQUIRE(message(far.allocator.fill(src.buf, std::byte{3})) == "ok");
  REQUIRE(message(near.allocator.transfer(dest.buf, src.buf, nbytes)) == "ok");
  REQUIRE(message(far.allocator.fill(src.buf, std::byte{4})) == "ok");
  CHECK(native::pending(near.context, near.stream));
  gate.open();
  CHECK(all(content(near.allocator, dest.buf), 3));
  CHECK(all(content(far.allocator, src.buf), 4));
  for (int round = 0; round < 3; ++round) {
    REQUIRE(message(near.allocator.transfer(dest.buf, src.buf, nbytes)) == "ok");
    REQUIRE(message(far.allocator.transfer(src.buf, dest.buf, nbytes)) == "ok");
  }
  CHECK(all(content(far.allocator, src.buf), 4));
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  CHECK(machine->calls("cuCtxEnablePeerAccess") == (peers ? 2 : 0));
  CHECK(machine->peer_copies() == (peers ? 8 : 0));
  CHECK(machine->staged_copies() == (peers ? 0 : 8));
}

TEST_CASE("a device that was opened anew is a new peer") {
  native::Machine machine({.devices = 2});
  if (native::Machine::devices() < 2) return left_out("one device");
  native::Borrowed near;
  const Filled here(near.allocator, 1);
  for (int round = 1; round <= 3; ++round) {
    auto far = cuda::Allocator::open(1, native::options());  // at the same handle each time
    REQUIRE(message(far) == "ok");
    {
      const Filled there(*far, 10 + round);
      REQUIRE(message(near.allocator.transfer(here.buf, there.buf, nbytes)) == "ok");
      CHECK(all(content(near.allocator, here.buf), 10 + round));
    }
    if (!machine.fake()) continue;
    CHECK(machine->peer_copies() == static_cast<std::size_t>(round));
    CHECK(machine->staged_copies() == 0);
  }
}

TEST_CASE("a sink may transfer, also when told that peers cannot be had") {
  if (native::real()) return left_out("only the fake driver fails on demand");
  native::Machine machine({.devices = 2});
  native::Borrowed near;
  native::Borrowed far(1);
  const Filled here(near.allocator, 1);
  const Filled there(far.allocator, 2);
  struct Again {
    const Filled& here;
    const Filled& there;
    std::string answer = "not asked";
  } again{here, there};
  set_diagnostic_sink(
      [](const Error&, void* context) noexcept {
        auto& call = *static_cast<Again*>(context);
        cuda::Allocator allocator = call.here.allocator;
        call.answer = message(allocator.transfer(call.here.buf, call.there.buf, nbytes));
      },
      &again);
  machine->fail({.symbol = "cuDeviceCanAccessPeer", .nth = 1, .times = 1, .status = native::abi::unknown});
  CHECK(message(near.allocator.transfer(here.buf, there.buf, nbytes)) == "ok");
  set_diagnostic_sink(nullptr);
  CHECK(again.answer == "ok");
  CHECK(all(content(near.allocator, here.buf), 2));
}

TEST_CASE("peers that somebody enabled before are as good") {
  native::Machine machine({.devices = 2});
  if (native::Machine::devices() < 2) return left_out("there is one device");
  native::Borrowed near(0);
  native::Borrowed far(1);
  {
    const native::Entered entered(near.context);
    const auto status = native::driver().ctx_enable_peer_access(far.context, 0);
    if (!machine.fake() && status == native::abi::peer_access_unsupported) {
      return left_out("the devices are no peers");
    }
    REQUIRE(status == native::abi::success);
  }
  const Filled dest(near.allocator, 1);
  const Filled src(far.allocator, 2);
  REQUIRE(message(near.allocator.transfer(dest.buf, src.buf, nbytes)) == "ok");
  CHECK(all(content(near.allocator, dest.buf), 2));
  if (machine.fake()) CHECK(machine->peer_copies() == 1);
}

TEST_CASE("transfer from another driver is out of reach") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  native::Borrowed user;
  const Filled mine(user.allocator, 1);
  const cuda::Driver copy = native::driver();  // another table, as good as another driver
  auto other = cuda::Allocator::borrow(user.context, user.stream, {.driver = &copy});
  REQUIRE(message(other) == "ok");
  const Filled theirs(*other, 2);
  CHECK(outcome(user.allocator.transfer(mine.buf, theirs.buf, 1)) == "wrong_allocator");
  const auto event = other->record();
  REQUIRE(message(event) == "ok");
  CHECK(outcome(user.allocator.wait(*event)) == "invalid_argument");
}

// Handles on other streams.

TEST_CASE("a handle's work is on its stream and not on the other") {
  const native::Machine machine;
  Pair pair;
  auto handle = pair.first.allocator.on(cuda::borrow_queue(pair.second_stream));
  REQUIRE(message(handle) == "ok");
  CHECK(handle->queue() == pair.second_stream);
  CHECK(handle->info().instance == pair.first.allocator.info().instance);
  native::Gate gate(pair.first.context);
  gate.close(pair.first.stream);
  REQUIRE(message(pair.first.allocator.fill(pair.a.buf, std::byte{0xA4})) == "ok");
  CHECK(all(content(*handle, pair.a.buf), 0xA0));  // a copyout on the gated stream would wait for ever
  CHECK(message(handle->synchronize()) == "ok");
  gate.open();
  CHECK(all(content(pair.first.allocator, pair.a.buf), 0xA4));
}

TEST_CASE("streams that cannot order this allocator's work are refused") {
  const native::Machine machine;
  Pair pair;
  const native::Borrowed other;
  int none = 0;
  const auto refused = [&](const Queue& queue, const char* code) {
    CHECK(outcome(pair.first.allocator.on(queue)) == code);
    CHECK(outcome(pair.first.allocator.record_use(pair.a.buf, queue)) == code);
  };
  refused(Queue(), "invalid_argument");
  refused(Queue::borrow(foreign_queue, &none), "wrong_backend");
  refused(cuda::borrow_queue(other.stream), "invalid_argument");
  refused(cuda::borrow_queue(reinterpret_cast<native::abi::Stream>(std::uintptr_t{2})), "invalid_argument");
  CHECK(outcome(pair.first.allocator.on(cuda::borrow_queue(nullptr))) == "ok");
  const Queue queue = cuda::borrow_queue(pair.second_stream);
  CHECK(outcome(pair.first.allocator.record_use(pair.b.buf, queue)) == "wrong_allocator");
}

// Events.

TEST_CASE("wait makes a consumer see what a held back producer writes; without it the old bytes are read") {
  const native::Machine machine;
  Pair pair;
  const Filled result(pair.second, 0);
  const bool waits = GENERATE(true, false);
  CAPTURE(waits);
  native::Gate gate(pair.first.context);
  gate.close(pair.first.stream);
  REQUIRE(message(pair.first.allocator.fill(pair.a.buf, std::byte{0xA5})) == "ok");
  const auto produced = pair.first.allocator.record();
  REQUIRE(message(produced) == "ok");
  if (waits) REQUIRE(message(pair.second.wait(*produced)) == "ok");
  {
    // The consumer copies by the driver's own call: nothing but the wait orders it.
    const native::Entered entered(pair.first.context);
    REQUIRE_CUDA(native::driver().memcpy_dtod_async(result.buf.address(), pair.a.buf.address(), nbytes,
                                                    pair.second_stream));
    if (!waits) REQUIRE_CUDA(native::driver().stream_synchronize(pair.second_stream));
  }
  CHECK(produced->complete() == false);
  gate.open();
  CHECK(all(content(pair.second, result.buf), waits ? 0xA5 : 0xA0));
}

TEST_CASE("an event of another device can be waited for") {
  native::Machine machine({.devices = 2});
  if (native::Machine::devices() < 2) return left_out("there is one device");
  native::Borrowed near(0);
  native::Borrowed far(1);
  native::Gate gate(far.context);
  gate.close(far.stream);
  const auto event = far.allocator.record();
  REQUIRE(message(event) == "ok");
  REQUIRE(message(near.allocator.wait(*event)) == "ok");
  CHECK(native::pending(near.context, near.stream));
  gate.open();
  CHECK(message(near.allocator.synchronize()) == "ok");
}

TEST_CASE("events that cannot be waited for are refused") {
  const native::Machine machine;
  native::Borrowed user;
  int none = 0;
  CHECK(outcome(user.allocator.wait(Event())) == "invalid_argument");
  CHECK(outcome(user.allocator.wait(Event::borrow(foreign_event, &none))) == "wrong_backend");
  CHECK(outcome(user.allocator.synchronize()) == "ok");
}

TEST_CASE("synchronize waits until the stream is empty") {
  const native::Machine machine;
  Pair pair;
  native::Gate gate(pair.first.context);
  gate.close(pair.first.stream);
  std::atomic<bool> returned{false};
  std::jthread waiting([&] {
    if (pair.first.allocator.synchronize()) returned = true;
  });
  std::this_thread::sleep_for(30ms);
  CHECK_FALSE(returned);
  gate.open();
  waiting.join();
  CHECK(returned);
}

// Threads.

TEST_CASE("a copy with pinned memory is over when it returns, too") {
  native::Machine machine;
  native::Borrowed user;
  const Filled device(user.allocator, 1);
  const Filled pinned(user.allocator, 2, {.host = true});
  const std::span host(pinned.buf.host_data(), nbytes);
  const bool in = GENERATE(false, true);
  CAPTURE(in);
  native::Gate gate(user.context);
  gate.close(user.stream);
  std::atomic<bool> returned{false};
  std::string answer;
  std::jthread copying([&] {
    cuda::Allocator allocator = user.allocator;
    answer = message(in ? allocator.copyin(device.buf, host) : allocator.copyout(host, device.buf));
    returned = true;
    std::ranges::fill(host, std::byte{3});  // it is the caller's again
  });
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(returned);
  gate.open();
  copying.join();
  CHECK(answer == "ok");
  CHECK(all(content(user.allocator, device.buf), in ? 2 : 1));
  CHECK(all(host, 3));
}

TEST_CASE("threads share an allocator, on one stream and on streams of their own") {
  const native::Machine machine;
  native::Borrowed user;
  constexpr std::size_t threads = 6;
  const std::size_t rounds = scaled(100);
  std::vector<native::Stream> streams;
  for (std::size_t t = 0; t < threads; ++t) streams.push_back(user.another_stream());
  std::array<std::string, threads> problems;
  std::barrier start(threads);
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        const auto note = [&](const auto& result) {
          if (!result && problems[t].empty()) problems[t] = result.error().message();
          return result.has_value();
        };
        cuda::Allocator allocator = user.allocator;
        if (t % 2 == 1) {
          auto own = allocator.on(cuda::borrow_queue(streams[t]));
          if (!note(own)) return;
          allocator = *own;
        }
        start.arrive_and_wait();
        const auto bytes = native::pattern(301, static_cast<unsigned>(t));
        std::vector<std::byte> back(bytes.size());
        for (std::size_t round = 0; round < rounds; ++round) {
          const BufferSpec spec{.host = round % 3 == 0};
          auto buf = allocator.alloc(bytes.size() + round, spec);
          if (!note(buf)) return;
          if (!note(allocator.copyin(*buf, bytes)) || !note(allocator.copyout(back, *buf))) return;
          if (back != bytes) problems[t] = "other bytes came back";
          {
            const auto map = allocator.map(*buf, Access::read, bytes.size(), 0);
            if (!note(map)) return;
            if (!std::ranges::equal(map->bytes(), bytes)) problems[t] = "other bytes were mapped";
          }
          const auto event = allocator.record();
          if (!note(event) || !note(event->wait())) return;
          allocator.free(*buf, bytes.size() + round, spec);
        }
      });
    }
  }
  for (const std::string& problem : problems) CHECK(problem == "");
}
