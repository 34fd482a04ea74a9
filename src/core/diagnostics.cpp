// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>

#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>

#include <cstdio>

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

}  // namespace

void set_diagnostic_sink(DiagnosticSink sink, void* context) noexcept {
  SinkSlot& current = slot();
  const MutexLock lock(current.mutex);
  current.sink = sink != nullptr ? Sink{sink, context} : Sink{&to_stderr, nullptr};
}

void report(const Error& error) noexcept {
  if (process::forked())
    return to_stderr(error, nullptr);  // the lock may have been held when the process forked
  SinkSlot& current = slot();
  Sink sink{};
  {
    const MutexLock lock(current.mutex);
    sink = current.sink;
  }
  sink.call(error, sink.context);
}

}  // namespace berth::inline BERTH_ABI
