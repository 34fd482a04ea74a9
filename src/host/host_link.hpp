// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/host_link.hpp>

namespace berth::inline BERTH_ABI::host {

/// Host memory on the host: a buffer over the array itself, with nothing to move. Claims no range: what other
/// devices have of the same memory is theirs to order.
class Linker final : public device::HostLinker {
 public:
  [[nodiscard]] Result<device::LinkInfo> probe(const device::Device& device,
                                               const device::LinkRequest& like) override;
  [[nodiscard]] Result<std::unique_ptr<device::HostLink>> link(const device::Device& device,
                                                               const device::LinkRequest& request) override;
};

}  // namespace berth::inline BERTH_ABI::host
