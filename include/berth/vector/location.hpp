// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/device.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::inline BERTH_ABI {

/// Where the newest elements of a vector are. One device at most is named; what other devices hold is old.
struct Location {
  enum class State : std::uint8_t {
    cpu,        ///< on the host
    gpu,        ///< on the device alone; the host holds nothing of use
    both,       ///< host and device hold the same
    stale_cpu,  ///< the device is newer
    stale_gpu,  ///< the host is newer
  };

  State state = State::cpu;
  std::optional<device::Device> device;  ///< absent for `cpu` alone

  /// Whether the newest elements have to be read from the device.
  [[nodiscard]] bool device_is_newest() const noexcept {
    return state == State::gpu || state == State::stale_cpu;
  }
  /// Whether this names `other`.
  [[nodiscard]] bool names(const device::Device& other) const noexcept { return device && *device == other; }

  friend bool operator==(const Location&, const Location&) = default;
};

/// "CPU", "GPU", "Both", "Stale_CPU", "Stale_GPU".
[[nodiscard]] BERTH_EXPORT std::string_view to_string(Location::State state) noexcept;
/// With the device's name: "Stale_CPU pthread".
[[nodiscard]] BERTH_EXPORT std::string to_string(const Location& location);

}  // namespace berth::inline BERTH_ABI
