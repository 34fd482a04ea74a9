// SPDX-License-Identifier: MIT
// The fake driver as a library: what a program finds as libcuda.so.1 on a machine with a GPU. The environment
// says what it lacks:
//   FAKE_CUDA_HIDES=SYMBOL    no such entry point
//   FAKE_CUDA_DEVICES=N       so many devices (1)
//   FAKE_CUDA_FAILS=SYMBOL    every call of it is CUDA_ERROR_UNKNOWN
// Compiled with FAKE_CUDA_OLD it is a driver before CUDA 12: cuGetProcAddress has one argument less.
#include <cstdlib>
#include <string>
#include <string_view>

#include "cuda/entries.hpp"
#include "support/fake_cuda.hpp"

namespace {

using fake_cuda::Machine;
namespace abi = fake_cuda::abi;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// What the program's kernel does: counts the bytes by their value.
void histogram(const fake_cuda::Launch& launch) {
  const auto* const bytes = Machine::bytes(launch.arg<abi::DevicePtr>(0));
  const auto nbytes = launch.arg<std::uint64_t>(1);
  auto* const totals = reinterpret_cast<std::uint32_t*>(Machine::bytes(launch.arg<abi::DevicePtr>(2)));
  for (std::uint64_t i = 0; i < nbytes; ++i) ++totals[std::to_integer<unsigned char>(bytes[i])];
}

// Never destroyed, like a driver's own state.
Machine& machine() {
  static Machine* const made = [] {
    fake_cuda::Config config;
    const std::string devices(environment("FAKE_CUDA_DEVICES"));
    if (!devices.empty()) config.devices = std::atoi(devices.c_str());
    auto* const fresh = new Machine(config);
    fresh->add_kernel("histogram", {sizeof(abi::DevicePtr), sizeof(std::uint64_t), sizeof(abi::DevicePtr)},
                      histogram);
    const std::string fails(environment("FAKE_CUDA_FAILS"));
    if (!fails.empty()) {
      fresh->fail({.symbol = fails, .nth = 1, .times = UINT64_MAX, .status = abi::unknown});
    }
    return fresh;
  }();
  return *made;
}

// Berth asks for the interface whose signature it has, and for no other meaning of the default stream.
constexpr std::uint64_t legacy_stream = 1;

abi::Status find(const char* symbol, void** function, int asked, std::uint64_t flags) {
  machine();
  const auto& table = Machine::driver();
  const std::string_view wanted = symbol;
  *function = nullptr;
  if (wanted == environment("FAKE_CUDA_HIDES")) return abi::not_found;
#define FAKE_LIBCUDA_ENTRY(member, symbol, version, need)                \
  if (wanted == #symbol && asked == (version) && flags == legacy_stream) \
    *function = reinterpret_cast<void*>(table.member);
  BERTH_CUDA_ENTRIES(FAKE_LIBCUDA_ENTRY)
#undef FAKE_LIBCUDA_ENTRY
  return *function != nullptr ? abi::success : abi::not_found;
}

}  // namespace

extern "C" {
#ifdef FAKE_CUDA_OLD
[[gnu::visibility("default")]] abi::Status cuGetProcAddress(const char* symbol, void** function, int version,
                                                            std::uint64_t flags) {
  return find(symbol, function, version, flags);
}
#else
[[gnu::visibility("default")]] abi::Status cuGetProcAddress_v2(const char* symbol, void** function,
                                                               int version, std::uint64_t flags, int* found) {
  const abi::Status status = find(symbol, function, version, flags);
  *found = status == abi::success ? 0 : 1;
  return status;
}
#endif
}
