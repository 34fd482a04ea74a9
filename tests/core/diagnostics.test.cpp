// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/reports.hpp"
#include "support/scale.hpp"

using namespace berth;

namespace {

struct Seen {
  std::atomic<int> calls{0};
  std::atomic<Errc> last{Errc::driver};
};
void see(const Error& error, void* context) noexcept {
  auto& seen = *static_cast<Seen*>(context);
  ++seen.calls;
  seen.last = error.code();
}
int without_context = 0;
void see_null(const Error&, void* context) noexcept {
  if (context == nullptr) ++without_context;
}

// What `call` writes to stderr.
template <class Call>
std::string stderr_of(const Call& call) {
  std::FILE* file = std::tmpfile();
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  call();
  std::fflush(stderr);
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  std::array<char, 512> text{};
  std::rewind(file);
  const std::size_t size = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  return {text.data(), size};
}

}  // namespace

TEST_CASE("a report reaches the sink with its context, and no other") {
  Seen first;
  Seen second;
  set_diagnostic_sink(&see, &first);
  report(Error(Errc::io));
  CHECK(first.calls == 1);
  CHECK(first.last == Errc::io);

  set_diagnostic_sink(&see, &second);
  report(Error(Errc::mapped));
  CHECK(first.calls == 1);
  CHECK(second.calls == 1);
  CHECK(second.last == Errc::mapped);

  set_diagnostic_sink(&see_null);
  report(Error(Errc::io));
  CHECK(without_context == 1);
  CHECK(second.calls == 1);
  set_diagnostic_sink(nullptr);
}

TEST_CASE("null restores the default: one line on stderr") {
  Seen seen;
  set_diagnostic_sink(&see, &seen);
  set_diagnostic_sink(nullptr, &seen);
  const std::string text = stderr_of([] { report(Error(Errc::driver, "opencl").in("free").asking(64)); });
  CHECK(text == "berth: opencl free: driver error, asked 64 bytes\n");
  CHECK(seen.calls == 0);
}

TEST_CASE("a sink may report, and replace the sink, itself") {
  static int depth;
  depth = 0;
  set_diagnostic_sink([](const Error& error, void*) noexcept {
    if (++depth == 1) report(error);
    if (depth == 2) set_diagnostic_sink([](const Error&, void*) noexcept { depth = 10; });
  });
  report(Error(Errc::io));
  CHECK(depth == 2);
  report(Error(Errc::io));
  CHECK(depth == 10);
  set_diagnostic_sink(nullptr);
}

TEST_CASE("reports that are held come with the end of the outermost, in their order") {
  static std::string told;
  told.clear();
  set_diagnostic_sink([](const Error& error, void*) noexcept { told += to_string(error.code()); });
  {
    const HoldReports outer;
    report(Error(Errc::io));
    {
      const HoldReports inner;
      report(Error(Errc::mapped));
    }
    CHECK(told.empty());
    std::thread([] { report(Error(Errc::driver)); }).join();
    CHECK(told == "driver");  // another thread's are not held
  }
  CHECK(told == "driveriomapped");
  report(Error(Errc::forked));
  CHECK(told == "driveriomappedforked");
  set_diagnostic_sink(nullptr);
}

TEST_CASE("every report of several threads reaches a sink while it is replaced") {
  Seen seen[2];
  const int each = static_cast<int>(scaled(5000));
  set_diagnostic_sink(&see, &seen[0]);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < each; ++n) report(Error(Errc::io));
    });
  }
  for (int n = 0; n < each; ++n) set_diagnostic_sink(&see, &seen[n % 2]);
  for (std::thread& thread : threads) thread.join();
  set_diagnostic_sink(nullptr);
  CHECK(seen[0].calls + seen[1].calls == 3 * each);
}
