// SPDX-License-Identifier: MIT
// Every driver call that an allocator makes fails once, one after the other: the failure is told, nothing
// leaks, nothing hangs, and afterwards all works. Runs under the layer "faults".
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "layers/entries.hpp"
#include "layers/faults_helpers.hpp"
#include "support/opencl_fixture.hpp"
#include "support/reports.hpp"

using namespace berth;
using namespace std::chrono_literals;
using opencl::ClBuffer;

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

/// Ends the process when a run does not end in time: nothing else gets a thread out of a wait that never
/// ends.
class Watchdog {
 public:
  explicit Watchdog(std::string what)
      : thread_([this, what = std::move(what)] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, 30s, [this] { return end_; })) return;
          native::say("hangs: " + what);
          std::_Exit(1);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    ended_.notify_all();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::jthread thread_;
};

/// What the script uses and does not make itself, so that only berth's calls are failed. What berth takes
/// over it takes from here; what it refuses to take stays and is released at the end.
struct Given {
  cl_device_id device = native::device().id;
  native::Owned<cl_context> context = native::make_context(device);
  native::Owned<cl_command_queue> queue = native::make_queue(context, device);
  native::Owned<cl_command_queue> other = native::make_queue(context, device);
  Queue other_handle = opencl::borrow_queue(other);
  native::Owned<cl_mem> adopted = native::make_buffer(context, size);
  native::Owned<cl_mem> borrowed = native::make_buffer(context, size);
  native::Owned<cl_mem> borrowed_sub = native::make_sub_buffer(borrowed, 1024, 512);
  native::Owned<cl_context> context_to_adopt = native::retained(context.get());
  native::Owned<cl_command_queue> queue_to_adopt = native::retained(other.get());
  native::Pages pages{size};
  std::vector<std::byte> bytes = native::pattern(size);
};

using Allocated = std::optional<ClBuffer>;

Allocated allocated(Told& told, const char* step, opencl::Allocator& a, const BufferSpec& spec) {
  auto buf = a.alloc(size, spec);
  if (!told(step, buf)) return std::nullopt;
  return *buf;
}

void freed(opencl::Allocator& a, const Allocated& buf, const BufferSpec& spec = {}) {
  if (buf) a.free(*buf, buf->nbytes(), spec);
}

void copies(Told& told, Given& given, opencl::Allocator& a, const ClBuffer& buf) {
  const bool in = told("copyin", a.copyin(buf, given.bytes));
  std::vector<std::byte> back(size);
  const bool out = told("copyout", a.copyout(back, buf));
  told.expect(!in || !out || back == given.bytes);
  told("fill", a.fill(buf, std::byte{5}));
  const auto address = a.addr(buf);
  if (address || address.error().code() != Errc::unsupported) told("addr", address);
}

void views(Told& told, opencl::Allocator& a, const ClBuffer& buf) {
  const auto odd = a.offset(buf, 100, 1025);
  if (told("offset", odd)) told("kernel_arg", a.kernel_arg(*odd));
  const auto even = a.offset(buf, 1024, 2048);
  if (told("offset", even)) told("exact_arg", a.exact_arg(*even));
}

void maps(Told& told, opencl::Allocator& a, const ClBuffer& buf) {
  auto written = a.map(buf, Access::overwrite, 100, 50);
  if (told("map", written)) {
    std::ranges::fill(written->bytes(), std::byte{6});
    told("unmap", written->unmap());
  }
  const auto read = a.map(buf, Access::read, 10, 60);
  if (told("map", read)) told.expect(read->bytes()[0] == std::byte{6} || !told.returned.empty());
}  // the second map ends unasked

void other_queue(Told& told, Given& given, opencl::Allocator& a, const ClBuffer& buf) {
  auto on_other = a.on(given.other_handle);
  if (told("on", on_other)) told("fill", on_other->fill(buf, std::byte{7}));
  auto second = opencl::Allocator::borrow(given.context, given.other, {.commit = opencl::Commit::always});
  if (!told("borrow", second)) return;
  const Allocated own = allocated(told, "alloc", *second, {});
  if (own) {
    told("transfer", second->transfer(*own, buf, size));
    told("transfer", a.transfer(buf, *own, size));
  }
  const auto recorded = second->record();
  if (told("record", recorded)) told("wait", a.wait(*recorded));
  freed(*second, own);
}

void external(Told& told, Given& given, opencl::Allocator& a) {
  const BufferSpec spec{.external_ptr = given.pages.data()};
  const Allocated wrap = allocated(told, "alloc", a, spec);
  if (!wrap) return;
  copies(told, given, a, *wrap);
  views(told, a, *wrap);
  maps(told, a, *wrap);
  told("record_use", a.record_use(*wrap, given.other_handle));
  freed(a, wrap, spec);
}

void native_buffers(Told& told, Given& given, opencl::Allocator& a) {
  auto adopted = a.adopt(given.adopted.get());
  if (told("adopt", adopted)) {
    given.adopted.give();
    a.free(*adopted, size);
  }
  auto borrowed = a.borrow(given.borrowed_sub.get());
  if (told("borrow", borrowed)) {
    told("exact_arg", a.exact_arg(*borrowed));
    a.free(*borrowed, borrowed->nbytes());
  }
}

/// Nearly all that an allocator does.
void script(Told& told, Given& given) {
  {
    auto opened = opencl::Allocator::open(given.device, {.commit = opencl::Commit::always});
    if (told("open", opened)) freed(*opened, allocated(told, "alloc", *opened, {}));
  }
  {
    auto adopted = opencl::Allocator::adopt(given.context_to_adopt, given.queue_to_adopt);
    if (told("adopt", adopted)) {
      given.context_to_adopt.give();
      given.queue_to_adopt.give();
      freed(*adopted, allocated(told, "alloc", *adopted, {.zero = true}));
    }
  }
  auto borrowed = opencl::Allocator::borrow(given.context, given.queue, {.commit = opencl::Commit::always});
  if (!told("borrow", borrowed)) return;
  opencl::Allocator& a = *borrowed;
  const Allocated plain = allocated(told, "alloc", a, {});
  const Allocated host = allocated(told, "alloc", a, {.host = true});
  const Allocated cpu = allocated(told, "alloc", a, {.cpu_access = true});
  const Allocated zero = allocated(told, "alloc", a, {.zero = true});
  if (plain) {
    copies(told, given, a, *plain);
    views(told, a, *plain);
    maps(told, a, *plain);
    other_queue(told, given, a, *plain);
  }
  if (plain && host) told("transfer", a.transfer(*host, *plain, size));
  native_buffers(told, given, a);
  external(told, given, a);
  told("synchronize", a.synchronize());
  freed(a, plain);
  freed(a, host);
  freed(a, cpu);
  freed(a, zero, {.zero = true});
}

/// The code that CL_OUT_OF_RESOURCES stands for, by what was being done.
Errc expected_code(std::string_view call, std::string_view step) {
  constexpr std::array moves{"clEnqueueReadBuffer",
                             "clEnqueueWriteBuffer",
                             "clEnqueueCopyBuffer",
                             "clEnqueueMapBuffer",
                             "clEnqueueUnmapMemObject",
                             "clEnqueueMarkerWithWaitList",
                             "clEnqueueBarrierWithWaitList",
                             "clFlush",
                             "clFinish"};
  constexpr std::array allocates{"clCreateBuffer", "clCreateBufferWithProperties", "clCreateSubBuffer",
                                 "clSetMemObjectDestructorCallback", "clWaitForEvents"};
  if (call == "clEnqueueFillBuffer") return step == "alloc" ? Errc::out_of_memory : Errc::device_lost;
  if (std::ranges::find(moves, call) != moves.end()) return Errc::device_lost;
  if (std::ranges::find(allocates, call) != allocates.end()) return Errc::out_of_memory;
  return Errc::driver;
}

/// Takes out what only follows from an unmap that failed: the range stays mapped.
void forget_mapped(Told& told, std::vector<std::string>& reported) {
  std::erase_if(told.returned,
                [](const Told::Failure& failure) { return failure.error.code() == Errc::mapped; });
  std::erase_if(reported,
                [](const std::string& report) { return report.find("mapped by the host") != report.npos; });
}

/// Which calls fail: from number `nth` on, `times` of them, of one entry point or (null) of all.
struct Fault {
  std::uint64_t nth = UINT64_MAX;
  std::uint64_t times = 1;
  cl_int status = CL_OUT_OF_RESOURCES;
  const char* entry = nullptr;
};

/// One run. Whatever happens, it ends and leaves nothing.
struct Run {
  explicit Run(const layers::Faults& faults, const Fault& fault = {}) {
    const layers::Balance before = faults.balance();
    faults.reset();
    Reports reports;
    {
      Given given;
      const Watchdog watchdog(std::string(fault.entry != nullptr ? fault.entry : "call") + " " +
                              std::to_string(fault.nth) + " failed");
      const std::uint64_t given_calls = faults.calls();
      faults.fail(fault.entry, fault.nth, fault.times, fault.status);
      script(told, given);
      calls = faults.calls() - given_calls;
      failed = faults.failed();
      entry = faults.last_failed();
      faults.disarm();
      reported = reports.take();
      faults.settle();
      // What the driver would not wait for may still use the pages.
      for (const cl_command_queue queue : {given.queue.get(), given.other.get()}) {
        if (queue != nullptr) clFinish(queue);
      }
      // The next run's may lie at the same address.
      unclaimed = native::unclaimed(given.pages.bytes());
    }
    violations = faults.violations();
    balanced = faults.balance() == before;
    settled_reports = reports.take();
  }

  Told told;
  std::uint64_t calls = 0;
  std::uint64_t failed = 0;
  std::string entry;
  std::vector<std::string> reported;
  std::vector<std::string> settled_reports;
  std::string violations;
  bool balanced = false;
  bool unclaimed = false;
};

std::string text(const Run& run) {
  std::string all = run.entry + " failed\n";
  for (const auto& failure : run.told.returned)
    all += "returned by " + failure.step + ": " + failure.error.message() + "\n";
  for (const auto& report : run.reported) all += "reported: " + report + "\n";
  return all + run.violations;
}

std::uint64_t calls_of_a_run(const layers::Faults& faults) {
  const Run run(faults);
  INFO(text(run));
  REQUIRE(run.failed == 0);
  REQUIRE(run.told.returned.empty());
  REQUIRE(run.reported.empty());
  REQUIRE(run.told.right_bytes);
  REQUIRE(run.violations.empty());
  REQUIRE(run.balanced);
  return run.calls;
}

}  // namespace

TEST_CASE("each driver call fails in turn: told once, by its name, and nothing is left behind") {
  const layers::Faults faults;
  const std::uint64_t calls = calls_of_a_run(faults);
  CHECK(calls > 100);
  const cl_int status = GENERATE(CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY);
  for (std::uint64_t nth = 1; nth <= calls; ++nth) {
    Run run(faults, {.nth = nth, .status = status});
    if (run.entry == "clEnqueueUnmapMemObject") forget_mapped(run.told, run.reported);
    INFO("call " << nth << " of " << calls << ": " << text(run));
    REQUIRE(run.failed == 1);
    CHECK(run.balanced);
    CHECK(run.unclaimed);
    CHECK(run.violations.empty());
    CHECK(run.told.right_bytes);
    CHECK(run.settled_reports.empty());
    REQUIRE(run.told.returned.size() + run.reported.size() == 1);
    if (run.told.returned.empty()) {
      CHECK(run.reported.front().starts_with(run.entry + ": "));
    } else {
      const auto& [step, error] = run.told.returned.front();
      CHECK(error.call() == run.entry);
      CHECK(error.status() == status);
      const Errc expected =
          status == CL_OUT_OF_HOST_MEMORY ? Errc::out_of_memory : expected_code(run.entry, step);
      CHECK(to_string(error.code()) == to_string(expected));
    }
    const bool release = run.entry.starts_with("clRelease");
    CHECK((!release || run.told.returned.empty()));  // free and destructors return nothing
  }
  CHECK(calls_of_a_run(faults) == calls);
}

TEST_CASE("a driver that fails for good is told, and hangs nothing") {
  const layers::Faults faults;
  const std::uint64_t calls = calls_of_a_run(faults);
  const auto check = [&](const Fault& fault) {
    Run run(faults, fault);
    forget_mapped(run.told, run.reported);
    INFO("from call " << fault.nth << " of " << calls << ": " << text(run));
    CHECK(run.balanced);
    CHECK(run.unclaimed);
    CHECK(run.violations.empty());
    CHECK((run.failed == 0) == (run.told.returned.empty() && run.reported.empty()));
    for (const auto& failure : run.told.returned) CHECK(failure.error.status() == CL_OUT_OF_RESOURCES);
  };
  SECTION("at everything, from some call on") {
    for (std::uint64_t nth = 1; nth <= calls; ++nth) check({.nth = nth, .times = UINT64_MAX});
  }
  SECTION("at one thing") {
    for (const std::string_view entry : layers::entry_names) {
      check({.nth = 1, .times = UINT64_MAX, .entry = std::string(entry).c_str()});
    }
  }
  CHECK(calls_of_a_run(faults) == calls);
}

TEST_CASE("each driver call of a staged disk copy fails in turn: it is told, or the bytes are right") {
  const layers::Faults faults;
  constexpr std::size_t nbytes = (std::size_t{9} << 20U) + 5;  // three chunks
  const auto bytes = native::pattern(nbytes);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  REQUIRE(std::fwrite(bytes.data(), 1, nbytes, file.get()) == nbytes);
  REQUIRE(std::fflush(file.get()) == 0);
  const FileExtent extent{.fd = ::fileno(file.get()), .offset = 0, .nbytes = nbytes};

  const layers::Balance before = faults.balance();
  std::uint64_t absorbed = 0;
  // Of an allocator that has no chunks yet; how many calls the copy made.
  const auto copy = [&](std::uint64_t nth) {
    Reports reports;
    std::uint64_t calls = 0;
    {
      native::Stream stream({.stage_disk_copies = true});
      auto buf = stream.allocator.alloc(nbytes);
      REQUIRE(message(buf) == "ok");
      faults.reset();
      faults.fail(nullptr, nth, 1, CL_OUT_OF_RESOURCES);
      const auto copied = stream.allocator.copy_from_disk(*buf, extent, nbytes);
      calls = faults.calls();
      const bool failed = faults.failed() != 0;
      const std::string entry = faults.last_failed();
      faults.disarm();
      INFO("call " << nth << ", " << entry << ": " << message(copied));
      if (copied) {
        absorbed += failed && reports.take().empty() ? 1 : 0;
        CHECK(copied->buffered == nbytes);
        CHECK((native::content(stream.allocator, *buf) == bytes));
      } else {
        CHECK(copied.error().call() == entry);
      }
      CHECK(message(stream.allocator.copy_from_disk(*buf, extent, nbytes)) == "ok");
      CHECK((native::content(stream.allocator, *buf) == bytes));
      stream.allocator.free(*buf, nbytes);
    }
    faults.settle();
    CHECK(faults.balance() == before);
    CHECK(faults.violations().empty());
    return calls;
  };
  const std::uint64_t calls = copy(UINT64_MAX);
  CHECK(calls > 10);
  for (std::uint64_t nth = 1; nth <= calls; ++nth) copy(nth);
  CHECK(absorbed == 4);  // each chunk's buffer and map: memory that is not pinned takes its place
}

TEST_CASE("each call of the discovery fails in turn, and is told") {
  const layers::Faults faults;
  const auto incomplete = [](const opencl::PlatformDescription& platform) {
    // A text that cannot be read stays empty.
    return platform.problem.has_value() || platform.name.empty() || platform.vendor.empty() ||
           platform.version_text.empty();
  };
  const auto told = [&] {
    const auto found = opencl::platforms();
    return !found || std::ranges::any_of(*found, incomplete);
  };
  faults.reset();
  CHECK_FALSE(told());
  const std::uint64_t calls = faults.calls();
  CHECK(calls > 10);
  for (std::uint64_t nth = 1; nth <= calls; ++nth) {
    faults.fail(nullptr, nth, 1, CL_OUT_OF_HOST_MEMORY);
    const bool seen = told();
    INFO("call " << nth << " of " << calls << ", " << faults.last_failed());
    CHECK(faults.failed() == 1);
    CHECK(seen);
    faults.disarm();
  }
  CHECK_FALSE(told());
}

TEST_CASE("a copy for which the driver refuses a reference never gives one back") {
  const layers::Faults faults;
  const native::Stream stream;
  const layers::Balance before = faults.balance();
  faults.reset();
  Reports reports;
  faults.fail("clRetainCommandQueue", 1, UINT64_MAX, CL_OUT_OF_RESOURCES);
  {
    opencl::Allocator copy = stream.allocator;
    const bool works = message(copy.synchronize()) == "ok";
    CHECK((faults.failed() == 0 || !works));
  }
  const bool told = !reports.take().empty();
  CHECK(told == (faults.failed() != 0));
  faults.disarm();
  CHECK(faults.balance() == before);
  CHECK(faults.violations().empty());
  opencl::Allocator copy = stream.allocator;
  CHECK(message(copy.synchronize()) == "ok");
}
