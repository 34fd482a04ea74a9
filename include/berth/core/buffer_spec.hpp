// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <cstddef>
#include <functional>

namespace berth::inline BERTH_ABI {

/// What an allocation should be besides its size. All off by default.
///
/// `uncached` and `cpu_access` are requests that a backend may be unable to honour; `host`, `zero` and
/// `external_ptr` are requirements: a backend that cannot meet one answers `Errc::unsupported`.
struct BufferSpec {
  bool uncached = false;    ///< request: not cached by the CPU (write-combined where the device can)
  bool cpu_access = false;  ///< request: cheap to map for the CPU
  bool host = false;        ///< memory of the host that the device can reach (pinned)
  bool nolru = false;       ///< never kept by a cache when freed
  bool zero = false;        ///< all bytes zero after `alloc`

  /// Wraps memory that berth does not own: never freed, cached or counted. A host address on the host and
  /// OpenCL backends, a device address on CUDA. It must stay valid until `free` of the buffer returned.
  void* external_ptr = nullptr;

  friend constexpr bool operator==(const BufferSpec&, const BufferSpec&) = default;
};

}  // namespace berth::inline BERTH_ABI

template <>
struct std::hash<berth::BufferSpec> {
  std::size_t operator()(const berth::BufferSpec& spec) const noexcept {
    const auto flags = static_cast<unsigned>(spec.uncached) | static_cast<unsigned>(spec.cpu_access) << 1U |
                       static_cast<unsigned>(spec.host) << 2U | static_cast<unsigned>(spec.nolru) << 3U |
                       static_cast<unsigned>(spec.zero) << 4U;
    return std::hash<void*>{}(spec.external_ptr) * 31U + flags;
  }
};
