// SPDX-License-Identifier: MIT
// Every driver call that an allocator makes fails once, one after the other: the failure is told, nothing
// leaks, and afterwards all works. And faults that a context does not survive. On the fake driver only.
#include <berth/adaptors/lru.hpp>
#include <berth/core/buffer.hpp>
#include <berth/core/host_range.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/testing/scratch_file.hpp>

#include <algorithm>
#include <memory>
#include <optional>

#include "support/cuda_fixture.hpp"
#include "support/pages.hpp"
#include "support/reports.hpp"
#include "support/skip.hpp"

using namespace berth;
using cuda::CudaBuffer;
using native::abi::DevicePtr;
using native::abi::Status;

namespace {

constexpr std::size_t size = 8192;

/// What one run of the script was told.
struct Told {
  struct Failure {
    std::string step;
    Error error;
  };
  std::vector<Failure> returned;
  bool right_bytes = true;

  /// Whether the step succeeded.
  template <class T>
  bool operator()(const char* step, const Result<T>& result) {
    if (!result) returned.push_back({step, result.error()});
    return result.has_value();
  }
  void expect(bool right) { right_bytes = right_bytes && right; }
};

DevicePtr native_memory(native::abi::Context context) {
  const native::Entered entered(context);
  DevicePtr address = 0;
  REQUIRE_CUDA(native::driver().mem_alloc(&address, size));
  return address;
}

/// Memory at an address of its own for each run: what berth cannot free stays claimed.
std::byte* fresh_pages() {
  static std::vector<std::unique_ptr<native::Pages>> all;
  all.push_back(std::make_unique<native::Pages>(size));
  return all.back()->data();
}

/// What the script uses and does not make itself, so that only berth's calls are failed. What berth takes
/// over it takes from here; what it refuses to take stays, and goes at the end.
struct Given {
  native::Context context;
  native::Stream stream{context};
  native::Stream other{context};
  native::Context context_to_adopt;
  native::Stream stream_to_adopt{context_to_adopt};
  native::Context far{1};
  native::Stream far_stream{far};
  DevicePtr adopted = native_memory(context);
  DevicePtr borrowed = native_memory(context);
  std::byte* pages = fresh_pages();
  std::byte* more_pages = fresh_pages();
  std::vector<std::byte> bytes = native::pattern(size);
  testing::ScratchFile file = std::move(*testing::ScratchFile::holding(bytes));

  ~Given() {
    const native::Entered entered(context);
    if (adopted != 0) native::driver().mem_free(adopted);
    native::driver().mem_free(borrowed);
  }
};

using Allocated = std::optional<CudaBuffer>;

Allocated allocated(Told& told, cuda::Allocator& a, const BufferSpec& spec = {}) {
  auto buf = a.alloc(size, spec);
  if (!told("alloc", buf)) return std::nullopt;
  return *buf;
}

void freed(cuda::Allocator& a, const Allocated& buf, const BufferSpec& spec = {}) {
  if (buf) a.free(*buf, buf->nbytes(), spec);
}

void copies(Told& told, Given& given, cuda::Allocator& a, const CudaBuffer& buf) {
  const bool in = told("copyin", a.copyin(buf, given.bytes));
  std::vector<std::byte> back(size);
  const bool out = told("copyout", a.copyout(back, buf));
  told.expect(!in || !out || back == given.bytes);
  told("fill", a.fill(buf, std::byte{5}));
  told("copy_from_disk", a.copy_from_disk(buf, given.file.extent(), size));
}

void maps(Told& told, cuda::Allocator& a, const CudaBuffer& buf) {
  auto written = a.map(buf, Access::overwrite, 100, 50);
  if (told("map", written)) {
    std::ranges::fill(written->bytes(), std::byte{6});
    told("unmap", written->unmap());
  }
  const auto read = a.map(buf, Access::write, 10, 60);
  if (told("map", read)) told.expect(read->bytes()[0] == std::byte{6} || !told.returned.empty());
}  // the second map ends unasked

void other_stream(Told& told, Given& given, cuda::Allocator& a, const CudaBuffer& buf) {
  auto on_other = a.on(cuda::borrow_queue(given.other));
  if (told("on", on_other)) told("fill", on_other->fill(buf, std::byte{7}));
  told("record_use", a.record_use(buf, cuda::borrow_queue(given.other)));
  auto second = cuda::Allocator::borrow(given.context, given.other, native::options());
  if (!told("borrow", second)) return;
  const Allocated own = allocated(told, *second);
  if (own) {
    told("transfer", second->transfer(*own, buf, size));
    told("transfer", a.transfer(buf, *own, size));
  }
  const auto recorded = second->record();
  if (told("record", recorded)) {
    told("wait", a.wait(*recorded));
    told("complete", recorded->complete());
    told("wait for the event", recorded->wait());
  }
  freed(*second, own);
}

void other_device(Told& told, Given& given, cuda::Allocator& a, const CudaBuffer& buf) {
  auto far = cuda::Allocator::borrow(given.far, given.far_stream, native::options());
  if (!told("borrow", far)) return;
  const Allocated there = allocated(told, *far);
  if (there) {
    told("transfer", far->transfer(*there, buf, size));
    told("transfer", a.transfer(buf, *there, size));
  }
  freed(*far, there);
}

void users_memory(Told& told, Given& given, cuda::Allocator& a) {
  const BufferSpec registered{.host = true, .external_ptr = given.pages};
  const Allocated wrap = allocated(told, a, registered);
  if (wrap) {
    told("fill", a.fill(*wrap, std::byte{8}));
    told("map", a.map(*wrap, Access::read, 10, 0));
  }
  freed(a, wrap, registered);
  {
    const auto ahead = a.register_host({given.more_pages, size});
    told("register_host", ahead);
    auto part = a.wrap({given.more_pages, size / 2});
    if (told("wrap", part)) {
      told("fill", a.fill(*part, std::byte{8}));
      a.free(*part, size / 2);
    }
  }
  auto adopted = a.adopt(given.adopted, size);
  if (told("adopt", adopted)) {
    given.adopted = 0;
    a.free(*adopted, size);
  }
  auto borrowed = a.borrow(given.borrowed + 256, 100);
  if (told("borrow", borrowed)) a.free(*borrowed, 100);
}

/// Nearly all that an allocator does.
void script(Told& told, Given& given) {
  {
    auto opened = cuda::Allocator::open(0, native::options());
    if (told("open", opened)) freed(*opened, allocated(told, *opened));
  }
  {
    auto adopted = cuda::Allocator::adopt(given.context_to_adopt, given.stream_to_adopt, native::options());
    if (told("adopt", adopted)) {
      given.context_to_adopt.give();
      given.stream_to_adopt.give();
      freed(*adopted, allocated(told, *adopted, {.zero = true}), {.zero = true});
    }
  }
  auto in_pages = native::options();
  in_pages.registration_chunk_bytes = 4096;
  auto made = cuda::Allocator::borrow(given.context, given.stream, in_pages);
  if (!told("borrow", made)) return;
  cuda::Allocator& a = *made;
  const Allocated plain = allocated(told, a);
  const BufferSpec pinned{.uncached = true, .host = true, .zero = true};
  const Allocated host = allocated(told, a, pinned);
  if (plain) {
    copies(told, given, a, *plain);
    maps(told, a, *plain);
    other_stream(told, given, a, *plain);
    other_device(told, given, a, *plain);
  }
  if (plain && host) told("transfer", a.transfer(*host, *plain, size));
  users_memory(told, given, a);
  told("synchronize", a.synchronize());
  freed(a, plain);
  freed(a, host, pinned);
}

/// One run. Whatever happens, it ends and leaves nothing.
struct Run {
  explicit Run(const fake_cuda::Failure& failure = {.symbol = {}, .nth = 1, .times = 0, .status = 0}) {
    fake_cuda::Machine machine({.devices = 2});
    native::driver().init(0);
    Reports reports;
    {
      Given given;
      machine.reset();
      machine.fail(failure);
      script(told, given);
      calls = machine.calls();
      failed = machine.failed();
      entry = machine.last_failed();
      machine.disarm();
      reported = reports.take();
    }
    violations = machine.violations();
    balance = machine.balance();
    late_reports = reports.take();
  }

  Told told;
  std::uint64_t calls = 0;
  std::uint64_t failed = 0;
  std::string entry;
  std::vector<std::string> reported;
  std::vector<std::string> late_reports;
  std::string violations;
  fake_cuda::Balance balance;
};

std::string text(const Run& run) {
  std::string all = run.entry + " failed\n";
  for (const auto& failure : run.told.returned)
    all += "returned by " + failure.step + ": " + failure.error.message() + "\n";
  for (const auto& report : run.reported) all += "reported: " + report + "\n";
  return all + run.violations;
}

std::uint64_t calls_of_a_run() {
  const Run run;
  INFO(text(run));
  REQUIRE(run.failed == 0);
  REQUIRE(run.told.returned.empty());
  REQUIRE(run.reported.empty());
  REQUIRE(run.told.right_bytes);
  REQUIRE(run.violations.empty());
  REQUIRE(run.balance == fake_cuda::Balance{});
  return run.calls;
}

}  // namespace

TEST_CASE("each driver call fails in turn: told once, by its name, and nothing is left behind") {
  const std::uint64_t calls = calls_of_a_run();
  CHECK(calls > 100);
  const Status status = GENERATE(native::abi::out_of_memory, native::abi::unknown);
  int staged_on_the_heap = 0;
  for (std::uint64_t nth = 1; nth <= calls; ++nth) {
    const Run run({.symbol = {}, .nth = nth, .times = 1, .status = status});
    INFO("call " << nth << " of " << calls << ": " << text(run));
    REQUIRE(run.failed == 1);
    CHECK(run.told.right_bytes);
    CHECK(run.late_reports.empty());
    // A disk copy goes on without pinned memory.
    const bool went_on = run.entry == "cuMemHostAlloc" && status == native::abi::out_of_memory &&
                         run.told.returned.empty() && run.reported.empty();
    if (went_on) {
      ++staged_on_the_heap;
      CHECK(run.violations.empty());
      CHECK(run.balance == fake_cuda::Balance{});
      continue;
    }
    REQUIRE(run.told.returned.size() + run.reported.size() == 1);
    if (run.told.returned.empty()) {
      // What the driver refused to take back stays until its context ends.
      CHECK(run.reported.front().starts_with(run.entry + ": "));
      CHECK((run.violations.empty() || run.violations.starts_with("a context ends with ")));
    } else {
      CHECK(run.violations.empty());
      CHECK(run.balance == fake_cuda::Balance{});
      const Error& error = run.told.returned.front().error;
      CHECK(error.call() == run.entry);
      CHECK(error.status() == status);
      const Errc expected = status == native::abi::out_of_memory ? Errc::out_of_memory : Errc::driver;
      CHECK(to_string(error.code()) == to_string(expected));
    }
  }
  CHECK(staged_on_the_heap == (status == native::abi::out_of_memory ? 2 : 0));
  CHECK(calls_of_a_run() == calls);
}

TEST_CASE("a driver that fails for good is told, and hangs nothing") {
  const std::uint64_t calls = calls_of_a_run();
  for (std::uint64_t nth = 1; nth <= calls; nth += 3) {
    const Run run({.symbol = {}, .nth = nth, .times = UINT64_MAX, .status = native::abi::unknown});
    INFO("from call " << nth << " of " << calls << ": " << text(run));
    CHECK(run.failed != 0);
    CHECK_FALSE((run.told.returned.empty() && run.reported.empty()));
    for (const auto& failure : run.told.returned) CHECK(failure.error.status() == native::abi::unknown);
  }
}

// Faults of the context.

TEST_CASE("a fault is told once; from then on every call is device_lost, and no driver is called") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  Reports reports;
  const Status status = GENERATE(native::abi::illegal_address, native::abi::launch_failed,
                                 native::abi::ecc_uncorrectable, native::abi::assert_failed);
  {
    native::Context context;
    native::Stream stream(context);
    auto made = cuda::Allocator::borrow(context, stream, native::options());
    REQUIRE(message(made) == "ok");
    cuda::Allocator& a = *made;
    auto buf = a.alloc(size);
    auto other = a.alloc(size);
    auto host = a.alloc(size, {.host = true});
    REQUIRE(message(other) == "ok");
    auto map = a.map(*other, Access::write, 10, 0);
    const auto before = a.record();
    REQUIRE((buf && other && host && map && before));
    std::byte* const pages = fresh_pages();
    const BufferSpec external{.host = true, .external_ptr = pages};
    auto wrap = a.alloc(size, external);
    REQUIRE(message(wrap) == "ok");

    machine->fault(stream, status);
    CHECK(outcome(a.fill(*buf, std::byte{1})) == "ok");  // the stream has not got there yet
    const auto seen = a.synchronize();
    REQUIRE(outcome(seen) == "device_lost");
    CHECK(seen.error().status() == status);
    CHECK(seen.error().call() == "cuStreamSynchronize");
    const auto told = reports.take();
    REQUIRE(told.size() == 1);
    CHECK(told.front() == seen.error().message());

    machine->reset();
    std::vector<std::byte> bytes(16);
    CHECK(outcome(a.alloc(16)) == "device_lost");
    CHECK(outcome(a.alloc(0)) == "device_lost");
    CHECK(outcome(a.addr(*buf)) == "device_lost");
    CHECK(outcome(a.offset(*buf, 1, 1)) == "device_lost");
    CHECK(outcome(a.copyin(*buf, bytes)) == "device_lost");
    CHECK(outcome(a.copyout(bytes, *buf)) == "device_lost");
    CHECK(outcome(a.fill(*buf, std::byte{})) == "device_lost");
    CHECK(outcome(a.transfer(*buf, *host, 1)) == "device_lost");
    CHECK(outcome(a.map(*host, Access::read, 1, 0)) == "device_lost");
    CHECK(outcome(a.synchronize()) == "device_lost");
    CHECK(outcome(a.record()) == "device_lost");
    CHECK(outcome(a.wait(*before)) == "device_lost");
    CHECK(outcome(a.on(cuda::borrow_queue(stream))) == "device_lost");
    CHECK(outcome(a.adopt(buf->address(), size)) == "device_lost");
    CHECK(outcome(a.load({}, {})) == "device_lost");
    CHECK(outcome(before->complete()) == "device_lost");
    CHECK(outcome(before->wait()) == "device_lost");
    CHECK(outcome(map->unmap()) == "device_lost");
    a.free(*buf, size);
    a.free(*other, size);
    a.free(*host, size, {.host = true});
    a.free(*wrap, size, external);
    CHECK(machine->calls() == 0);
    CHECK(reports.take().empty());
    // The driver never said that it let go of it.
    CHECK(outcome(HostRange::claim({pages, size}, "test")) == "overlap");
  }
  CHECK(reports.take().empty());
}

TEST_CASE("a fault takes every context of the process with it, and is told once") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  Reports reports;
  native::Borrowed other;
  {
    auto lost = cuda::Allocator::open(0, native::options());
    auto beside = cuda::Allocator::open(0, native::options());
    REQUIRE(message(lost) == "ok");
    REQUIRE(message(beside) == "ok");
    machine->fault(lost->queue());
    CHECK(outcome(lost->synchronize()) == "device_lost");
    machine->reset();
    CHECK(outcome(beside->synchronize()) == "device_lost");
    CHECK(outcome(other.allocator.synchronize()) == "device_lost");
    CHECK(machine->calls() == 0);
  }
  CHECK(outcome(cuda::Allocator::open(0, native::options())) == "device_lost");
  CHECK(reports.take().size() == 1);
}

TEST_CASE("every status has its meaning") {
  if (native::real()) return left_out("only the fake driver can be told to do this");
  namespace abi = native::abi;
  const std::vector<std::pair<Status, const char*>> meanings{
      {abi::invalid_value, "driver"},
      {abi::out_of_memory, "out_of_memory"},
      {abi::deinitialized, "exiting"},
      {abi::stub_library, "library_missing"},
      {abi::no_device, "no_device"},
      {abi::invalid_device, "no_device"},
      {abi::invalid_context, "driver"},
      {abi::ecc_uncorrectable, "device_lost"},
      {abi::nvlink_uncorrectable, "device_lost"},
      {abi::contained, "device_lost"},
      {abi::invalid_handle, "driver"},
      {abi::illegal_address, "device_lost"},
      {abi::launch_timeout, "device_lost"},
      {abi::context_is_destroyed, "device_lost"},
      {abi::assert_failed, "device_lost"},
      {abi::host_memory_already_registered, "overlap"},
      {abi::hardware_stack_error, "device_lost"},
      {abi::illegal_instruction, "device_lost"},
      {abi::misaligned_address, "device_lost"},
      {abi::invalid_address_space, "device_lost"},
      {abi::invalid_pc, "device_lost"},
      {abi::launch_failed, "device_lost"},
      {abi::tensor_memory_leak, "device_lost"},
      {abi::not_permitted, "driver"},
      {abi::not_supported, "unsupported"},
      {abi::mps_client_terminated, "device_lost"},
      {abi::external_device, "device_lost"},
      {abi::unknown, "driver"},
  };
  for (const auto& [status, meaning] : meanings) {
    CAPTURE(status);
    native::Machine machine;
    Reports reports;
    native::Borrowed user;
    machine->fail({.symbol = "cuMemAlloc", .nth = 1, .times = 1, .status = status});
    const auto failed = user.allocator.alloc(16);
    REQUIRE(outcome(failed) == meaning);
    CHECK(failed.error().status() == status);
    // A fault is for good; anything else is over.
    const bool fault = std::string_view(meaning) == "device_lost";
    CHECK(outcome(user.allocator.synchronize()) == (fault ? "device_lost" : "ok"));
    CHECK(reports.take().size() == (fault ? 1U : 0U));
  }
}

TEST_CASE("a context that is gone takes no other with it") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  Reports reports;
  native::Borrowed gone;
  native::Borrowed other;
  machine->fail({.symbol = "cuMemAlloc", .nth = 1, .times = 1, .status = native::abi::context_is_destroyed});
  CHECK(outcome(gone.allocator.alloc(16)) == "device_lost");
  CHECK(outcome(gone.allocator.synchronize()) == "device_lost");
  CHECK(outcome(other.allocator.synchronize()) == "ok");
  CHECK(reports.take().size() == 1);
}

TEST_CASE("a block whose work cannot be waited for is not given back") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  Reports reports;
  native::Borrowed user;
  native::Gate gate(user.context);
  auto buf = user.allocator.alloc(size);
  REQUIRE(message(buf) == "ok");
  const DevicePtr address = buf->address();
  gate.close(user.stream);
  REQUIRE(message(user.allocator.fill(*buf, std::byte{1})) == "ok");
  machine->fail({.symbol = "cuStreamSynchronize", .nth = 1, .times = 9, .status = native::abi::unknown});
  machine->also_fail({.symbol = "cuCtxSynchronize", .nth = 1, .times = 9, .status = native::abi::unknown});
  user.allocator.free(*buf, size);
  machine->disarm();
  CHECK(machine->violations() == "");
  CHECK(machine->balance().allocations == 1);
  CHECK(reports.take().size() == 2);
  gate.open();
  REQUIRE(message(user.allocator.synchronize()) == "ok");
  const native::Entered entered(user.context);
  REQUIRE_CUDA(native::driver().mem_free(address));
}

TEST_CASE("the chunks of a copy that cannot be waited for are not given back") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  Reports reports;
  native::Borrowed user;
  auto buf = user.allocator.alloc(size);
  REQUIRE(message(buf) == "ok");
  auto file = testing::ScratchFile::holding(native::pattern(size));
  REQUIRE(file);
  {
    native::Gate gate(user.context);
    gate.close(user.stream);
    machine->fail({.symbol = "cuEventRecord", .nth = 1, .times = 1, .status = native::abi::unknown});
    machine->also_fail(
        {.symbol = "cuStreamSynchronize", .nth = 1, .times = 9, .status = native::abi::unknown});
    CHECK(outcome(user.allocator.copy_from_disk(*buf, file->extent(), size)) == "driver");
    machine->disarm();
    CHECK(machine->balance().pinned == 3);  // the chunks, and the gate
  }
  CHECK(machine->violations() == "");
  CHECK(reports.take().size() == 1);
  user.allocator.free(*buf, size);
  machine->forget_pinned();
}

TEST_CASE("a copy whose stream cannot be waited for is waited for with its context") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  native::Borrowed user;
  auto buf = user.allocator.alloc(size);
  REQUIRE(message(buf) == "ok");
  machine->reset();
  machine->fail({.symbol = "cuStreamSynchronize", .nth = 1, .times = 1, .status = native::abi::unknown});
  std::vector<std::byte> seen(size);
  CHECK(outcome(user.allocator.copyout(seen, *buf)) == "driver");
  CHECK(machine->calls("cuCtxSynchronize") == 1);
  user.allocator.free(*buf, size);
}

TEST_CASE("the cache of a lost device is let go without a call") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  Reports reports;
  native::Context context;
  {
    native::Stream stream(context);
    auto made = cuda::Allocator::borrow(context, stream, native::options());
    REQUIRE(message(made) == "ok");
    auto lru = LruAllocator<cuda::Allocator>::create(*made);
    REQUIRE(lru);
    auto buf = lru->alloc(size, {});
    REQUIRE(message(buf) == "ok");
    lru->free(*buf, size, {});
    machine->fault(stream);
    CHECK(outcome(lru->synchronize()) == "device_lost");
    machine->reset();
    lru->trim(0);
    CHECK(lru->statistics().cached_bytes == 0);
    CHECK(machine->calls() == 0);
  }
  CHECK(reports.take().size() == 1);
}
