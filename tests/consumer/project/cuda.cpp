// SPDX-License-Identifier: MIT
// Runs with and without a GPU: nothing links to the driver.
#include <berth/cuda/discovery.hpp>

#include <cstdio>

int main() {
  const auto devices = berth::cuda::devices();
  if (devices) return devices->empty() ? 1 : 0;
  std::fprintf(stderr, "%s\n", devices.error().message().c_str());
  switch (devices.error().code()) {
    case berth::Errc::library_missing:
    case berth::Errc::symbol_missing:
    case berth::Errc::no_device:
      return 0;
    default:
      return 1;
  }
}
