// SPDX-License-Identifier: MIT
// What each spec asks of the driver, and what berth refuses before the driver sees it.
#include <berth/core/host_range.hpp>
#include <berth/cuda/allocator.hpp>

#include <cstring>

#include "support/cuda_fixture.hpp"
#include "support/pages.hpp"
#include "support/reports.hpp"
#include "support/skip.hpp"

using namespace berth;
using cuda::CudaBuffer;
using native::abi::DevicePtr;

namespace {

constexpr std::size_t page = 4096;

CudaBuffer allocated(cuda::Allocator& allocator, std::size_t nbytes, const BufferSpec& spec = {}) {
  auto buf = allocator.alloc(nbytes, spec);
  REQUIRE(message(buf) == "ok");
  return *buf;
}

void* as_pointer(DevicePtr address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

}  // namespace

TEST_CASE("info tells the device's facts") {
  const native::Machine machine;
  native::Borrowed user;
  const auto description = cuda::describe(0, &native::driver());
  REQUIRE(message(description) == "ok");
  const AllocatorInfo info = user.allocator.info();
  CHECK(std::string(info.backend) == "cuda");
  CHECK(info.total_bytes == description->total_bytes);
  CHECK(info.max_bytes == description->total_bytes);
  CHECK(info.device == description->key);
  CHECK_FALSE(info.shares_host_memory);
  const native::Borrowed again;
  CHECK(again.allocator.info().device == info.device);
  CHECK(again.allocator.info().instance != info.instance);
}

TEST_CASE("a plain buffer is device memory: an address, and nothing for the host") {
  const native::Machine machine;
  native::Borrowed user;
  const CudaBuffer buf = allocated(user.allocator, 1000);
  CHECK(buf.host_data() == nullptr);
  CHECK(buf.address() % 256 == 0);
  CHECK(user.allocator.addr(buf) == buf.address());
  const auto view = user.allocator.offset(buf, 10, 333);
  REQUIRE(message(view) == "ok");
  CHECK(view->address() == buf.address() + 333);
  CHECK(view->block() == buf.block());
  user.allocator.free(buf, 1000);
}

TEST_CASE("host is pinned memory, seen by the host and the device") {
  native::Machine machine;
  native::Borrowed user;
  const bool uncached = GENERATE(false, true);
  const BufferSpec spec{.uncached = uncached, .host = true};
  const CudaBuffer buf = allocated(user.allocator, 1000, spec);
  REQUIRE(buf.host_data() != nullptr);
  if (machine.fake()) {
    CHECK(machine->host_flags(buf.host_data()) ==
          (native::abi::memhostalloc_portable | native::abi::memhostalloc_devicemap |
           (uncached ? native::abi::memhostalloc_writecombined : 0U)));
    CHECK(machine->free_bytes() == user.allocator.info().total_bytes);
  }
  const auto bytes = native::pattern(1000);
  std::memcpy(buf.host_data(), bytes.data(), bytes.size());
  CHECK(native::content(user.allocator, buf) == bytes);
  REQUIRE(message(user.allocator.fill(buf, std::byte{7})) == "ok");
  {
    auto map = user.allocator.map(buf, Access::read, 100, 50);
    REQUIRE(message(map) == "ok");
    CHECK(map->bytes().data() == buf.host_data() + 50);  // the bytes themselves, after the fill
    CHECK(native::all(map->bytes(), 7));
  }
  const auto view = user.allocator.offset(buf, 10, 900);
  REQUIRE(message(view) == "ok");
  CHECK(view->host_data() == buf.host_data() + 900);
  user.allocator.free(buf, 1000, spec);
}

TEST_CASE("zero is queued, and whole") {
  const native::Machine machine;
  native::Borrowed user;
  for (const BufferSpec spec : {BufferSpec{.zero = true}, BufferSpec{.host = true, .zero = true}}) {
    const CudaBuffer buf = allocated(user.allocator, 5000, spec);
    CHECK(native::all(native::content(user.allocator, buf), 0));
    user.allocator.free(buf, 5000, spec);
  }
}

TEST_CASE("an empty buffer makes no call") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  native::Borrowed user;
  machine->reset();
  const CudaBuffer buf = allocated(user.allocator, 0, {.host = true});
  CHECK(user.allocator.addr(buf) == 0U);
  CHECK(buf.host_data() == nullptr);
  CHECK(message(user.allocator.copyin(buf, {})) == "ok");
  CHECK(message(user.allocator.fill(buf, std::byte{1})) == "ok");
  CHECK(message(user.allocator.transfer(buf, buf, 0)) == "ok");
  user.allocator.free(buf, 0, {.host = true});
  CHECK(machine->calls() == 0);
}

TEST_CASE("memory that runs out is out_of_memory with the bytes asked, and can be had again") {
  native::Machine machine({.total_bytes = 1 << 20});
  if (!machine.fake())
    return left_out("only the fake driver can be told to do this");  // the ladder's test exhausts a real one
  native::Borrowed user;
  const CudaBuffer most = allocated(user.allocator, 1000 << 10);
  const auto refused = user.allocator.alloc(100 << 10);
  REQUIRE(outcome(refused) == "out_of_memory");
  CHECK(refused.error().message() == "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2), asked 102400 bytes");
  CHECK(outcome(user.allocator.alloc((1 << 20) + 1)) == "exceeds_device_maximum");
  user.allocator.free(most, 1000 << 10);
  user.allocator.free(allocated(user.allocator, 1 << 20), 1 << 20);
}

TEST_CASE("what was freed is free, by the driver's own figure") {
  const native::Machine machine;
  native::Borrowed user;
  const auto free_bytes = [&] {
    const native::Entered entered(user.context);
    std::size_t free = 0;
    std::size_t total = 0;
    REQUIRE_CUDA(native::driver().mem_get_info(&free, &total));
    return free;
  };
  constexpr std::size_t large = std::size_t{32} << 20U;
  const auto round = [&] {
    const CudaBuffer first = allocated(user.allocator, large);
    const CudaBuffer second = allocated(user.allocator, large, {.zero = true});
    REQUIRE(message(user.allocator.transfer(first, second, large)) == "ok");
    user.allocator.free(first, large);
    user.allocator.free(second, large, {.zero = true});
  };
  round();
  const std::size_t before = free_bytes();
  for (int i = 0; i < 20; ++i) round();
  CHECK(free_bytes() + large > before);  // a leak is twenty times as much
}

TEST_CASE("pinned memory that runs out is out_of_memory") {
  native::Machine machine({.pinned_bytes = 10'000});
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  native::Borrowed user;
  const auto refused = user.allocator.alloc(10'001, {.host = true});
  REQUIRE(outcome(refused) == "out_of_memory");
  CHECK(refused.error().call() == "cuMemHostAlloc");
  user.allocator.free(allocated(user.allocator, 10'000, {.host = true}), 10'000, {.host = true});
}

// Memory of the caller's.

TEST_CASE("external_ptr is a device address, used in place and never freed") {
  native::Machine machine;
  native::Borrowed user;
  const CudaBuffer own = allocated(user.allocator, page);
  REQUIRE(message(user.allocator.fill(own, std::byte{1})) == "ok");
  const BufferSpec spec{.external_ptr = as_pointer(own.address() + 100)};
  const CudaBuffer wrap = allocated(user.allocator, 200, spec);
  CHECK(wrap.address() == own.address() + 100);
  REQUIRE(message(user.allocator.fill(wrap, std::byte{2})) == "ok");
  user.allocator.free(wrap, 200, spec);
  const auto seen = native::content(user.allocator, own);
  CHECK(native::all(std::span(seen).subspan(100, 200), 2));
  CHECK(native::all(std::span(seen).first(100), 1));
  user.allocator.free(own, page);
}

TEST_CASE("an address that is none of the device's is refused") {
  const native::Machine machine;
  native::Borrowed user;
  std::vector<std::byte> pageable(page);
  CHECK(outcome(user.allocator.alloc(16, {.external_ptr = pageable.data()})) == "invalid_argument");
  const native::Borrowed other;
  auto far = cuda::Allocator(other.allocator);
  const CudaBuffer theirs = allocated(far, 16);
  CHECK(outcome(user.allocator.alloc(16, {.external_ptr = as_pointer(theirs.address())})) ==
        "invalid_argument");
  CHECK(outcome(user.allocator.alloc(16, {.zero = true, .external_ptr = as_pointer(theirs.address())})) ==
        "invalid_argument");
  far.free(theirs, 16);
}

TEST_CASE("host with external_ptr registers the caller's memory") {
  native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(2 * page);
  const auto bytes = native::pattern(page);
  std::memcpy(pages.data(), bytes.data(), page);
  const BufferSpec spec{.host = true, .external_ptr = pages.data()};
  const CudaBuffer wrap = allocated(user.allocator, page, spec);
  CHECK(wrap.host_data() == pages.data());
  if (machine.fake()) CHECK(machine->balance().registered == 1);
  CHECK(native::content(user.allocator, wrap) == bytes);
  REQUIRE(message(user.allocator.fill(wrap, std::byte{9})) == "ok");
  REQUIRE(message(user.allocator.synchronize()) == "ok");
  CHECK(native::all(pages.bytes().first(page), 9));

  SECTION("once: links share no byte") {
    CHECK(outcome(user.allocator.alloc(page, spec)) == "overlap");
    CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "overlap");
  }
  SECTION("until it is freed") { REQUIRE(message(user.allocator.fill(wrap, std::byte{10})) == "ok"); }
  const bool filled = GENERATE(false, true);
  if (filled) REQUIRE(message(user.allocator.fill(wrap, std::byte{11})) == "ok");
  user.allocator.free(wrap, page, spec);  // after the fill
  if (filled) CHECK(native::all(pages.bytes().first(page), 11));
  if (machine.fake()) CHECK(machine->balance().registered == 0);
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
}

TEST_CASE("host memory below 64 bytes of alignment is misaligned, with the numbers") {
  const native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(page);
  for (const std::size_t off : {1U, 8U, 32U, 63U}) {
    const auto buf = user.allocator.alloc(100, {.host = true, .external_ptr = pages.data() + off});
    REQUIRE(outcome(buf) == "misaligned");
    CHECK(buf.error().position() == reinterpret_cast<std::uintptr_t>(pages.data() + off));
    CHECK(buf.error().limit() == 64U);
  }
  CHECK(outcome(HostRange::claim(pages.bytes(), "test")) == "ok");
}

// Frees.

TEST_CASE("a free waits for what the streams hold") {
  native::Machine machine;
  native::Borrowed user;
  const native::Stream other = user.another_stream();
  auto on_other = user.allocator.on(cuda::borrow_queue(other));
  REQUIRE(message(on_other) == "ok");
  for (const BufferSpec spec : {BufferSpec{}, BufferSpec{.host = true}}) {
    // The fake driver writes down memory that goes while queued work uses it.
    CudaBuffer buf = allocated(user.allocator, page, spec);
    REQUIRE(message(user.allocator.fill(buf, std::byte{1})) == "ok");
    user.allocator.free(buf, page, spec);

    buf = allocated(user.allocator, page, spec);
    REQUIRE(message(on_other->fill(buf, std::byte{1})) == "ok");
    on_other->free(buf, page, spec);

    buf = allocated(user.allocator, page, spec);
    REQUIRE(message(user.allocator.fill(buf, std::byte{1})) == "ok");
    on_other->free(buf, page, spec);

    buf = allocated(user.allocator, page, spec);
    REQUIRE(message(user.allocator.record_use(buf, cuda::borrow_queue(other))) == "ok");
    REQUIRE(message(user.allocator.record_use(buf, cuda::borrow_queue(other))) == "ok");
    REQUIRE(message(on_other->fill(buf, std::byte{1})) == "ok");
    user.allocator.free(buf, page, spec);
  }
}

TEST_CASE("without record_use the fake driver sees the free too early: the control") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  {
    native::Borrowed user;
    const native::Stream other = user.another_stream();
    auto on_other = user.allocator.on(cuda::borrow_queue(other));
    REQUIRE(message(on_other) == "ok");
    const CudaBuffer buf = allocated(user.allocator, page);
    REQUIRE(message(on_other->transfer(buf, buf, 0)) == "ok");
    REQUIRE(message(on_other->fill(buf, std::byte{1})) == "ok");
    user.allocator.free(buf, page);
    CHECK(machine->violations() == "cuMemFree: queued work uses the memory\n");
    machine->reset();
  }
}

TEST_CASE("frees of what is not one's own are reported and do nothing") {
  const native::Machine machine;
  Reports reports;
  native::Borrowed user;
  const CudaBuffer buf = allocated(user.allocator, page);
  const auto view = user.allocator.offset(buf, 10, 10);
  REQUIRE(message(view) == "ok");
  user.allocator.free(*view, 10);
  CHECK(reports.take().size() == 1);
  native::Borrowed other;
  other.allocator.free(buf, page);
  CHECK(reports.take().size() == 1);
  REQUIRE(message(user.allocator.fill(buf, std::byte{3})) == "ok");
  CHECK(native::all(native::content(user.allocator, buf), 3));
  user.allocator.free(buf, page);
  CHECK(reports.take().empty());
}

// Addresses that the caller allocated.

TEST_CASE("adopt takes an allocation over, borrow leaves it") {
  native::Machine machine;
  native::Borrowed user;
  DevicePtr first = 0;
  DevicePtr second = 0;
  {
    const native::Entered entered(user.context);
    REQUIRE_CUDA(native::driver().mem_alloc(&first, page));
    REQUIRE_CUDA(native::driver().mem_alloc(&second, page));
  }
  const auto adopted = user.allocator.adopt(first, page);
  REQUIRE(message(adopted) == "ok");
  CHECK(adopted->nbytes() == page);
  const auto borrowed = user.allocator.borrow(second + 1000, 96);
  REQUIRE(message(borrowed) == "ok");
  CHECK(borrowed->address() == second + 1000);
  CHECK_FALSE(borrowed->is_view());
  REQUIRE(message(user.allocator.fill(*borrowed, std::byte{5})) == "ok");
  user.allocator.free(*adopted, page);
  user.allocator.free(*borrowed, 96);
  if (machine.fake()) CHECK(machine->balance().allocations == 1);
  const auto whole = user.allocator.adopt(second, page);
  REQUIRE(message(whole) == "ok");
  const auto seen = native::content(user.allocator, *whole);
  CHECK(native::all(std::span(seen).subspan(1000, 96), 5));
  user.allocator.free(*whole, page);
}

TEST_CASE("what cannot be adopted or borrowed is refused, and stays the caller's") {
  native::Machine machine;
  native::Borrowed user;
  DevicePtr address = 0;
  {
    const native::Entered entered(user.context);
    REQUIRE_CUDA(native::driver().mem_alloc(&address, page));
  }
  CHECK(outcome(user.allocator.adopt(address, 0)) == "invalid_argument");
  CHECK(outcome(user.allocator.adopt(address + 256, 16)) == "invalid_argument");
  CHECK(outcome(user.allocator.borrow(address + page - 16, std::size_t{1} << 40U)) == "out_of_range");
  CHECK(outcome(user.allocator.borrow(address, SIZE_MAX)) == "out_of_range");
  CHECK(outcome(user.allocator.borrow(16, 16)) == "invalid_argument");
  native::Borrowed other;
  CHECK(outcome(other.allocator.adopt(address, page)) == "invalid_argument");
  const native::Entered entered(user.context);
  // cuMemFree would not free these.
  void* pinned = nullptr;
  DevicePtr seen = 0;
  REQUIRE_CUDA(native::driver().mem_host_alloc(
      &pinned, page, native::abi::memhostalloc_portable | native::abi::memhostalloc_devicemap));
  REQUIRE_CUDA(native::driver().mem_host_get_device_pointer(&seen, pinned, 0));
  CHECK(outcome(user.allocator.adopt(seen, page)) == "invalid_argument");
  REQUIRE_CUDA(native::driver().mem_free_host(pinned));
  // As an external address, too, the bytes must be of one allocation.
  const auto beyond = user.allocator.alloc(page * 256, {.external_ptr = as_pointer(address)});
  REQUIRE(outcome(beyond) == "out_of_range");
  CHECK(beyond.error().limit() >= page);
  CHECK(native::driver().mem_free(address) == native::abi::success);
}
