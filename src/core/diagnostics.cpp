// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>

#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>

#include <cstdio>
#include <new>
#include <utility>

namespace berth::inline BERTH_ABI {
namespace {

void to_stderr(const Error& error, void*) noexcept {
  std::fprintf(stderr, "berth: %s\n", error.message().c_str());
}

struct Sink {
  DiagnosticSink call;
  void* context;
};

// Never destroyed: frees may report until the very end of the process.
struct SinkSlot {
  Mutex mutex;
  Sink sink BERTH_GUARDED_BY(mutex){&to_stderr, nullptr};
};

SinkSlot& slot() noexcept {
  static SinkSlot* const leaked = new SinkSlot;
  return *leaked;
}

struct Held {
  Error error;
  Held* next;
};
// What this thread holds back, the first first.
struct Holding {
  unsigned depth;
  Held* first;
  Held** end;
};
thread_local constinit Holding holding{0, nullptr, nullptr};

bool hold(const Error& error) noexcept {
  if (holding.depth == 0) return false;
  auto* const held = new (std::nothrow) Held{error, nullptr};
  if (held == nullptr) return false;
  *holding.end = held;
  holding.end = &held->next;
  return true;
}

}  // namespace

void set_diagnostic_sink(DiagnosticSink sink, void* context) noexcept {
  SinkSlot& current = slot();
  const MutexLock lock(current.mutex);
  current.sink = sink != nullptr ? Sink{sink, context} : Sink{&to_stderr, nullptr};
}

void report(const Error& error) noexcept {
  if (process::forked())
    return to_stderr(error, nullptr);  // the lock may have been held when the process forked
  if (hold(error)) return;
  SinkSlot& current = slot();
  Sink sink{};
  {
    const MutexLock lock(current.mutex);
    sink = current.sink;
  }
  sink.call(error, sink.context);
}

HoldReports::HoldReports() noexcept {
  if (holding.depth++ == 0) holding.end = &holding.first;
}

HoldReports::~HoldReports() {
  if (--holding.depth != 0) return;
  for (Held* held = std::exchange(holding.first, nullptr); held != nullptr;) {
    report(held->error);
    delete std::exchange(held, held->next);
  }
}

}  // namespace berth::inline BERTH_ABI
