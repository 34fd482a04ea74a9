// SPDX-License-Identifier: MIT
#include <berth/opencl/discovery.hpp>

#include <cstdio>

int main() {
  const auto platforms = berth::opencl::platforms();
  if (!platforms) {
    std::fprintf(stderr, "%s\n", platforms.error().message().c_str());
    return 1;
  }
  return platforms->empty() ? 1 : 0;
}
