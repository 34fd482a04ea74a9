// SPDX-License-Identifier: MIT
// Host access to device memory: a copy that goes back when the map ends.
#include <berth/cuda/allocator.hpp>

#include <algorithm>

#include "support/cuda_fixture.hpp"
#include "support/reports.hpp"

using namespace berth;
using cuda::CudaBuffer;
using native::all;
using native::content;

namespace {

constexpr std::size_t nbytes = 5000;

struct Mapped {
  Mapped() : buf(made()) {}
  ~Mapped() { user.allocator.free(buf, nbytes); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  native::Borrowed user;
  CudaBuffer buf;

 private:
  CudaBuffer made() {
    auto allocated = user.allocator.alloc(nbytes);
    REQUIRE(message(allocated) == "ok");
    REQUIRE(message(user.allocator.fill(*allocated, std::byte{1})) == "ok");
    return *allocated;
  }
};

}  // namespace

TEST_CASE("a read map copies out and never back") {
  native::Machine machine;
  Mapped m;
  if (machine.fake()) machine->reset();
  {
    auto map = m.user.allocator.map(m.buf, Access::read, 100, 50);
    REQUIRE(message(map) == "ok");
    CHECK(all(map->bytes(), 1));
    std::ranges::fill(map->bytes(), std::byte{2});
  }
  CHECK(all(content(m.user.allocator, m.buf), 1));
  if (machine.fake()) CHECK(machine->calls("cuMemcpyHtoDAsync") == 0);
}

TEST_CASE("an overwriting map does not copy out") {
  native::Machine machine;
  Mapped m;
  if (machine.fake()) machine->reset();
  {
    auto map = m.user.allocator.map(m.buf, Access::overwrite, 100, 50);
    REQUIRE(message(map) == "ok");
    if (machine.fake()) CHECK(machine->calls("cuMemcpyDtoHAsync") == 0);
    std::ranges::fill(map->bytes(), std::byte{3});
    REQUIRE(message(map->unmap()) == "ok");
  }
  const auto seen = content(m.user.allocator, m.buf);
  CHECK(all(std::span(seen).subspan(50, 100), 3));
  CHECK(all(std::span(seen).first(50), 1));
  CHECK(all(std::span(seen).subspan(150), 1));
}

TEST_CASE("maps that would undo each other, and work under a map, are mapped") {
  const native::Machine machine;
  Mapped m;
  cuda::Allocator& a = m.user.allocator;
  auto other = a.alloc(nbytes, {.zero = true});
  REQUIRE(message(other) == "ok");
  std::vector<std::byte> bytes(100);
  {
    auto reads = a.map(m.buf, Access::read, 100, 0);
    auto writes = a.map(m.buf, Access::write, 100, 200);
    REQUIRE(message(reads) == "ok");
    REQUIRE(message(writes) == "ok");
    CHECK(outcome(a.map(m.buf, Access::read, 100, 99)) == "mapped");
    CHECK(outcome(a.map(m.buf, Access::read, 10, 299)) == "mapped");
    CHECK(outcome(a.map(m.buf, Access::read, 10, 300)) == "ok");
    CHECK(outcome(a.fill(m.buf, std::byte{4})) == "mapped");
    CHECK(outcome(a.copyin(m.buf, bytes)) == "mapped");
    CHECK(outcome(a.copyout(bytes, m.buf)) == "ok");  // under the reading map alone
    CHECK(outcome(a.transfer(*other, m.buf, 200)) == "ok");
    CHECK(outcome(a.transfer(*other, m.buf, 201)) == "mapped");
    CHECK(outcome(a.transfer(m.buf, *other, 1)) == "mapped");
    const auto view = a.offset(m.buf, 100, 100);
    REQUIRE(message(view) == "ok");
    CHECK(outcome(a.fill(*view, std::byte{4})) == "ok");  // between the two
  }
  CHECK(outcome(a.fill(m.buf, std::byte{5})) == "ok");
  CHECK(all(content(a, m.buf), 5));
  a.free(*other, nbytes, {.zero = true});
}

TEST_CASE("a block freed while it is mapped is reported, and ends with the map") {
  native::Machine machine;
  Reports reports;
  native::Borrowed user;
  auto buf = user.allocator.alloc(nbytes);
  REQUIRE(message(buf) == "ok");
  auto map = user.allocator.map(*buf, Access::write, 100, 0);
  REQUIRE(message(map) == "ok");
  user.allocator.free(*buf, nbytes);
  const auto told = reports.take();
  REQUIRE(told.size() == 1);
  CHECK(told.front().find("mapped") != std::string::npos);
  if (machine.fake()) CHECK(machine->balance().allocations == 1);
  REQUIRE(message(map->unmap()) == "ok");
  if (machine.fake()) CHECK(machine->balance().allocations == 0);
  CHECK(reports.take().empty());
}

TEST_CASE("pinned memory freed while it is mapped is reported, and ends with the map") {
  native::Machine machine;
  native::Borrowed user;
  Reports reports;
  auto buf = user.allocator.alloc(nbytes, {.host = true});
  REQUIRE(message(buf) == "ok");
  auto map = user.allocator.map(*buf, Access::write, nbytes);
  REQUIRE(message(map) == "ok");
  CHECK(map->bytes().data() == buf->host_data());
  CHECK(outcome(user.allocator.fill(*buf, std::byte{1})) == "mapped");
  CHECK(outcome(user.allocator.map(*buf, Access::read, 1)) == "mapped");
  user.allocator.free(*buf, nbytes, {.host = true});
  CHECK(reports.take().size() == 1);
  std::ranges::fill(map->bytes(), std::byte{1});
  CHECK(message(map->unmap()) == "ok");
  if (machine.fake()) CHECK(machine->balance().pinned == 0);
}

TEST_CASE("a map is on the handle's stream") {
  const native::Machine machine;
  Mapped m;
  REQUIRE(message(m.user.allocator.synchronize()) == "ok");
  const auto other = m.user.another_stream();
  auto on_other = m.user.allocator.on(cuda::borrow_queue(other));
  REQUIRE(message(on_other) == "ok");
  native::Gate gate(m.user.context);
  gate.close(m.user.stream);
  {
    auto map = on_other->map(m.buf, Access::write, 10, 0);
    REQUIRE(message(map) == "ok");
    std::ranges::fill(map->bytes(), std::byte{6});
    REQUIRE(message(map->unmap()) == "ok");
  }
  auto view = on_other->offset(m.buf, 10, 0);
  REQUIRE(message(view) == "ok");
  CHECK(all(content(*on_other, *view), 6));
  gate.open();
}
