// SPDX-License-Identifier: MIT
#include <berth/vector/location.hpp>

namespace berth::inline BERTH_ABI {

std::string_view to_string(Location::State state) noexcept {
  switch (state) {
    case Location::State::cpu:
      return "CPU";
    case Location::State::gpu:
      return "GPU";
    case Location::State::both:
      return "Both";
    case Location::State::stale_cpu:
      return "Stale_CPU";
    case Location::State::stale_gpu:
      return "Stale_GPU";
  }
  return "";
}

std::string to_string(const Location& location) {
  std::string text(to_string(location.state));
  if (location.device) text.append(" ").append(location.device->name());
  return text;
}

}  // namespace berth::inline BERTH_ABI
