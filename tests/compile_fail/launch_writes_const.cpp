// expect: no matching function|discards|cannot bind|binding reference|drops 'const'
// SPDX-License-Identifier: MIT
#include <berth/vector/launch.hpp>

auto call(const berth::Vector<float>& vector) {
#ifdef BERTH_COMPILE_FAIL_CONTROL
  return berth::in(vector);
#else
  return berth::inout(vector);
#endif
}
