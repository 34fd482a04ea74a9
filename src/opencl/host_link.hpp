// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mutex.hpp>
#include <berth/device/host_link.hpp>

#include <memory>
#include <vector>

namespace berth::inline BERTH_ABI::opencl {

/// Host memory on OpenCL devices: a buffer object over it (`CL_MEM_USE_HOST_PTR`). Whether the driver shares
/// the memory or keeps a copy is tried on private pages, and both are served by the calls that are right on
/// either: host bytes go out by a write whose source is the host memory itself, device bytes come home by a
/// map for reading.
///
/// What is not done, since some driver loses bytes by it: a map for writing to publish what was written
/// before, two maps at one address, a map while the host is newer.
class Linker final : public device::HostLinker {
 public:
  [[nodiscard]] Result<device::LinkInfo> probe(const device::Device& device,
                                               const device::LinkRequest& like) override;
  [[nodiscard]] Result<std::unique_ptr<device::HostLink>> link(const device::Device& device,
                                                               const device::LinkRequest& request) override;

 private:
  // Drivers decide by the alignment of address and size, so each combination is tried by itself.
  struct Probed {
    DeviceKey device;
    bool address_aligned;
    bool size_aligned;
    device::LinkInfo info;
  };
  Mutex mutex_;
  std::vector<Probed> probed_ BERTH_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<const void>> kept_ BERTH_GUARDED_BY(mutex_);  // of trials that ended badly
};

}  // namespace berth::inline BERTH_ABI::opencl
