// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/device.hpp>

#include <string_view>
#include <vector>

namespace berth::inline BERTH_ABI::device {

class HostLinker;

/// A named backend that lists its devices: the interface that a user's own backend implements to stand beside
/// berth's. Must be thread-safe.
class BERTH_EXPORT Framework {
 public:
  virtual ~Framework();

  /// "OpenCL", "CUDA", "Native", or the user's own; the key in the registry.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// The devices, opened on the first call; later calls give the same ones. `no_device` when there are none,
  /// `library_missing` when the driver is not installed.
  [[nodiscard]] virtual Result<std::vector<Device>> devices() = 0;

  /// Links host memory to this framework's devices; null when it offers none.
  [[nodiscard]] virtual HostLinker* host_linker() noexcept { return nullptr; }

 protected:
  Framework() = default;
  Framework(const Framework&) = default;
  Framework& operator=(const Framework&) = default;
};

}  // namespace berth::inline BERTH_ABI::device
