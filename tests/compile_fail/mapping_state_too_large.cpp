// expect: static[_ ]assert.*(sizeof|failed)
// SPDX-License-Identifier: MIT
#include <berth/core/mapping.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
constexpr std::size_t size = berth::Mapping::state_bytes;
#else
constexpr std::size_t size = berth::Mapping::state_bytes + 1;
#endif

struct State {
  std::byte bytes[size];
};
berth::Result<void> unmap(const State&, std::span<std::byte>) noexcept { return {}; }

berth::Mapping made() { return berth::Mapping({}, State{}, unmap); }
