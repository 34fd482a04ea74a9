// SPDX-License-Identifier: MIT
// Memory of the caller's that a device uses in place.
#include <berth/core/host_range.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/queue.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/opencl_fixture.hpp"
#include "support/reports.hpp"
#include "support/skip.hpp"

using namespace berth;
using namespace std::chrono_literals;
using opencl::ClBuffer;

namespace {

constexpr std::size_t page = 4096;

constexpr const char* source = R"(
  kernel void write(global uchar* out, uchar first) {
    const size_t i = get_global_id(0);
    out[i] = (uchar)(first + i);
  }
  kernel void write_slowly(global uchar* out, uchar first, uint rounds) {
    const size_t i = get_global_id(0);
    volatile uint state = (uint)i;
    for (uint round = 0; round < rounds; ++round) {
      state = state * 1664525u + 1013904223u;
      out[i] = (uchar)state;
    }
    out[i] = (uchar)(first + i);
  }
)";

struct Wrap {
  Wrap() : program(stream.context, stream.description.id, source), write(program.kernel("write")) {}

  ClBuffer wrapped(void* address, std::size_t nbytes) {
    auto buf = stream.allocator.alloc(nbytes, {.external_ptr = address});
    REQUIRE(message(buf) == "ok");
    return *buf;
  }
  void free(const ClBuffer& buf, void* address) {
    stream.allocator.free(buf, buf.nbytes(), {.external_ptr = address});
  }
  /// Frees after a read map, which brings the bytes home on a device that keeps a copy of its own.
  void free_at_home(const ClBuffer& buf, void* address) {
    REQUIRE(message(stream.allocator.map(buf, Access::read, buf.nbytes(), 0)) == "ok");
    free(buf, address);
  }
  /// The device writes to the pages themselves, so that free alone leaves them with what it wrote.
  [[nodiscard]] bool in_place() const { return stream.description.unified_memory; }

  native::Stream stream;
  native::Program program;
  native::Owned<cl_kernel> write;
};

bool counts_up(std::span<const std::byte> bytes, unsigned first) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != static_cast<std::byte>(first + i)) return false;
  }
  return true;
}

/// Frees on another thread and tells when that returned.
class Freeing {
 public:
  Freeing(opencl::Allocator allocator, ClBuffer buf, void* address)
      : thread_([this, allocator, buf, address]() mutable {
          allocator.free(buf, buf.nbytes(), {.external_ptr = address});
          returned_ = true;
        }) {}
  [[nodiscard]] bool returned() const { return returned_; }
  void join() { thread_.join(); }

 private:
  std::atomic<bool> returned_{false};
  std::jthread thread_;
};

}  // namespace

TEST_CASE("a wrap is the caller's memory, both ways") {
  Wrap fixture;
  native::Stream& stream = fixture.stream;
  const native::Pages pages(page);
  const auto bytes = native::pattern(page);
  std::ranges::copy(bytes, pages.data());
  const ClBuffer buf = fixture.wrapped(pages.data(), page);
  CHECK(native::content(stream.allocator, buf) == bytes);

  launch(stream.queue, fixture.write, page, buf.root(), cl_uchar{3});
  {
    const auto map = stream.allocator.map(buf, Access::read, page, 0);
    REQUIRE(message(map) == "ok");
    CHECK(map->bytes().data() == pages.data());
    CHECK(counts_up(pages.bytes(), 3));
  }
  {
    const auto map = stream.allocator.map(buf, Access::write, 100, 1000);
    REQUIRE(message(map) == "ok");
    CHECK(map->bytes().data() == pages.data() + 1000);
    std::ranges::fill(map->bytes(), std::byte{0x77});
  }
  const auto seen = native::content(stream.allocator, buf);
  CHECK(counts_up(std::span(seen).first(1000), 3));
  CHECK(std::ranges::count(std::span(seen).subspan(1000, 100), std::byte{0x77}) == 100);
  fixture.free(buf, pages.data());
  CHECK(std::ranges::equal(pages.bytes(), seen));
}

TEST_CASE("an address below the alignment is misaligned, with the numbers") {
  Wrap fixture;
  const native::Pages pages(2 * page);
  for (const std::size_t off : {1U, 2U, 4U, 8U, 16U, 32U, 63U, 65U, 96U}) {
    CAPTURE(off);
    void* const address = pages.data() + off;
    const auto buf = fixture.stream.allocator.alloc(page, {.external_ptr = address});
    REQUIRE(outcome(buf) == "misaligned");
    CHECK(buf.error().position() == reinterpret_cast<std::uintptr_t>(address));
    CHECK(buf.error().limit() == 64U);
    CHECK(buf.error().asked() == page);
  }
  for (const std::size_t off : {0U, 64U, 128U, 192U}) {
    CAPTURE(off);
    std::ranges::fill(pages.bytes(), std::byte{0x11});
    const ClBuffer buf = fixture.wrapped(pages.data() + off, 100);
    launch(fixture.stream.queue, fixture.write, 100, buf.root(), cl_uchar{9});
    fixture.free_at_home(buf, pages.data() + off);
    CHECK(counts_up(pages.bytes().subspan(off, 100), 9));
    CHECK(std::ranges::count(pages.bytes(), std::byte{0x11}) >= static_cast<std::ptrdiff_t>(2 * page - 101));
    CHECK(pages.bytes()[off + 100] == std::byte{0x11});
  }
}

TEST_CASE("zero and external_ptr contradict each other") {
  Wrap fixture;
  const native::Pages pages(page);
  std::ranges::fill(pages.bytes(), std::byte{0x22});
  CHECK(outcome(fixture.stream.allocator.alloc(page, {.zero = true, .external_ptr = pages.data()})) ==
        "invalid_argument");
  CHECK(std::ranges::count(pages.bytes(), std::byte{0x22}) == static_cast<std::ptrdiff_t>(page));
  fixture.free(fixture.wrapped(pages.data(), page), pages.data());  // nothing stayed claimed
}

TEST_CASE("two links never share a byte") {
  Wrap fixture;
  auto other = opencl::Allocator::open(fixture.stream.description.id);
  REQUIRE(message(other) == "ok");
  const native::Pages pages(4 * page);
  std::byte* const base = pages.data();
  const ClBuffer middle = fixture.wrapped(base + page, page);

  const auto refused = [&](std::size_t first, std::size_t nbytes) {
    CAPTURE(first, nbytes);
    for (opencl::Allocator* allocator : {&fixture.stream.allocator, &*other}) {
      const auto buf = allocator->alloc(nbytes, {.external_ptr = base + first});
      REQUIRE(outcome(buf) == "overlap");
      CHECK(buf.error().position() == reinterpret_cast<std::uintptr_t>(base + page));
      CHECK(buf.error().limit() == page);
    }
    CHECK(outcome(HostRange::claim({base + first, nbytes}, "test")) == "overlap");
  };
  refused(page, page);
  refused(0, page + 1);
  refused(2 * page - 64, page);
  refused(page + 64, 64);
  refused(0, 4 * page);

  // Adjacent ones are fine, on either side.
  const ClBuffer before = fixture.wrapped(base, page);
  const ClBuffer after = fixture.wrapped(base + 2 * page, page);
  launch(fixture.stream.queue, fixture.write, page, middle.root(), cl_uchar{1});
  launch(fixture.stream.queue, fixture.write, page, before.root(), cl_uchar{2});
  launch(fixture.stream.queue, fixture.write, page, after.root(), cl_uchar{3});
  fixture.free_at_home(before, base);
  fixture.free_at_home(after, base + 2 * page);
  fixture.free_at_home(middle, base + page);
  CHECK(counts_up(pages.bytes().subspan(page, page), 1));
  CHECK(counts_up(pages.bytes().first(page), 2));
  CHECK(counts_up(pages.bytes().subspan(2 * page, page), 3));
}

TEST_CASE("a claim is given up by free, and by an allocation that failed") {
  Wrap fixture;
  const native::Pages pages(page);
  for (int i = 0; i < 3; ++i) {
    const ClBuffer buf = fixture.wrapped(pages.data(), page);
    CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "overlap");
    fixture.free(buf, pages.data());
    CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
  }
  const std::size_t too_large = fixture.stream.description.max_alloc_bytes + 1;
  CHECK(outcome(fixture.stream.allocator.alloc(too_large, {.external_ptr = pages.data()})) ==
        "exceeds_device_maximum");
  {
    auto claim = HostRange::claim(pages.bytes(), "test");
    REQUIRE(message(claim) == "ok");
    CHECK(outcome(fixture.stream.allocator.alloc(page, {.external_ptr = pages.data()})) == "overlap");
  }
  fixture.free(fixture.wrapped(pages.data(), page), pages.data());
}

TEST_CASE("free returns after the queued kernel that writes there has run") {
  Wrap fixture;
  native::Stream& stream = fixture.stream;
  native::Pages pages(page);
  const ClBuffer buf = fixture.wrapped(pages.data(), page);
  native::Gate gate(stream.context);
  gate.close(stream.queue);
  const auto written = launch(stream.queue, fixture.write, page, buf.root(), cl_uchar{7});

  Freeing freeing(stream.allocator, buf, pages.data());
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(freeing.returned());
  CHECK(native::pending(written));
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "overlap");
  gate.open();
  freeing.join();
  CHECK_FALSE(native::pending(written));
  if (fixture.in_place()) CHECK(counts_up(pages.bytes(), 7));
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
}

TEST_CASE("after a free the memory may be unmapped, though a slow kernel was writing to it") {
  Wrap fixture;
  const auto slow = fixture.program.kernel("write_slowly");
  for (int round = 0; round < 3; ++round) {
    native::Pages pages(page);
    const ClBuffer buf = fixture.wrapped(pages.data(), page);
    auto view = fixture.stream.allocator.offset(buf, 1000, 2048);
    REQUIRE(message(view) == "ok");
    const auto arg = fixture.stream.allocator.kernel_arg(*view);
    REQUIRE(message(arg) == "ok");
    launch(fixture.stream.queue, slow, page, buf.root(), cl_uchar{5}, cl_uint{20000});
    launch(fixture.stream.queue, fixture.write, 1000, arg->mem, cl_uchar{6});
    fixture.free(buf, pages.data());
    const std::vector<std::byte> last(pages.bytes().begin(), pages.bytes().end());
    pages.unmap();  // a kernel that still ran would end this program
    if (!fixture.in_place()) continue;
    CHECK(counts_up(std::span(last).first(2048), 5));
    CHECK(counts_up(std::span(last).subspan(2048, 1000), 6));
  }
}

TEST_CASE("free waits for the other queues that use the memory") {
  Wrap fixture;
  native::Stream& stream = fixture.stream;
  const auto second = stream.another_queue();
  native::Pages pages(page);
  const ClBuffer buf = fixture.wrapped(pages.data(), page);
  auto on_second = stream.allocator.on(opencl::borrow_queue(second));
  REQUIRE(message(on_second) == "ok");
  opencl::Allocator frees = stream.allocator;
  native::Gate gate(stream.context);

  SECTION("told by record_use") {
    REQUIRE(message(stream.allocator.record_use(buf, opencl::borrow_queue(second))) == "ok");
    gate.close(second);
    launch(second, fixture.write, page, buf.root(), cl_uchar{8});
  }
  SECTION("the allocator's own queue, when a handle on another frees") {
    frees = *on_second;
    gate.close(stream.queue);
    launch(stream.queue, fixture.write, page, buf.root(), cl_uchar{8});
  }
  SECTION("a handle's queue, when the handle frees") {
    frees = *on_second;
    gate.close(second);
    launch(second, fixture.write, page, buf.root(), cl_uchar{8});
  }
  Freeing freeing(frees, buf, pages.data());
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(freeing.returned());
  gate.open();
  freeing.join();
  if (fixture.in_place()) CHECK(counts_up(pages.bytes(), 8));
  pages.unmap();
}

TEST_CASE("a free that waits for long says so once, and goes on waiting") {
  Reports reports;
  Wrap fixture;
  if (!fixture.in_place()) return left_out("the driver may wait in the release");
  native::Stream& stream = fixture.stream;
  const auto second = stream.another_queue();
  native::Pages pages(page);
  const ClBuffer buf = fixture.wrapped(pages.data(), page);
  native::Gate gate(stream.context);
  gate.close(second);
  launch(second, fixture.write, page, buf.root(), cl_uchar{8});

  Freeing freeing(stream.allocator, buf, pages.data());
  std::vector<std::string> told;
  for (int i = 0; i < 1000 && told.empty(); ++i) {
    std::this_thread::sleep_for(10ms);
    told = reports.take();
  }
  REQUIRE(told.size() == 1);
  CHECK(told.front().find("never flushed") != std::string::npos);
  CHECK_FALSE(freeing.returned());
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "overlap");
  gate.open();
  freeing.join();
  CHECK(counts_up(pages.bytes(), 8));
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
  CHECK(reports.take().empty());
}

TEST_CASE("a wrap freed while it is mapped is reported, and ends with the map") {
  Reports reports;
  Wrap fixture;
  native::Pages pages(page);
  const ClBuffer buf = fixture.wrapped(pages.data(), page);
  auto map = fixture.stream.allocator.map(buf, Access::write, page, 0);
  REQUIRE(message(map) == "ok");
  fixture.free(buf, pages.data());
  const auto told = reports.take();
  REQUIRE(told.size() == 1);
  CHECK(told.front().find("mapped") != std::string::npos);
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "overlap");

  std::ranges::fill(map->bytes(), std::byte{0x44});
  REQUIRE(message(map->unmap()) == "ok");
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
  CHECK(std::ranges::count(pages.bytes(), std::byte{0x44}) == static_cast<std::ptrdiff_t>(page));
  pages.unmap();
  CHECK(reports.take().empty());
}

TEST_CASE("views and copies work inside a wrap") {
  Wrap fixture;
  native::Stream& stream = fixture.stream;
  const native::Pages pages(page);
  const ClBuffer buf = fixture.wrapped(pages.data(), page);
  const auto bytes = native::pattern(page);
  REQUIRE(message(stream.allocator.copyin(buf, bytes)) == "ok");
  auto view = stream.allocator.offset(buf, 500, 1001);
  REQUIRE(message(view) == "ok");
  CHECK(native::content(stream.allocator, *view) ==
        std::vector<std::byte>(bytes.begin() + 1001, bytes.begin() + 1501));
  auto own = stream.allocator.alloc(500);
  REQUIRE(message(own) == "ok");
  REQUIRE(message(stream.allocator.fill(*own, std::byte{0x33})) == "ok");
  REQUIRE(message(stream.allocator.transfer(*view, *own, 500)) == "ok");
  stream.allocator.free(std::move(*own), 500);
  fixture.free_at_home(buf, pages.data());
  CHECK(std::ranges::count(pages.bytes().subspan(1001, 500), std::byte{0x33}) == 500);
  CHECK(std::ranges::equal(pages.bytes().first(1001), std::span(bytes).first(1001)));
  CHECK(std::ranges::equal(pages.bytes().subspan(1501), std::span(bytes).subspan(1501)));
}

TEST_CASE("a queue recorded for each launch is kept once; of a carved part, too") {
  Wrap fixture;
  native::Stream& stream = fixture.stream;
  const auto second = stream.another_queue();
  const native::Pages pages(page);
  const ClBuffer buf = fixture.wrapped(pages.data(), page);
  auto part = stream.allocator.carve(buf, 512, 0);
  REQUIRE(message(part) == "ok");
  const cl_uint before = native::references(second.get());
  for (int launch = 0; launch < 100; ++launch) {
    REQUIRE(message(stream.allocator.record_use(buf, opencl::borrow_queue(second))) == "ok");
    REQUIRE(message(stream.allocator.record_use(*part, opencl::borrow_queue(second))) == "ok");
  }
  CHECK(native::references(second.get()) == before + 1);
  stream.allocator.free(*part, 512);
  fixture.free(buf, pages.data());
  CHECK(native::settled(second.get(), before) == before);
}

TEST_CASE("an empty wrap claims nothing") {
  native::Stream stream;
  const native::Pages pages(page);
  auto buf = stream.allocator.alloc(0, {.external_ptr = pages.data() + 1});
  REQUIRE(message(buf) == "ok");
  CHECK(buf->root() == nullptr);
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
  stream.allocator.free(std::move(*buf), 0, {.external_ptr = pages.data() + 1});
}

TEST_CASE("wrap says more than external_ptr: who writes, and what alignment is enough") {
  Wrap fixture;
  opencl::Allocator& allocator = fixture.stream.allocator;
  const native::Pages pages(2 * page);
  const auto flags = [](const ClBuffer& buf) {
    return native::property<cl_mem_flags>(buf.root(), CL_MEM_FLAGS);
  };

  auto writable = allocator.wrap(pages.bytes().first(page));
  REQUIRE(message(writable) == "ok");
  CHECK((flags(*writable) & (CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE)) ==
        (CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE));
  auto constant = allocator.wrap(pages.bytes().subspan(page), {.read_only = true});
  REQUIRE(message(constant) == "ok");
  CHECK((flags(*constant) & (CL_MEM_USE_HOST_PTR | CL_MEM_READ_ONLY)) ==
        (CL_MEM_USE_HOST_PTR | CL_MEM_READ_ONLY));
  CHECK(outcome(allocator.wrap(pages.bytes())) == "overlap");
  allocator.free(*writable, writable->nbytes());  // whatever the spec
  allocator.free(*constant, constant->nbytes());
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");

  CHECK(outcome(allocator.wrap(pages.bytes().subspan(4, 100))) == "misaligned");
  CHECK(outcome(allocator.wrap(pages.bytes().subspan(2, 100), {.alignment = 4})) == "misaligned");
  auto odd = allocator.wrap(pages.bytes().subspan(4, 100), {.alignment = 4});
  REQUIRE(message(odd) == "ok");
  launch(fixture.stream.queue, fixture.write, 100, odd->root(), cl_uchar{3});
  fixture.free_at_home(*odd, pages.data() + 4);
  CHECK(counts_up(pages.bytes().subspan(4, 100), 3));
  CHECK(outcome(allocator.wrap({static_cast<std::byte*>(nullptr), 16})) == "invalid_argument");
  CHECK(outcome(allocator.wrap({})) == "ok");
}
