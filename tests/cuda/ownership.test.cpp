// SPDX-License-Identifier: MIT
// Whose contexts, streams and events are whose, and which context is current.
#include <berth/core/buffer.hpp>
#include <berth/cuda/allocator.hpp>

#include <optional>
#include <thread>

#include "support/cuda_fixture.hpp"

using namespace berth;
using native::abi::DevicePtr;

namespace {

native::abi::Context current() {
  native::abi::Context context = nullptr;
  REQUIRE_CUDA(native::driver().ctx_get_current(&context));
  return context;
}

/// Some work of each kind, which leaves nothing behind.
void exercise(cuda::Allocator allocator) {
  const auto bytes = native::pattern(777);
  auto a = allocator.alloc(bytes.size(), {.zero = true});
  auto b = allocator.alloc(bytes.size(), {.host = true});
  REQUIRE(message(a) == "ok");
  REQUIRE(message(b) == "ok");
  REQUIRE(message(allocator.copyin(*a, bytes)) == "ok");
  REQUIRE(message(allocator.transfer(*b, *a, bytes.size())) == "ok");
  REQUIRE(native::content(allocator, *b) == bytes);
  {
    const auto map = allocator.map(*a, Access::read, 10, 1);
    REQUIRE(message(map) == "ok");
  }
  const auto event = allocator.record();
  REQUIRE(message(event) == "ok");
  REQUIRE(message(allocator.wait(*event)) == "ok");
  REQUIRE(message(event->wait()) == "ok");
  CHECK(event->complete() == true);
  allocator.free(*a, bytes.size(), {.zero = true});
  allocator.free(*b, bytes.size(), {.host = true});
}

}  // namespace

TEST_CASE("open works in the primary context, and gives it back") {
  native::Machine machine;
  native::abi::Context primary = nullptr;
  REQUIRE_CUDA(native::driver().device_primary_ctx_retain(&primary, 0));
  {
    auto first = cuda::Allocator::open(0, native::options());
    auto second = cuda::Allocator::open(0, native::options());
    REQUIRE(message(first) == "ok");
    REQUIRE(message(second) == "ok");
    CHECK(first->context() == primary);
    CHECK(second->context() == primary);
    CHECK(first->queue() != second->queue());
    CHECK(&first->driver() == &native::driver());
    if (machine.fake()) CHECK(machine->balance().primary_references == 3);
    exercise(*first);
    exercise(*second);
  }
  if (machine.fake()) CHECK(machine->balance().primary_references == 1);
  REQUIRE_CUDA(native::driver().device_primary_ctx_release(0));
}

TEST_CASE("the stream of an open allocator does not wait for the default one") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver tells how a stream was made");
  const auto opened = cuda::Allocator::open(0, native::options());
  REQUIRE(message(opened) == "ok");
  CHECK(machine->stream_flags(opened->queue()) == native::abi::stream_non_blocking);
}

TEST_CASE("open of no device is no_device") {
  native::Machine machine;
  CHECK(outcome(cuda::Allocator::open(-1, native::options())) == "no_device");
  CHECK(outcome(cuda::Allocator::open(1000, native::options())) == "no_device");
}

TEST_CASE("borrow leaves context and stream alive") {
  native::Machine machine;
  const native::Context context;
  const native::Stream stream(context);
  {
    auto allocator = cuda::Allocator::borrow(context, stream, native::options());
    REQUIRE(message(allocator) == "ok");
    CHECK(allocator->context() == context);
    CHECK(allocator->queue() == stream);
    exercise(*allocator);
  }
  CHECK_FALSE(native::pending(context, stream));
}

TEST_CASE("adopt destroys both with the last handle or event") {
  native::Machine machine;
  std::optional<Event> event;
  {
    native::Context context;
    native::Stream stream(context);
    auto allocator = cuda::Allocator::adopt(context, stream, native::options());
    REQUIRE(message(allocator) == "ok");
    context.give();
    stream.give();
    exercise(*allocator);
    auto recorded = allocator->record();
    REQUIRE(message(recorded) == "ok");
    event = std::move(*recorded);
  }
  if (machine.fake()) CHECK(machine->balance().streams == 0);
  if (machine.fake()) CHECK(machine->balance().contexts == 1);
  CHECK(message(event->wait()) == "ok");
  event.reset();
  if (machine.fake()) CHECK(machine->balance().contexts == 0);
}

TEST_CASE("a refused borrow or adopt leaves the caller's objects alone") {
  native::Machine machine;
  const native::Context context;
  const native::Context other;
  const native::Stream stream(context);
  auto* const per_thread = reinterpret_cast<native::abi::Stream>(std::uintptr_t{2});
  using Take = Result<cuda::Allocator> (*)(native::abi::Context, native::abi::Stream, const cuda::Options&);
  for (const Take take : {Take{&cuda::Allocator::borrow}, Take{&cuda::Allocator::adopt}}) {
    CHECK(outcome(take(nullptr, stream, native::options())) == "invalid_argument");
    CHECK(outcome(take(other, stream, native::options())) == "invalid_argument");
    CHECK(outcome(take(context, per_thread, native::options())) == "invalid_argument");
  }
  CHECK_FALSE(native::pending(context, stream));
}

TEST_CASE("the current context is set for each call and restored") {
  native::Machine machine;
  native::Borrowed user;
  const native::Context other;
  REQUIRE(current() == nullptr);
  exercise(user.allocator);
  CHECK(current() == nullptr);
  {
    const native::Entered entered(other);
    exercise(user.allocator);
    CHECK(current() == other);
    const auto opened = cuda::Allocator::open(0, native::options());
    REQUIRE(message(opened) == "ok");
    exercise(*opened);
    CHECK(current() == other);
  }
  {
    const native::Entered entered(user.context);
    exercise(user.allocator);
    CHECK(current() == user.context);
  }
  std::thread([&] {
    auto buf = user.allocator.alloc(10);
    if (buf) user.allocator.free(*buf, 10);
    native::abi::Context seen = nullptr;
    native::driver().ctx_get_current(&seen);
    if (!buf || seen != nullptr) std::abort();
  }).join();
}

TEST_CASE("a Buffer keeps what berth opened alive when every other handle is gone") {
  native::Machine machine;
  const auto bytes = native::pattern(4097);
  std::optional<Buffer> view;
  {
    auto allocator = cuda::Allocator::open(0, native::options());
    REQUIRE(message(allocator) == "ok");
    auto root = Buffer::create(pack(std::move(*allocator)), bytes.size());
    REQUIRE(message(root) == "ok");
    REQUIRE(message(root->copyin(bytes)) == "ok");
    auto part = root->view(1000, 3001);
    REQUIRE(message(part) == "ok");
    view = std::move(*part);
  }
  std::vector<std::byte> back(1000);
  REQUIRE(message(view->copyout(back)) == "ok");
  CHECK(std::ranges::equal(back, std::span(bytes).subspan(3001, 1000)));
}

TEST_CASE("a user's events and streams go in and out unchanged") {
  native::Machine machine;
  native::Borrowed user;
  const Queue queue = cuda::borrow_queue(user.stream);
  CHECK(cuda::native_queue(queue) == user.stream);
  CHECK(queue == cuda::borrow_queue(user.stream));
  CHECK(cuda::native_queue(cuda::borrow_queue(nullptr)) ==
        reinterpret_cast<native::abi::Stream>(std::uintptr_t{1}));
  CHECK(cuda::native_queue(Queue()) == nullptr);
  CHECK(cuda::native_event(Event()) == nullptr);
  CHECK_FALSE(cuda::borrow_event(nullptr, &native::driver()));

  native::abi::Event mine = nullptr;
  {
    const native::Entered entered(user.context);
    REQUIRE_CUDA(native::driver().event_create(&mine, native::abi::event_disable_timing));
    REQUIRE_CUDA(native::driver().event_record(mine, user.stream));
  }
  {
    const Event borrowed = cuda::borrow_event(mine, &native::driver());
    CHECK(cuda::native_event(borrowed) == mine);
    const Event copy = borrowed;
    CHECK(cuda::native_event(copy) == mine);
    CHECK(message(user.allocator.wait(copy)) == "ok");
    const native::Entered entered(user.context);
    CHECK(message(copy.wait()) == "ok");
    CHECK(copy.complete() == true);
  }
  const native::Entered entered(user.context);
  const Event adopted = cuda::adopt_event(mine, &native::driver());  // destroyed at the end
  CHECK(adopted.complete() == true);
}
