// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/error.hpp>

namespace berth::inline BERTH_ABI {

/// Where errors go that no return value can carry: a release that the driver refused, a free of a buffer that
/// is not the allocator's own. Called on the thread that met the error, possibly on several at once, with no
/// lock of berth held; it must not throw. `context` is the pointer given with it.
using DiagnosticSink = void (*)(const Error& error, void* context) noexcept;

/// Replaces the process-wide sink; null restores the default, which writes one line to stderr. Thread-safe:
/// reports that are under way may still reach the old sink, so its context must outlive them.
BERTH_EXPORT void set_diagnostic_sink(DiagnosticSink sink, void* context = nullptr) noexcept;

/// Hands an error to the sink.
BERTH_EXPORT void report(const Error& error) noexcept;

/// Keeps what this thread reports until the outermost of these goes: declared before a lock that berth holds
/// while it calls a driver, so that the sink is called without it.
class [[nodiscard]] BERTH_EXPORT HoldReports {
 public:
  HoldReports() noexcept;
  HoldReports(const HoldReports&) = delete;
  HoldReports& operator=(const HoldReports&) = delete;
  ~HoldReports();
};

}  // namespace berth::inline BERTH_ABI
