// expect: (use of deleted function|call to (implicitly-)?deleted constructor|implicitly[- ]deleted)
// SPDX-License-Identifier: MIT
#include <berth/core/mapping.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
berth::Mapping second(berth::Mapping& first) { return std::move(first); }
#else
berth::Mapping second(berth::Mapping& first) { return first; }
#endif
