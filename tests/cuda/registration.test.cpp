// SPDX-License-Identifier: MIT
// Memory of the host's that the device reaches: registered by berth, once for all that use it, or by somebody
// else; in chunks; for reading only.
#include <berth/core/host_range.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/host_registration.hpp>
#include <berth/testing/scratch_file.hpp>

#include <algorithm>
#include <thread>

#include "support/cuda_fixture.hpp"
#include "support/pages.hpp"
#include "support/reports.hpp"
#include "support/skip.hpp"

using namespace berth;
using cuda::CudaBuffer;
namespace abi = native::abi;

namespace {

constexpr std::size_t page = 4096;
constexpr unsigned mapped = abi::memhostregister_portable | abi::memhostregister_devicemap;

CudaBuffer wrapped(cuda::Allocator& allocator, std::span<std::byte> bytes,
                   const cuda::WrapOptions& options = {}) {
  auto buf = allocator.wrap(bytes, options);
  REQUIRE(message(buf) == "ok");
  return *buf;
}
void unwrap(cuda::Allocator& allocator, const CudaBuffer& buf) { allocator.free(buf, buf.nbytes()); }

bool claimed(std::span<const std::byte> bytes) {
  return outcome(HostRange::claim(bytes, "test")) == "overlap";
}

std::vector<std::byte> bytes_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

/// A user's context whose allocator registers page by page.
struct InPages {
  explicit InPages(native::Borrowed& user)
      : allocator([&] {
          auto options = native::options();
          options.registration_chunk_bytes = page;
          auto made = cuda::Allocator::borrow(user.context, user.stream, options);
          REQUIRE(message(made) == "ok");
          return *made;
        }()) {}
  cuda::Allocator allocator;
};

}  // namespace

// What is refused.

TEST_CASE("what cannot be wrapped is refused, with the numbers, and nothing stays") {
  native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(2 * page);
  const auto misaligned = user.allocator.wrap(pages.bytes().subspan(8, 100));
  REQUIRE(outcome(misaligned) == "misaligned");
  CHECK(misaligned.error().limit() == 64U);
  CHECK(misaligned.error().position() == reinterpret_cast<std::uintptr_t>(pages.data() + 8));
  CHECK(outcome(user.allocator.wrap(pages.bytes(), {.alignment = 48})) == "invalid_argument");
  CHECK(outcome(user.allocator.wrap({static_cast<std::byte*>(nullptr), 1})) == "invalid_argument");
  CHECK(outcome(user.allocator.wrap({pages.data(), SIZE_MAX})) == "exceeds_device_maximum");
  CHECK(outcome(user.allocator.register_host({static_cast<std::byte*>(nullptr), 1})) == "invalid_argument");
  // At an address that nobody has.
  const std::span wraps(reinterpret_cast<std::byte*>(UINTPTR_MAX - 4095), 8192);
  CHECK(outcome(user.allocator.register_host(wraps)) == "invalid_argument");
  CHECK(outcome(user.allocator.wrap(wraps)) == "invalid_argument");
  CHECK_FALSE(claimed(pages.bytes()));
  if (machine.fake()) CHECK(machine->balance().registered == 0);

  const auto none = user.allocator.wrap({});
  REQUIRE(message(none) == "ok");
  CHECK(none->nbytes() == 0);
  user.allocator.free(*none, 0);
  const auto nothing = user.allocator.register_host({});
  REQUIRE(message(nothing) == "ok");
  CHECK_FALSE(*nothing);
}

TEST_CASE("chunks are whole pages") {
  const native::Machine machine;
  const native::Context context;
  const native::Stream stream(context);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, page + 1, page - 1}) {
    auto options = native::options();
    options.registration_chunk_bytes = bytes;
    const auto made = cuda::Allocator::borrow(context, stream, options);
    REQUIRE(outcome(made) == "invalid_argument");
    CHECK(made.error().asked() == bytes);
    CHECK(outcome(cuda::Allocator::open(0, options)) == "invalid_argument");
  }
}

TEST_CASE("a device that registers nothing says so") {
  if (native::real()) return left_out("the device registers memory");
  native::Machine machine({.host_register = false});
  native::Borrowed user;
  const native::Pages pages(page);
  CHECK(outcome(user.allocator.wrap(pages.bytes())) == "unsupported");
  CHECK(outcome(user.allocator.register_host(pages.bytes())) == "unsupported");
  CHECK(outcome(user.allocator.alloc(page, {.host = true, .external_ptr = pages.data()})) == "unsupported");
  CHECK_FALSE(claimed(pages.bytes()));
}

// What berth registers.

TEST_CASE("memory is registered once for all that use it, and as long") {
  native::Machine machine({.devices = 2});
  native::Borrowed user;
  native::Borrowed other(native::Machine::devices() > 1 ? 1 : 0);
  const native::Pages pages(4 * page);
  std::ranges::fill(pages.bytes(), std::byte{1});
  const auto registered = [&] { return machine.fake() ? machine->balance().registered : 0; };

  auto whole = user.allocator.register_host(pages.bytes());
  REQUIRE(message(whole) == "ok");
  CHECK(*whole);
  CHECK_FALSE(claimed(pages.bytes()));
  const std::size_t one = registered();
  const CudaBuffer first = wrapped(user.allocator, pages.bytes().first(page));
  const CudaBuffer second = wrapped(other.allocator, pages.bytes().subspan(page, 2 * page));
  CHECK(registered() == one);
  CHECK(outcome(user.allocator.wrap(pages.bytes().subspan(page, 64))) == "overlap");  // a link's

  // Longer than what registered it.
  cuda::HostRegistration moved = std::move(*whole);
  moved = cuda::HostRegistration();
  CHECK(registered() == one);
  REQUIRE(message(user.allocator.fill(first, std::byte{2})) == "ok");
  REQUIRE(message(other.allocator.fill(second, std::byte{3})) == "ok");
  unwrap(user.allocator, first);
  CHECK(registered() == one);
  unwrap(other.allocator, second);
  CHECK(registered() == 0);
  CHECK(native::all(pages.bytes().first(page), 2));
  CHECK(native::all(pages.bytes().subspan(page, 2 * page), 3));
  CHECK(native::all(pages.bytes().subspan(3 * page), 1));

  // Once more, from the beginning.
  const CudaBuffer again = wrapped(user.allocator, pages.bytes());
  unwrap(user.allocator, again);
  CHECK(registered() == 0);
}

TEST_CASE("a registration that ends inside the memory is overlap, with its place") {
  native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(4 * page);
  const auto middle = user.allocator.register_host(pages.bytes().subspan(page, 2 * page));
  REQUIRE(message(middle) == "ok");
  for (const auto& [first, size] :
       {std::pair{std::size_t{0}, 2 * page}, {2 * page, 2 * page}, {0, 4 * page}}) {
    const auto refused = user.allocator.wrap(pages.bytes().subspan(first, size));
    REQUIRE(outcome(refused) == "overlap");
    CHECK(refused.error().position() == reinterpret_cast<std::uintptr_t>(pages.data() + page));
    CHECK(refused.error().limit() == 2 * page);
  }
  for (const std::size_t first : {std::size_t{0}, page, 3 * page}) {
    const CudaBuffer beside = wrapped(user.allocator, pages.bytes().subspan(first, page));
    unwrap(user.allocator, beside);
  }
  CHECK_FALSE(claimed(pages.bytes()));
}

TEST_CASE("two buffers may share a page") {
  const native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(page);
  const CudaBuffer first = wrapped(user.allocator, pages.bytes().first(1024));
  const CudaBuffer second = wrapped(user.allocator, pages.bytes().subspan(1024, 1024));
  REQUIRE(message(user.allocator.fill(first, std::byte{1})) == "ok");
  unwrap(user.allocator, first);
  REQUIRE(message(user.allocator.fill(second, std::byte{2})) == "ok");
  unwrap(user.allocator, second);
  CHECK(native::all(pages.bytes().first(1024), 1));
  CHECK(native::all(pages.bytes().subspan(1024, 1024), 2));
}

TEST_CASE("threads share one registration, and move it between them") {
  native::Machine machine;
  native::Borrowed user;
  constexpr int threads = 4;
  const native::Pages pages(threads * page);
  const std::size_t rounds = scaled(400);
  std::atomic<int> wrong{0};
  for (int round = 0; round < 20; ++round) {
    auto whole = user.allocator.register_host(pages.bytes());
    REQUIRE(message(whole) == "ok");
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        const auto mine = pages.bytes().subspan(static_cast<std::size_t>(thread) * page, page);
        for (std::size_t i = 0; i < rounds / 20; ++i) {
          auto buf = user.allocator.wrap(mine);
          if (!buf || !user.allocator.fill(*buf, std::byte{5})) ++wrong;
          if (buf) user.allocator.free(*buf, page);
        }
      });
    }
    // Ends on another thread, in the middle of it all.
    running.emplace_back([mine = std::move(*whole)]() mutable { mine = cuda::HostRegistration(); });
  }
  CHECK(wrong == 0);
  CHECK(native::all(pages.bytes(), 5));
  if (machine.fake()) CHECK(machine->balance().registered == 0);
}

TEST_CASE("copies of memory that is being registered, in chunks, are right") {
  native::Machine machine;
  native::Borrowed user;
  InPages in_pages(user);
  const native::Pages pages(16 * page);
  const auto bytes = native::pattern(16 * page);
  std::ranges::copy(bytes, pages.data());
  auto beside = user.allocator.alloc(16 * page);
  REQUIRE(message(beside) == "ok");
  std::atomic<int> wrong{0};
  cuda::Allocator copying = user.allocator;
  for (std::size_t round = 0; round < scaled(300); ++round) {
    cuda::HostRegistration ahead;
    std::atomic<bool> done{false};
    std::jthread registering([&] {
      auto made = in_pages.allocator.register_host(pages.bytes());
      if (made) {
        ahead = std::move(*made);
      } else {
        ++wrong;
      }
      done = true;
    });
    do {
      if (!copying.copyin(*beside, pages.bytes())) ++wrong;
    } while (!done);
  }  // the registration ends when no copy is under way
  CHECK(wrong == 0);
  CHECK((native::content(user.allocator, *beside) == bytes));
  user.allocator.free(*beside, 16 * page);
}

TEST_CASE("copies whose host side is registered in part are right") {
  native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(4 * page);
  const auto bytes = native::pattern(4 * page);
  std::ranges::copy(bytes, pages.data());
  const CudaBuffer middle = wrapped(user.allocator, pages.bytes().subspan(page + 64, page));
  const CudaBuffer next = wrapped(user.allocator, pages.bytes().subspan(2 * page + 64, page));
  auto beside = user.allocator.alloc(4 * page);
  REQUIRE(message(beside) == "ok");
  REQUIRE(message(user.allocator.copyin(*beside, pages.bytes())) == "ok");
  CHECK((native::content(user.allocator, *beside) == bytes));
  REQUIRE(message(user.allocator.fill(*beside, std::byte{4})) == "ok");
  REQUIRE(message(user.allocator.copyout(pages.bytes(), *beside)) == "ok");
  CHECK(native::all(pages.bytes(), 4));
  user.allocator.free(*beside, 4 * page);
  unwrap(user.allocator, next);
  unwrap(user.allocator, middle);
}

TEST_CASE("a registration ends with the context it was made in, and the memory can be had again") {
  if (native::real()) return left_out("a context that is gone is not to be entered");
  native::Machine machine;
  Reports reports;
  native::Borrowed second;
  const native::Pages pages(2 * page);
  cuda::HostRegistration ahead;
  {
    native::Borrowed first;
    auto made = first.allocator.register_host(pages.bytes());
    REQUIRE(message(made) == "ok");
    ahead = std::move(*made);
  }  // against the rule: the context goes first
  machine->reset();
  ahead = cuda::HostRegistration();
  CHECK(reports.take().empty());
  const CudaBuffer buf = wrapped(second.allocator, pages.bytes());
  REQUIRE(message(second.allocator.fill(buf, std::byte{1})) == "ok");
  unwrap(second.allocator, buf);
  CHECK(native::all(pages.bytes(), 1));
}

TEST_CASE("threads register at once") {
  native::Machine machine;
  native::Borrowed user;
  constexpr int threads = 4;
  const native::Pages pages(threads * page);
  const std::size_t rounds = scaled(400);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        const auto mine = pages.bytes().subspan(static_cast<std::size_t>(thread) * page, page);
        for (std::size_t round = 0; round < rounds; ++round) {
          const auto ahead = user.allocator.register_host(mine);
          auto buf = user.allocator.wrap(mine);
          if (!ahead || !buf || !user.allocator.fill(*buf, std::byte{5})) ++wrong;
          if (buf) user.allocator.free(*buf, page);
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(native::all(pages.bytes(), 5));
  if (machine.fake()) CHECK(machine->balance().registered == 0);
}

// What somebody else pinned.

TEST_CASE("memory that somebody else pinned is used, and stays theirs") {
  native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(4 * page);
  const native::Entered entered(user.context);
  REQUIRE_CUDA(native::driver().mem_host_register(pages.data(), 4 * page, mapped));
  for (const auto& bytes : {pages.bytes(), pages.bytes().subspan(page + 64, page)}) {
    std::ranges::fill(pages.bytes(), std::byte{1});
    const CudaBuffer buf = wrapped(user.allocator, bytes);
    CHECK((native::content(user.allocator, buf) == bytes_of(bytes)));
    REQUIRE(message(user.allocator.fill(buf, std::byte{2})) == "ok");
    unwrap(user.allocator, buf);
    CHECK(native::all(bytes, 2));
    const auto ahead = user.allocator.register_host(bytes);
    CHECK(message(ahead) == "ok");
  }
  REQUIRE_CUDA(native::driver().mem_host_unregister(pages.data()));

  void* pinned = nullptr;
  REQUIRE_CUDA(native::driver().mem_host_alloc(&pinned, page,
                                               abi::memhostalloc_portable | abi::memhostalloc_devicemap));
  const std::span theirs(static_cast<std::byte*>(pinned), page);
  const CudaBuffer buf = wrapped(user.allocator, theirs);
  REQUIRE(message(user.allocator.fill(buf, std::byte{3})) == "ok");
  unwrap(user.allocator, buf);
  CHECK(native::all(theirs, 3));
  REQUIRE_CUDA(native::driver().mem_free_host(pinned));
}

TEST_CASE("memory of which somebody else pinned a part is overlap") {
  native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(3 * page);
  const native::Entered entered(user.context);
  for (const std::size_t first : {std::size_t{0}, page, 2 * page}) {
    CAPTURE(first);
    REQUIRE_CUDA(native::driver().mem_host_register(pages.data() + first, page, mapped));
    const auto refused = user.allocator.wrap(pages.bytes());
    REQUIRE(outcome(refused) == "overlap");
    CHECK(refused.error().call() == "cuMemHostRegister");
    CHECK_FALSE(claimed(pages.bytes()));
    REQUIRE_CUDA(native::driver().mem_host_unregister(pages.data() + first));
  }
  const CudaBuffer buf = wrapped(user.allocator, pages.bytes());
  unwrap(user.allocator, buf);
}

TEST_CASE("memory that somebody pinned without mapping it is refused") {
  if (native::real()) return left_out("with unified addresses all pinned memory is mapped");
  native::Machine machine;
  native::Borrowed user;
  const native::Pages pages(page);
  const native::Entered entered(user.context);
  REQUIRE_CUDA(native::driver().mem_host_register(pages.data(), page, 0));
  CHECK(outcome(user.allocator.wrap(pages.bytes())) == "unsupported");
  CHECK_FALSE(claimed(pages.bytes()));
  REQUIRE_CUDA(native::driver().mem_host_unregister(pages.data()));
}

// Chunks.

TEST_CASE("memory of many chunks is one buffer: every copy over their borders is right") {
  native::Machine machine({.devices = 2});
  native::Borrowed user;
  native::Borrowed second(native::Machine::devices() > 1 ? 1 : 0);
  cuda::Allocator far = second.allocator;
  InPages pages_at_once(user);
  cuda::Allocator& a = pages_at_once.allocator;
  const native::Pages pages(8 * page);
  // Starts and ends inside of pages.
  const auto memory = pages.bytes().subspan(1024, 5 * page + 100);
  const std::size_t size = memory.size();
  const CudaBuffer buf = wrapped(a, memory);
  if (machine.fake()) CHECK(machine->balance().registered == 6);
  const auto bytes = native::pattern(size);
  const auto others = native::pattern(size, 7);

  REQUIRE(message(a.copyin(buf, bytes)) == "ok");
  CHECK((bytes_of(memory) == bytes));
  std::vector<std::byte> seen(size);
  REQUIRE(message(a.copyout(seen, buf)) == "ok");
  CHECK((seen == bytes));
  REQUIRE(message(a.fill(buf, std::byte{6})) == "ok");
  REQUIRE(message(a.synchronize()) == "ok");
  CHECK(native::all(memory, 6));

  SECTION("to and from device memory") {
    auto beside = a.alloc(size);
    REQUIRE(message(beside) == "ok");
    REQUIRE(message(a.copyin(*beside, others)) == "ok");
    REQUIRE(message(a.transfer(buf, *beside, size)) == "ok");
    REQUIRE(message(a.fill(*beside, std::byte{0})) == "ok");
    REQUIRE(message(a.synchronize()) == "ok");
    CHECK((bytes_of(memory) == others));
    REQUIRE(message(a.transfer(*beside, buf, size)) == "ok");
    CHECK((native::content(a, *beside) == others));
    a.free(*beside, size);
  }
  SECTION("to and from another device's memory") {
    auto there = far.alloc(size);
    REQUIRE(message(there) == "ok");
    REQUIRE(message(far.copyin(*there, others)) == "ok");
    REQUIRE(message(a.transfer(buf, *there, size)) == "ok");
    REQUIRE(message(a.synchronize()) == "ok");
    CHECK((bytes_of(memory) == others));
    REQUIRE(message(far.fill(*there, std::byte{0})) == "ok");
    REQUIRE(message(far.transfer(*there, buf, size)) == "ok");
    CHECK((native::content(far, *there) == others));
    far.free(*there, size);
  }
  SECTION("as the source and the target of another buffer's copies") {
    auto beside = user.allocator.alloc(size);
    REQUIRE(message(beside) == "ok");
    std::ranges::copy(others, memory.begin());
    REQUIRE(message(user.allocator.copyin(*beside, memory)) == "ok");
    CHECK((native::content(user.allocator, *beside) == others));
    REQUIRE(message(user.allocator.fill(*beside, std::byte{4})) == "ok");
    REQUIRE(message(user.allocator.copyout(memory, *beside)) == "ok");
    CHECK(native::all(memory, 4));
    // Memory before and behind belongs to no registration.
    const auto around = pages.bytes().first(7 * page);
    auto wide = user.allocator.alloc(around.size());
    REQUIRE(message(wide) == "ok");
    REQUIRE(message(user.allocator.copyin(*wide, around)) == "ok");
    CHECK((native::content(user.allocator, *wide) == bytes_of(around)));
    user.allocator.free(*wide, around.size());
    user.allocator.free(*beside, size);
  }
  SECTION("parts of it") {
    const auto view = a.offset(buf, 2 * page, page / 2);
    REQUIRE(message(view) == "ok");
    REQUIRE(message(a.fill(*view, std::byte{9})) == "ok");
    REQUIRE(message(a.synchronize()) == "ok");
    CHECK(native::all(memory.first(page / 2), 6));
    CHECK(native::all(memory.subspan(page / 2, 2 * page), 9));
    CHECK(native::all(memory.subspan(page / 2 + 2 * page), 6));
  }
  SECTION("from a file") {
    auto file = testing::ScratchFile::holding(others);
    REQUIRE(file);
    REQUIRE(message(a.copy_from_disk(buf, file->extent(), size)) == "ok");
    CHECK((bytes_of(memory) == others));
  }
  unwrap(a, buf);
  if (machine.fake()) CHECK(machine->balance().registered == 0);
  CHECK_FALSE(claimed(memory));
}

TEST_CASE("a chunk that is not registered takes the others with it") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver fails on demand");
  native::Borrowed user;
  InPages pages_at_once(user);
  const native::Pages pages(4 * page);
  for (const char* symbol : {"cuMemHostRegister", "cuMemHostGetDevicePointer"}) {
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
      CAPTURE(symbol, nth);
      for (const auto& [status, code] : {std::pair{abi::out_of_memory, "out_of_memory"},
                                         {abi::not_supported, "unsupported"},
                                         {abi::unknown, "driver"}}) {
        machine->fail({.symbol = symbol, .nth = nth, .times = 1, .status = status});
        CHECK(outcome(pages_at_once.allocator.wrap(pages.bytes())) == code);
        CHECK(machine->balance().registered == 0);
        CHECK_FALSE(claimed(pages.bytes()));
      }
    }
  }
  machine->disarm();
  const CudaBuffer buf = wrapped(pages_at_once.allocator, pages.bytes());
  unwrap(pages_at_once.allocator, buf);
}

TEST_CASE("chunks that the device sees apart are refused, with the place") {
  if (native::real()) return left_out("the driver maps them side by side");
  native::Machine machine({.scattered_registrations = true});
  native::Borrowed user;
  InPages pages_at_once(user);
  const native::Pages pages(3 * page);
  const auto refused = pages_at_once.allocator.wrap(pages.bytes());
  REQUIRE(outcome(refused) == "unsupported");
  CHECK(refused.error().asked() == 3 * page);
  CHECK(refused.error().limit() == page);
  CHECK(machine->balance().registered == 0);
  CHECK_FALSE(claimed(pages.bytes()));

  // One chunk has an address of the device's own.
  const CudaBuffer buf = wrapped(user.allocator, pages.bytes());
  REQUIRE(message(user.allocator.fill(buf, std::byte{3})) == "ok");
  REQUIRE(message(user.allocator.synchronize()) == "ok");
  CHECK(native::all(pages.bytes(), 3));
  unwrap(user.allocator, buf);
}

TEST_CASE("what the driver does not unregister is unregistered by who wants the memory next") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver fails on demand");
  Reports reports;
  native::Borrowed user;
  InPages pages_at_once(user);
  const native::Pages pages(4 * page);
  for (std::uint64_t nth = 1; nth <= 4; ++nth) {
    CAPTURE(nth);
    auto ahead = pages_at_once.allocator.register_host(pages.bytes());
    REQUIRE(message(ahead) == "ok");
    machine->fail({.symbol = "cuMemHostUnregister", .nth = nth, .times = 1, .status = abi::unknown});
    *ahead = cuda::HostRegistration();
    CHECK(reports.take().size() == 1);
    CHECK(machine->balance().registered == 5 - nth);
    if (nth % 2 == 0) {  // and it does not yet
      machine->fail({.symbol = "cuMemHostUnregister", .nth = 1, .times = 1, .status = abi::unknown});
      const auto refused = pages_at_once.allocator.register_host(pages.bytes().first(64));
      REQUIRE(outcome(refused) == "overlap");
      CHECK(refused.error().position() == reinterpret_cast<std::uintptr_t>(pages.data()));
      CHECK(reports.take().size() == 1);
    }
    // A part of it, and the buffer is of registered memory.
    const CudaBuffer buf = wrapped(pages_at_once.allocator, pages.bytes().first(2 * page));
    REQUIRE(message(user.allocator.synchronize()) == "ok");
    REQUIRE(message(pages_at_once.allocator.fill(buf, std::byte{7})) == "ok");
    unwrap(pages_at_once.allocator, buf);
    CHECK(machine->balance().registered == 0);
  }
  CHECK(native::all(pages.bytes().first(2 * page), 7));
}

TEST_CASE("a chunk that is not registered, and others not unregistered: the memory is freed for the next") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver fails on demand");
  Reports reports;
  native::Borrowed user;
  InPages pages_at_once(user);
  const native::Pages pages(4 * page);
  machine->fail({.symbol = "cuMemHostRegister", .nth = 3, .times = 1, .status = abi::out_of_memory});
  machine->also_fail({.symbol = "cuMemHostUnregister", .nth = 1, .times = 1, .status = abi::unknown});
  CHECK(outcome(pages_at_once.allocator.wrap(pages.bytes())) == "out_of_memory");
  CHECK(reports.take().size() == 1);
  const CudaBuffer buf = wrapped(pages_at_once.allocator, pages.bytes());
  unwrap(pages_at_once.allocator, buf);
  CHECK(machine->balance().registered == 0);
}

TEST_CASE("memory that the driver does not unregister stays claimed") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver fails on demand");
  Reports reports;
  native::Borrowed user;
  static const auto& pages = *new native::Pages(2 * page);  // at an address that does not come again
  const CudaBuffer buf = wrapped(user.allocator, pages.bytes());
  machine->fail({.symbol = "cuMemHostUnregister", .nth = 1, .times = 1, .status = abi::unknown});
  unwrap(user.allocator, buf);
  CHECK(reports.take().size() == 1);
  CHECK(machine->balance().registered == 1);
  CHECK(claimed(pages.bytes()));
  CHECK(outcome(user.allocator.wrap(pages.bytes())) == "overlap");
  CHECK(message(user.allocator.register_host(pages.bytes())) == "ok");  // which unregisters it first
  CHECK(machine->balance().registered == 0);
}

// Reading only.

TEST_CASE("memory for reading only is read by the device, and written by nobody") {
  native::Machine machine;
  native::Borrowed user;
  if (cuda::describe(0, &native::driver())->read_only_host_register == false)
    return left_out("the device registers no memory for reading only");
  const native::Pages pages(page);
  const auto bytes = native::pattern(page);
  std::ranges::copy(bytes, pages.data());
  REQUIRE(::mprotect(pages.data(), page, PROT_READ) == 0);
  const CudaBuffer buf = wrapped(user.allocator, pages.bytes(), {.read_only = true});
  CHECK((native::content(user.allocator, buf) == bytes));
  auto beside = user.allocator.alloc(page);
  REQUIRE(message(beside) == "ok");
  REQUIRE(message(user.allocator.transfer(*beside, buf, page)) == "ok");
  CHECK((native::content(user.allocator, *beside) == bytes));

  CHECK(outcome(user.allocator.copyin(buf, bytes)) == "invalid_argument");
  CHECK(outcome(user.allocator.fill(buf, std::byte{1})) == "invalid_argument");
  CHECK(outcome(user.allocator.transfer(buf, *beside, page)) == "invalid_argument");
  CHECK(outcome(user.allocator.map(buf, Access::write, page)) == "invalid_argument");
  auto file = testing::ScratchFile::holding(bytes);
  REQUIRE(file);
  CHECK(outcome(user.allocator.copy_from_disk(buf, file->extent(), page)) == "invalid_argument");
  CHECK(outcome(user.allocator.map(buf, Access::read, page)) == "ok");
  user.allocator.free(*beside, page);
  unwrap(user.allocator, buf);
  CHECK((bytes_of(pages.bytes()) == bytes));
}

TEST_CASE("a registration for reading only serves readers") {
  const native::Machine machine;
  native::Borrowed user;
  if (cuda::describe(0, &native::driver())->read_only_host_register == false)
    return left_out("the device registers no memory for reading only");
  const native::Pages pages(2 * page);
  const auto ahead = user.allocator.register_host(pages.bytes(), true);
  REQUIRE(message(ahead) == "ok");
  CHECK(outcome(user.allocator.wrap(pages.bytes().first(page))) == "overlap");
  const CudaBuffer buf = wrapped(user.allocator, pages.bytes().first(page), {.read_only = true});
  unwrap(user.allocator, buf);
}

// Pageable memory.

TEST_CASE("where the device reaches any page nothing is registered, unless asked for") {
  if (native::real()) return left_out("the device does not");
  native::Machine machine({.pageable_memory_access = true});
  native::Borrowed user;
  const native::Pages pages(page);
  std::ranges::fill(pages.bytes(), std::byte{1});
  for (const bool always : {false, true}) {
    const CudaBuffer buf = wrapped(user.allocator, pages.bytes(), {.always_register = always});
    CHECK(machine->balance().registered == (always ? 1 : 0));
    CHECK((buf.address() == reinterpret_cast<std::uintptr_t>(pages.data())) == !always);
    CHECK(claimed(pages.bytes()));
    CHECK((native::content(user.allocator, buf) == bytes_of(pages.bytes())));
    REQUIRE(message(user.allocator.fill(buf, std::byte{2})) == "ok");
    unwrap(user.allocator, buf);
    CHECK(native::all(pages.bytes(), 2));
    CHECK_FALSE(claimed(pages.bytes()));
    std::ranges::fill(pages.bytes(), std::byte{1});
  }
}
