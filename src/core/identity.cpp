// SPDX-License-Identifier: MIT
#include <berth/core/identity.hpp>

#include <atomic>

namespace berth::inline BERTH_ABI {

InstanceId next_instance_id() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return InstanceId{last.fetch_add(1, std::memory_order_relaxed) + 1};
}

}  // namespace berth::inline BERTH_ABI
