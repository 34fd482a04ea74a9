// SPDX-License-Identifier: MIT
#include <berth/device/host_link.hpp>

namespace berth::inline BERTH_ABI::device {

HostLink::~HostLink() = default;
HostLinker::~HostLinker() = default;

std::string_view to_string(LinkKind kind) noexcept {
  switch (kind) {
    case LinkKind::separate:
      return "separate";
    case LinkKind::same:
      return "same";
    case LinkKind::shared:
      return "shared";
    case LinkKind::shadow:
      return "shadow";
    case LinkKind::registered:
      return "registered";
    case LinkKind::pageable:
      return "pageable";
  }
  return "";
}

}  // namespace berth::inline BERTH_ABI::device
