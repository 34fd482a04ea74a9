// SPDX-License-Identifier: MIT
// Forked children, and the end of the process.
#include <berth/core/buffer.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/framework.hpp>

#include <optional>

#include "support/child.hpp"
#include "support/cuda_fixture.hpp"

using namespace berth;

namespace {

/// Runs `body` in a forked child, which ends without any handler; what it wrote goes to this process's
/// output.
template <class Body>
int in_fork(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good = body();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

/// Lives from before `main` until after every handler of the driver: destroyed past berth's exit hook.
struct Late {
  std::optional<cuda::Allocator> allocator;
  std::optional<cuda::CudaBuffer> buf;
  std::optional<Buffer> buffer;
  std::optional<Mapping> mapping;
  std::optional<Event> event;

  ~Late() {
    if (!buffer) return;
    const std::vector<std::byte> bytes(16);
    native::say("late copyin: " + outcome(buffer->copyin(bytes)));
    native::say("late alloc: " + outcome(allocator->alloc(16)));
    native::say("late synchronize: " + outcome(allocator->synchronize()));
    native::say("late event: " + outcome(event->complete()));
    native::say("late devices: " + outcome(cuda::devices(&allocator->driver())));
    native::say("late open: " + outcome(cuda::Allocator::open(0, {.driver = &allocator->driver()})));
    allocator->free(*buf, 64);
    mapping.reset();
    event.reset();
    buffer.reset();
    allocator.reset();
    native::say("late buffers: done");
  }
} late;

}  // namespace

TEST_CASE("child: everything a forked child may ask answers forked", "[.]") {
  native::Machine machine;
  native::Borrowed user;
  cuda::Allocator& a = user.allocator;
  auto buf = a.alloc(4096);
  auto other = a.alloc(4096);
  REQUIRE(message(buf) == "ok");
  REQUIRE(message(other) == "ok");
  const auto bytes = native::pattern(4096);
  REQUIRE(message(a.copyin(*buf, bytes)) == "ok");
  auto event = a.record();
  REQUIRE(message(event) == "ok");
  auto map = a.map(*buf, Access::write, 100, 0);
  REQUIRE(message(map) == "ok");
  auto buffer = Buffer::create(pack(a), 500);
  REQUIRE(message(buffer) == "ok");
  const Queue queue = cuda::borrow_queue(user.stream);

  const int status = in_fork([&] {
    std::vector<std::byte> back(16);
    bool good = true;
    const auto forked = [&](const char* call, const auto& result) {
      if (outcome(result) == "forked") return;
      native::say(std::string(call) + " in the child: " + message(result));
      good = false;
    };
    forked("alloc", a.alloc(16));
    forked("alloc of nothing", a.alloc(0));
    forked("copyin", a.copyin(*buf, back));
    forked("copyout", a.copyout(back, *buf));
    forked("synchronize", a.synchronize());
    forked("transfer", a.transfer(*other, *buf, 16));
    forked("fill", a.fill(*buf, std::byte{1}));
    forked("map", a.map(*other, Access::read, 16, 0));
    forked("offset", a.offset(*buf, 16, 0));
    forked("addr", a.addr(*buf));
    forked("on", a.on(queue));
    forked("record_use", a.record_use(*buf, queue));
    forked("record", a.record());
    forked("wait", a.wait(*event));
    forked("complete", event->complete());
    forked("adopt", a.adopt(buf->address(), 16));
    forked("borrow", a.borrow(buf->address(), 16));
    forked("open", cuda::Allocator::open(0, native::options()));
    forked("borrow of a context", cuda::Allocator::borrow(user.context, user.stream, native::options()));
    forked("devices", cuda::devices(&native::driver()));
    forked("the framework's devices", cuda::framework()->devices());
    // These do nothing, and return.
    a.free(*other, 4096);
    {
      const Buffer gone = std::move(*buffer);
    }
    {
      const Mapping gone = std::move(*map);
    }
    {
      const Event gone = std::move(*event);
    }
    return good;
  });
  CHECK(status == 0);

  // The parent goes on.
  REQUIRE(message(map->unmap()) == "ok");
  CHECK(native::content(a, *buf) == bytes);
  CHECK(event->complete() == true);
  a.free(*buf, 4096);
  a.free(*other, 4096);
  native::say("the parent went on");
}

TEST_CASE("in a forked child calls answer forked and frees do nothing") {
  static_cast<void>(native::driver());  // skips the program where there is none
  const auto child = native::run_child("child: everything a forked child may ask answers forked");
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("the parent went on") != std::string::npos);
}

TEST_CASE("child: buffers outlive main", "[.]") {
  if (!native::real()) new fake_cuda::Machine;  // as a driver does, it lives on
  auto allocator = cuda::Allocator::open(0, native::options());
  REQUIRE(message(allocator) == "ok");
  late.allocator = *allocator;
  auto buf = allocator->alloc(64);
  REQUIRE(message(buf) == "ok");
  late.buf = *buf;
  auto buffer = Buffer::create(pack(*allocator), 4096);
  REQUIRE(message(buffer) == "ok");
  auto map = allocator->map(*buf, Access::write, 10, 0);
  REQUIRE(message(map) == "ok");
  auto event = allocator->record();
  REQUIRE(message(event) == "ok");
  late.event = std::move(*event);
  late.mapping = std::move(*map);
  late.buffer = std::move(*buffer);
  native::say("main is over");
}

TEST_CASE("a static buffer may be destroyed after main: no driver is called") {
  static_cast<void>(native::driver());  // skips the program where there is none
  // What lives to the end of the process is never given back: to the leak checker it is lost.
  const auto child = native::run_child("child: buffers outlive main", {"ASAN_OPTIONS=detect_leaks=0"});
  INFO(child.output);
  CHECK(child.status == 0);
  for (const char* line :
       {"main is over", "late copyin: exiting", "late alloc: exiting", "late synchronize: exiting",
        "late event: exiting", "late devices: exiting", "late open: exiting", "late buffers: done"}) {
    CAPTURE(line);
    CHECK(child.output.find(line) != std::string::npos);
  }
}
