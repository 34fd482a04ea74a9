// expect: (use of deleted function|call to (implicitly-)?deleted constructor|implicitly[- ]deleted)
// SPDX-License-Identifier: MIT
#include <berth/core/packed_buffer.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
berth::PackedBuffer second(berth::PackedBuffer& first) { return std::move(first); }
#else
berth::PackedBuffer second(berth::PackedBuffer& first) { return first; }
#endif
