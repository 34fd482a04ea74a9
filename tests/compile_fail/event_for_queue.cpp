// expect: could not convert|no viable (conversion|constructor)|cannot convert|no known conversion|invalid
// initialization|conversion from SPDX-License-Identifier: MIT
#include <berth/core/queue.hpp>

#ifdef BERTH_COMPILE_FAIL_CONTROL
using Given = berth::Queue;
#else
using Given = berth::Event;
#endif

void order_on(const berth::Queue&);
void call(const Given& given) { order_on(given); }
