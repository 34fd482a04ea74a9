// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>
#include <berth/core/host_range.hpp>
#include <berth/host/allocator.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"

// An allocation that cannot be had is an error here, not the sanitizer's end of the program.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

using namespace berth;
using host::HostBuffer;

namespace {

host::Allocator opened(const host::Options& options = {}) {
  auto allocator = host::Allocator::open(options);
  REQUIRE(message(allocator) == "ok");
  return *allocator;
}

HostBuffer allocated(host::Allocator& allocator, std::size_t nbytes, const BufferSpec& spec = {}) {
  auto buf = allocator.alloc(nbytes, spec);
  REQUIRE(message(buf) == "ok");
  return *buf;
}

HostBuffer view(host::Allocator& allocator, const HostBuffer& buf, std::size_t nbytes,
                std::size_t byte_offset) {
  auto made = allocator.offset(buf, nbytes, byte_offset);
  REQUIRE(message(made) == "ok");
  return *made;
}

bool all(std::span<const std::byte> bytes, unsigned value) {
  return std::ranges::count(bytes, static_cast<std::byte>(value)) == std::ssize(bytes);
}

std::vector<std::byte> pattern(std::size_t nbytes) {
  std::vector<std::byte> bytes(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

std::uint64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (meminfo >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

}  // namespace

TEST_CASE("alignments that are no power of two, or below 64, are refused with the numbers") {
  for (const std::size_t alignment : {0U, 1U, 2U, 32U, 63U, 65U, 96U, 100U, 192U, 4095U, 4097U}) {
    CAPTURE(alignment);
    const auto allocator = host::Allocator::open({.alignment = alignment});
    REQUIRE(outcome(allocator) == "invalid_argument");
    CHECK(allocator.error().asked() == alignment);
    CHECK(allocator.error().limit() == 64U);
  }
  CHECK(outcome(host::Allocator::open({.alignment = SIZE_MAX})) == "invalid_argument");
}

TEST_CASE("every allocation has the alignment") {
  for (const std::size_t alignment : {64U, 128U, 4096U, 65536U}) {
    CAPTURE(alignment);
    auto allocator = opened({.alignment = alignment});
    CHECK(allocator.info().alignment == alignment);
    CHECK(allocator.info().granularity == alignment);
    std::vector<HostBuffer> live;
    for (const std::size_t nbytes : {1U, 2U, 63U, 64U, 65U, 1000U, 4097U, 100000U}) {
      live.push_back(allocated(allocator, nbytes));
      CHECK(live.back().nbytes() == nbytes);
      CHECK(live.back().bytes().size() == nbytes);
      CHECK_FALSE(live.back().is_view());
      CHECK(reinterpret_cast<std::uintptr_t>(live.back().data()) % alignment == 0);
      // The tail up to the alignment may be written, as OpenCL drivers do.
      std::fill_n(live.back().data(), (nbytes + alignment - 1) / alignment * alignment, std::byte{0xFF});
    }
    for (const HostBuffer& buf : live) allocator.free(buf, buf.nbytes());
  }
}

TEST_CASE("huge pages are a request") {
  auto allocator = opened({.huge_pages = true});
  constexpr std::size_t huge = std::size_t{2} << 20U;
  for (const std::size_t nbytes : {std::size_t{100}, huge - 1, huge, 3 * huge + 5}) {
    CAPTURE(nbytes);
    const HostBuffer buf = allocated(allocator, nbytes, {.zero = true});
    CHECK(reinterpret_cast<std::uintptr_t>(buf.data()) % (nbytes >= huge ? huge : 64) == 0);
    CHECK(all(buf.bytes(), 0));
    std::ranges::fill(buf.bytes(), std::byte{1});
    allocator.free(buf, nbytes, {.zero = true});
  }
}

TEST_CASE("zero means every byte, of memory used before too") {
  auto allocator = opened();
  for (const std::size_t nbytes : {1U, 63U, 64U, 1000U, 200003U}) {
    for (int round = 0; round < 3; ++round) {
      const HostBuffer used = allocated(allocator, nbytes);
      REQUIRE(message(allocator.fill(used, std::byte{0xAB})) == "ok");
      allocator.free(used, nbytes);
      const HostBuffer buf = allocated(allocator, nbytes, {.zero = true});
      REQUIRE(all(buf.bytes(), 0));
      allocator.free(buf, nbytes, {.zero = true});
    }
  }
}

TEST_CASE("every placement is met") {
  auto allocator = opened();
  for (const BufferSpec& spec : {BufferSpec{.host = true}, BufferSpec{.cpu_access = true},
                                 BufferSpec{.uncached = true}, BufferSpec{.nolru = true}}) {
    const HostBuffer buf = allocated(allocator, 10, spec);
    std::ranges::fill(buf.bytes(), std::byte{1});
    allocator.free(buf, 10, spec);
  }
}

TEST_CASE("external_ptr wraps any address") {
  auto allocator = opened();
  auto bytes = pattern(1000);
  const auto before = bytes;
  for (const std::size_t off : {0U, 1U, 3U, 17U, 63U}) {
    CAPTURE(off);
    const BufferSpec spec{.external_ptr = bytes.data() + off};
    const HostBuffer buf = allocated(allocator, 900, spec);
    CHECK(buf.data() == bytes.data() + off);
    const auto address = allocator.addr(buf);
    REQUIRE(message(address) == "ok");
    CHECK(*address == reinterpret_cast<std::uintptr_t>(bytes.data() + off));
    // A wrap by the host is no link: it claims nothing.
    CHECK(outcome(HostRange::claim(buf.bytes(), "test")) == "ok");
    const HostBuffer again = allocated(allocator, 900, spec);
    allocator.free(again, 900, spec);
    CHECK(bytes == before);
    REQUIRE(message(allocator.fill(view(allocator, buf, 1, 5), bytes[off + 5])) == "ok");
    allocator.free(buf, 900, spec);
  }
  CHECK(bytes == before);  // and was never freed: the vector does that
}

TEST_CASE("zero and external_ptr contradict each other") {
  auto allocator = opened();
  auto bytes = pattern(100);
  const auto before = bytes;
  CHECK(outcome(allocator.alloc(100, {.zero = true, .external_ptr = bytes.data()})) == "invalid_argument");
  CHECK(bytes == before);
}

TEST_CASE("above the maximum, and what the machine does not have") {
  auto allocator = opened({.alignment = 4096});
  const std::uint64_t maximum = allocator.info().max_bytes;
  for (std::size_t k = 0; k <= 4096; ++k) {
    const auto buf = allocator.alloc(SIZE_MAX - k);
    REQUIRE(outcome(buf) == "exceeds_device_maximum");
    REQUIRE(buf.error().asked() == SIZE_MAX - k);
    REQUIRE(buf.error().limit() == maximum);
  }
  CHECK(outcome(allocator.alloc(maximum + 1)) == "exceeds_device_maximum");
  for (const std::size_t nbytes :
       {std::size_t{maximum}, std::size_t{maximum} - 1, std::size_t{maximum / 2}}) {
    const auto buf = allocator.alloc(nbytes);
    REQUIRE(outcome(buf) == "out_of_memory");
    CHECK(buf.error().asked() == nbytes);
  }
  allocator.free(allocated(allocator, 100), 100);
}

TEST_CASE("info tells the machine") {
  auto allocator = opened();
  const AllocatorInfo info = allocator.info();
  CHECK(std::string(info.backend) == "host");
  CHECK(info.shares_host_memory);
  CHECK(info.total_bytes == static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  auto other = opened();
  CHECK(other.info().instance != info.instance);
  CHECK(other.info().device == info.device);
  CHECK(host::Allocator(allocator).info().instance == info.instance);
}

TEST_CASE("an empty buffer has no address") {
  auto allocator = opened();
  const HostBuffer empty = allocated(allocator, 0);
  CHECK(empty.data() == nullptr);
  const auto address = allocator.addr(empty);
  REQUIRE(message(address) == "ok");
  CHECK(*address == 0);
  CHECK(outcome(allocator.fill(empty, std::byte{1})) == "ok");
  CHECK(outcome(allocator.transfer(empty, empty, 0)) == "ok");
  CHECK(outcome(allocator.map(empty, Access::write, 0, 0)) == "ok");
  allocator.free(empty, 0);
}

TEST_CASE("a map is the bytes themselves") {
  auto allocator = opened();
  const HostBuffer buf = allocated(allocator, 100);
  auto map = allocator.map(view(allocator, buf, 50, 20), Access::overwrite, 30, 5);
  REQUIRE(message(map) == "ok");
  CHECK(map->bytes().data() == buf.data() + 25);
  CHECK(map->bytes().size() == 30);
  allocator.free(buf, 100);
}

TEST_CASE("transfer moves between instances, and refuses overlap wherever it comes from") {
  auto allocator = opened();
  auto other = opened({.alignment = 256});
  const auto bytes = pattern(500);
  const HostBuffer a = allocated(allocator, 500);
  const HostBuffer b = allocated(other, 500);
  REQUIRE(message(other.copyin(b, bytes)) == "ok");
  REQUIRE(message(allocator.transfer(a, b, 500)) == "ok");
  CHECK(std::ranges::equal(a.bytes(), bytes));
  CHECK(outcome(allocator.transfer(b, a, 500)) == "wrong_allocator");
  CHECK(outcome(allocator.transfer(view(allocator, a, 10, 0), b, 11)) == "out_of_range");
  CHECK(outcome(allocator.transfer(a, view(other, b, 10, 0), 11)) == "out_of_range");

  const auto moved = [&](std::size_t to, std::size_t from, std::size_t nbytes) {
    return outcome(
        allocator.transfer(view(allocator, a, nbytes, to), view(allocator, a, nbytes, from), nbytes));
  };
  CHECK(moved(0, 0, 500) == "overlap");
  CHECK(moved(0, 1, 2) == "overlap");
  CHECK(moved(1, 0, 2) == "overlap");
  CHECK(moved(100, 199, 100) == "overlap");
  CHECK(std::ranges::equal(a.bytes(), bytes));
  CHECK(moved(100, 200, 100) == "ok");
  CHECK(moved(200, 100, 100) == "ok");

  // The same bytes by another allocation, and by another instance.
  const BufferSpec wrap{.external_ptr = a.data() + 50};
  const HostBuffer same = allocated(allocator, 100, wrap);
  const HostBuffer same_of_other = allocated(other, 100, wrap);
  CHECK(outcome(allocator.transfer(a, same, 100)) == "overlap");
  CHECK(outcome(allocator.transfer(a, same_of_other, 51)) == "overlap");
  CHECK(outcome(allocator.transfer(a, same_of_other, 50)) == "ok");
  allocator.free(same, 100, wrap);
  other.free(same_of_other, 100, wrap);
  allocator.free(a, 500);
  other.free(b, 500);
}

TEST_CASE("a free of what is not this instance's is reported and does nothing") {
  Reports reports;
  auto allocator = opened();
  auto other = opened();
  const HostBuffer buf = allocated(allocator, 100, {.zero = true});
  other.free(buf, 100);
  allocator.free(view(allocator, buf, 10, 0), 10);
  allocator.free(view(allocator, buf, 100, 0), 100);
  CHECK(reports.take().size() == 3);
  CHECK(all(buf.bytes(), 0));
  allocator.free(buf, 100);
  CHECK(reports.take().empty());
}

TEST_CASE("more than 4 GiB") {
  constexpr std::size_t nbytes = (std::size_t{4} << 30U) + 12345;
  // Only the pages that are touched are used, but a machine may refuse to promise the rest.
  auto allocator = opened();
  if (available_bytes() < std::uint64_t{1} << 30U) {
    WARN("skipped: less than 1 GiB of memory available");
    return;
  }
  auto buf = allocator.alloc(nbytes);
  if (!buf) {
    REQUIRE(outcome(buf) == "out_of_memory");
    WARN("skipped: " + message(buf));
    return;
  }
  const auto bytes = pattern(1000);
  const auto round_trip = [&](std::size_t byte_offset) {
    CAPTURE(byte_offset);
    const HostBuffer part = view(allocator, *buf, 1000, byte_offset);
    CHECK(part.data() == buf->data() + byte_offset);
    REQUIRE(message(allocator.copyin(part, bytes)) == "ok");
    std::vector<std::byte> back(1000);
    REQUIRE(message(allocator.copyout(back, part)) == "ok");
    CHECK(back == bytes);
  };
  round_trip(0);
  round_trip((std::size_t{4} << 30U) - 500);
  round_trip(nbytes - 1000);
  REQUIRE(message(allocator.fill(view(allocator, *buf, 1000, 0), std::byte{9})) == "ok");
  CHECK(std::ranges::equal(buf->bytes().last(1000), bytes));
  REQUIRE(message(allocator.transfer(*buf, view(allocator, *buf, 1000, nbytes - 1000), 1000)) == "ok");
  CHECK(std::ranges::equal(buf->bytes().first(1000), bytes));
  CHECK(outcome(allocator.offset(*buf, 1, nbytes)) == "out_of_range");
  allocator.free(*buf, nbytes);
}

TEST_CASE("in a forked child calls answer forked and frees do nothing") {
  auto allocator = opened();
  const auto bytes = pattern(4096);
  const HostBuffer buf = allocated(allocator, 4096);
  const HostBuffer other = allocated(allocator, 4096);
  REQUIRE(message(allocator.copyin(buf, bytes)) == "ok");
  auto buffer = Buffer::create(pack(allocator), 100);
  REQUIRE(message(buffer) == "ok");

  const pid_t child = ::fork();
  if (child == 0) {
    bool good = true;
    const auto forked = [&](const char* call, const auto& result) {
      if (outcome(result) == "forked") return;
      good = false;
      const std::string text = std::string(call) + " in the child: " + message(result) + "\n";
      static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
    };
    std::vector<std::byte> back(16);
    forked("alloc", allocator.alloc(16));
    forked("alloc of nothing", allocator.alloc(0));
    forked("external alloc", allocator.alloc(16, {.external_ptr = back.data()}));
    forked("copyin", allocator.copyin(buf, back));
    forked("copyout", allocator.copyout(back, buf));
    forked("synchronize", allocator.synchronize());
    forked("transfer", allocator.transfer(other, buf, 16));
    forked("fill", allocator.fill(buf, std::byte{1}));
    forked("map", allocator.map(buf, Access::read, 16, 0));
    forked("offset", allocator.offset(buf, 16, 0));
    forked("addr", allocator.addr(buf));
    forked("open", host::Allocator::open());
    forked("claim", HostRange::claim(back, "test"));
    allocator.free(other, 4096);
    std::fill_n(other.data(), 4096, std::byte{1});  // still there
    {
      const Buffer gone = std::move(*buffer);
    }
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(std::ranges::equal(buf.bytes(), bytes));
  REQUIRE(message(buffer->fill(std::byte{2})) == "ok");
  allocator.free(buf, 4096);
  allocator.free(other, 4096);
}
