// SPDX-License-Identifier: MIT
// Forked children, and the end of the process.
#include <berth/core/buffer.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/framework.hpp>
#include <berth/opencl/queue.hpp>

#include <optional>

#include "support/opencl_fixture.hpp"

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

template <class T>
bool answers_forked(const char* call, const Result<T>& result) {
  if (outcome(result) == "forked") return true;
  native::say(std::string(call) + " in the child: " + message(result));
  return false;
}

/// Lives from before `main` until after every handler of the driver: destroyed past berth's exit hook.
struct Late {
  std::optional<opencl::Allocator> allocator;
  std::optional<opencl::ClBuffer> buf;
  std::optional<Buffer> buffer;
  std::optional<Buffer> external;
  std::optional<Mapping> mapping;

  ~Late() {
    if (!buffer) return;
    const std::vector<std::byte> bytes(16);
    native::say("late copyin: " + outcome(buffer->copyin(bytes)));
    native::say("late alloc: " + outcome(allocator->alloc(16)));
    native::say("late synchronize: " + outcome(allocator->synchronize()));
    native::say("late platforms: " + outcome(opencl::platforms()));
    native::say("late open: " + outcome(opencl::Allocator::open(allocator->device())));
    allocator->free(*buf, 64);
    native::say("late free: done");
    mapping.reset();
    native::say("late unmap: done");
    external.reset();
    buffer.reset();
    allocator.reset();
    native::say("late buffers: done");
  }
} late;

}  // namespace

TEST_CASE("child: everything a forked child may ask answers forked", "[.]") {
  native::Stream stream;
  const auto bytes = native::pattern(4096);
  auto buf = stream.allocator.alloc(4096);
  auto other = stream.allocator.alloc(4096);
  REQUIRE(message(buf) == "ok");
  REQUIRE(message(other) == "ok");
  REQUIRE(message(stream.allocator.copyin(*buf, bytes)) == "ok");
  auto event = stream.allocator.record();
  REQUIRE(message(event) == "ok");
  auto map = stream.allocator.map(*buf, Access::write, 100, 0);
  REQUIRE(message(map) == "ok");
  auto buffer = Buffer::create(pack(stream.allocator), 500);
  REQUIRE(message(buffer) == "ok");
  const Queue queue = opencl::borrow_queue(stream.queue);
  const native::Pages pages(4096);
  auto wrap = Buffer::create(pack(stream.allocator), 4096, {.external_ptr = pages.data()});
  REQUIRE(message(wrap) == "ok");

  const int status = in_fork([&] {
    opencl::Allocator& a = stream.allocator;
    std::vector<std::byte> back(16);
    bool good = true;
    const auto forked = [&](const char* call, const auto& result) { good &= answers_forked(call, result); };
    forked("alloc", a.alloc(16));
    forked("alloc of nothing", a.alloc(0));
    forked("alloc of zeros", a.alloc(16, {.zero = true}));
    forked("external alloc", a.alloc(64, {.external_ptr = pages.data()}));
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
    forked("adopt", a.adopt(buf->root()));
    forked("borrow", a.borrow(buf->root()));
    forked("kernel_arg", a.kernel_arg(*buf));
    forked("exact_arg", a.exact_arg(*buf));
    forked("open", opencl::Allocator::open(stream.description.id));
    forked("borrow of a stream", opencl::Allocator::borrow(stream.context, stream.queue));
    forked("adopt of a stream", opencl::Allocator::adopt(stream.context, stream.queue));
    forked("platforms", opencl::platforms());
    forked("describe", opencl::describe(stream.description.id));
    forked("devices", opencl::framework()->devices());
    // These do nothing, and return.
    a.free(*other, 4096);
    {
      const Buffer gone = std::move(*buffer);
    }
    {
      const Buffer gone = std::move(*wrap);
    }
    {
      const Mapping gone = std::move(*map);
    }
    {
      const opencl::Allocator gone = a;
    }
    {
      const Queue gone = queue;
    }
    {
      const Event gone = *event;
    }
    return good;
  });
  CHECK(status == 0);

  // The parent goes on.
  REQUIRE(message(map->unmap()) == "ok");
  CHECK(native::content(stream.allocator, *buf) == bytes);
  REQUIRE(message(buffer->fill(std::byte{3})) == "ok");
  REQUIRE(message(wrap->fill(std::byte{4})) == "ok");
  stream.allocator.free(std::move(*buf), 4096);
  stream.allocator.free(std::move(*other), 4096);
  native::say("the parent went on");
}

TEST_CASE("in a forked child calls answer forked and frees do nothing") {
  const auto child = native::run_child("child: everything a forked child may ask answers forked");
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("the parent went on") != std::string::npos);
}

TEST_CASE("child: berth is first used after the fork", "[.]") {
  const int status = in_fork([] {
    auto allocator = opencl::Allocator::open(native::device().id);
    if (!allocator) return false;
    auto buf = allocator->alloc(100, {.zero = true});
    if (!buf) return false;
    std::vector<std::byte> back(100, std::byte{1});
    if (!allocator->copyout(back, *buf)) return false;
    allocator->free(std::move(*buf), 100, {.zero = true});
    return back == std::vector<std::byte>(100);
  });
  CHECK(status == 0);
  native::say("worked in the child");
}

TEST_CASE("a child forked before berth was used may use it") {
  const auto child = native::run_child("child: berth is first used after the fork");
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("worked in the child") != std::string::npos);
}

TEST_CASE("child: buffers outlive main", "[.]") {
  auto allocator = opencl::Allocator::open(native::device().id);
  REQUIRE(message(allocator) == "ok");
  late.allocator = *allocator;
  auto buf = allocator->alloc(64);
  REQUIRE(message(buf) == "ok");
  late.buf = *buf;
  auto buffer = Buffer::create(pack(*allocator), 4096);
  REQUIRE(message(buffer) == "ok");
  auto map = allocator->map(*buf, Access::write, 10, 0);
  REQUIRE(message(map) == "ok");
  late.mapping = std::move(*map);
  late.buffer = std::move(*buffer);
  static native::Pages pages(4096);
  auto external = Buffer::create(pack(*allocator), 4096, {.external_ptr = pages.data()});
  REQUIRE(message(external) == "ok");
  late.external = std::move(*external);
  native::say("main is over");
}

TEST_CASE("a static buffer may be destroyed after main: no driver is called") {
  const auto child = native::run_child("child: buffers outlive main");
  INFO(child.output);
  CHECK(child.status == 0);
  for (const char* line : {"main is over", "late copyin: exiting", "late alloc: exiting",
                           "late synchronize: exiting", "late platforms: exiting", "late open: exiting",
                           "late free: done", "late unmap: done", "late buffers: done"}) {
    CAPTURE(line);
    CHECK(child.output.find(line) != std::string::npos);
  }
}

TEST_CASE("child: a static made in main is freed before the driver goes", "[.]") {
  auto allocator = opencl::Allocator::open(native::device().id);
  REQUIRE(message(allocator) == "ok");
  static Buffer buffer;
  auto made = Buffer::create(pack(std::move(*allocator)), 4096);
  REQUIRE(message(made) == "ok");
  buffer = std::move(*made);
  native::say("main is over");
}

TEST_CASE("a static buffer made in main is fine as well") {
  const auto child = native::run_child("child: a static made in main is freed before the driver goes");
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("main is over") != std::string::npos);
}
