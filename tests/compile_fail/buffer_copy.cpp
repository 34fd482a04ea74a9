// expect: (use of deleted function|call to (implicitly-)?deleted constructor|implicitly[- ]deleted)
// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
berth::Buffer second(berth::Buffer& first) { return std::move(first); }
#else
berth::Buffer second(berth::Buffer& first) { return first; }
#endif
