// expect: (use of deleted function|call to (implicitly-)?deleted constructor|implicitly[- ]deleted)
// SPDX-License-Identifier: MIT
#include <berth/core/host_range.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
berth::HostRange second(berth::HostRange& first) { return std::move(first); }
#else
berth::HostRange second(berth::HostRange& first) { return first; }
#endif
