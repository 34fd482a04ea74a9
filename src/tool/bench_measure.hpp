// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "stopwatch.hpp"

namespace berth::tool {

/// The compiler may not assume that it knows `object` from here on.
template <class T>
void opaque(T& object) noexcept {
  asm volatile("" : : "r"(&object) : "memory");
}

/// Nanoseconds for one call of `work`, over `times` of them.
double nanoseconds_for(unsigned times, auto&& work) {
  const Stopwatch stopwatch;
  for (unsigned i = 0; i < times; ++i) work();
  return static_cast<double>(stopwatch.elapsed().count()) / times;
}

/// The middle one. `values` has some.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace berth::tool
