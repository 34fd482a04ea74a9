// SPDX-License-Identifier: MIT
// How a test talks to the layers that its process runs under. Each layer exports one function that gives a
// table of functions; the helpers here find it in the library that the loader has already loaded.
//
// The variable OPENCL_LAYERS has to name the layers before the first OpenCL call; tests/layers/CMakeLists.txt
// sets it.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "../support/opencl_layers.hpp"

namespace layers {

// shadow: a driver that keeps buffers in memory of its own and copies at maps and unmaps.

/// What a map and its unmap copy. A buffer keeps the mode that was set when it was made.
enum class ShadowMode : int {
  shared,   ///< the real driver's own behaviour
  clvk,     ///< every map copies device to host, every unmap host to device
  intel,    ///< INVALIDATE alone does not copy at the map, READ alone does not copy at the unmap
  rusticl,  ///< as intel, but maps that are live at one address write back if the first of them does
  lines,    ///< as intel, but only for host memory whose address or size is no multiple of 64
};

struct ShadowControl {
  void (*set_mode)(ShadowMode mode);
  ShadowMode (*mode)();
  /// Bytes that maps and unmaps have copied so far.
  std::uint64_t (*bytes_to_host)();
  std::uint64_t (*bytes_to_device)();
};

// faults: counts calls and handles, fails calls, records misuse.

/// What is alive. Sub-buffers count as buffers.
struct Balance {
  struct Count {
    std::int64_t handles;
    std::int64_t references;
    friend bool operator==(const Count&, const Count&) = default;
  };
  Count contexts;
  Count queues;
  Count buffers;
  Count events;
  Count programs;
  Count kernels;
  std::int64_t maps;
  friend bool operator==(const Balance&, const Balance&) = default;
};

struct FaultsControl {
  /// Forgets counts, the rule, and violations; not the handles.
  void (*reset)();
  /// Makes calls number `nth` (from now, the first is 1) to `nth + times - 1` of an entry point fail with
  /// `status` and not reach the driver; a null entry means of all those that can fail. One rule at a time.
  void (*fail)(const char* entry, std::uint64_t nth, std::uint64_t times, std::int32_t status);
  void (*disarm)();
  /// Calls since `reset`; a null entry means of all those that can fail.
  std::uint64_t (*calls)(const char* entry);
  /// How many calls the rule has failed since it was set, and the name of the last.
  std::uint64_t (*failed)(char* entry, std::size_t room);
  void (*balance)(Balance* out);
  /// The violations since `reset`, a line each; returns the length of the whole text.
  std::size_t (*violations)(char* text, std::size_t room);
  /// Does for real what failed releases and unmaps did not do; returns how many there were.
  std::uint64_t (*settle)();
};

namespace detail {

/// The table that the symbol of a loaded layer gives; null when no layer of this process has it.
template <class Control>
const Control* find(const char* symbol) {
  for (const std::string& path : opencl_layers) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const found = ::dlsym(library, symbol);
    ::dlclose(library);  // the loader keeps it
    if (found != nullptr) return reinterpret_cast<const Control* (*)()>(found)();
  }
  return nullptr;
}

}  // namespace detail

/// Null when the process does not run under the layer. Call after a first OpenCL call, which loads it.
inline const ShadowControl* shadow_layer() { return detail::find<ShadowControl>("berth_shadow_layer"); }
inline const FaultsControl* faults_layer() { return detail::find<FaultsControl>("berth_faults_layer"); }

}  // namespace layers
