// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/packed_allocator.hpp>

#include <string>
#include <vector>

namespace berth::tool {

/// One thing that an allocator may or may not do on its device.
struct Support {
  const char* key;    ///< in JSON
  const char* label;  ///< for a person
  bool supported;
  std::string reason;  ///< why not, where the allocator says so
};

/// What an opened allocator can do: asked of it, and tried out on a few bytes where there is no question to
/// ask.
[[nodiscard]] std::vector<Support> supports_of(const PackedAllocator& allocator);

}  // namespace berth::tool
