// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/file_extent.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>

namespace berth::inline BERTH_ABI {

/// One part of a load: all of `source` to the bytes of `dest` from `byte_offset` on. Points to the buffer,
/// which must live until the load returns.
template <class Buf>
struct LoadRange {
  FileExtent source;
  const Buf* dest = nullptr;
  std::size_t byte_offset = 0;
};

/// How far a load is, in bytes over all of its ranges.
struct LoadProgress {
  std::uint64_t done = 0;
  std::uint64_t total = 0;

  friend constexpr bool operator==(const LoadProgress&, const LoadProgress&) = default;
};

/// How a load is watched and stopped.
struct LoadOptions {
  /// Looked at before each chunk; a stop ends the load with `cancelled` and the bytes done.
  std::stop_token stop;
  /// Called on the caller's thread, with no lock held, after each chunk, and once when there is nothing to
  /// load. `done` never falls and ends at `total`, unless the load fails. Must not throw. May be empty.
  std::function<void(const LoadProgress&)> progress;
  /// The most bytes between two calls of `progress`, and between two looks at `stop`. Not 0.
  std::size_t chunk = std::size_t{16} << 20U;
};

}  // namespace berth::inline BERTH_ABI
