// expect: (use of deleted function|call to (implicitly-)?deleted constructor|implicitly[- ]deleted)
// SPDX-License-Identifier: MIT
#include <berth/vector/vector.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
berth::Vector<float> second(berth::Vector<float>& first) { return std::move(first); }
#else
berth::Vector<float> second(berth::Vector<float>& first) { return first; }
#endif
