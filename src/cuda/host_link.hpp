// SPDX-License-Identifier: MIT
#pragma once

#include <berth/cuda/allocator.hpp>
#include <berth/device/host_link.hpp>

#include <memory>

namespace berth::inline BERTH_ABI::cuda {

/// Host memory on CUDA devices: pinned pages that the device reaches (`cuMemHostRegister`), or any page where
/// it reaches them all. One memory for both sides, so that publish is nothing, for launches that come later,
/// and acquire is a wait, for the whole context.
class Linker final : public device::HostLinker {
 public:
  [[nodiscard]] Result<device::LinkInfo> probe(const device::Device& device,
                                               const device::LinkRequest& like) override;
  [[nodiscard]] Result<std::unique_ptr<device::HostLink>> link(const device::Device& device,
                                                               const device::LinkRequest& request) override;
};

}  // namespace berth::inline BERTH_ABI::cuda
