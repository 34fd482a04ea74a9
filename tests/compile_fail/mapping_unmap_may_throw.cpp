// expect: no matching (function|constructor)
// SPDX-License-Identifier: MIT
#include <berth/core/mapping.hpp>

struct State {};
#ifdef BERTH_COMPILE_FAIL_CONTROL
berth::Result<void> unmap(const State&, std::span<std::byte>) noexcept { return {}; }
#else
berth::Result<void> unmap(const State&, std::span<std::byte>) { return {}; }
#endif

berth::Mapping made() { return berth::Mapping({}, State{}, unmap); }
