// expect: static[_ ]assert.*(is_trivially_copyable|failed)
// SPDX-License-Identifier: MIT
#include <berth/core/mapping.hpp>

struct State {
#ifndef BERTH_COMPILE_FAIL_CONTROL
  ~State() {}
#endif
};
berth::Result<void> unmap(const State&, std::span<std::byte>) noexcept { return {}; }

berth::Mapping made() { return berth::Mapping({}, State{}, unmap); }
