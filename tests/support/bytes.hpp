// SPDX-License-Identifier: MIT
// Bytes to recognise, and what buffers hold.
#pragma once

#include <berth/core/allocator.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"

namespace native {

/// Bytes that tell their place, and one `seed` from another.
inline std::vector<std::byte> pattern(std::size_t nbytes, unsigned seed = 0) {
  std::vector<std::byte> bytes(nbytes);
  std::uint32_t state = 0x9E3779B9U * (seed + 1);
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24U);
  }
  return bytes;
}

/// What a buffer holds, read by its allocator.
template <berth::Allocator A>
std::vector<std::byte> content(A& allocator, const berth::buffer_t<A>& buf) {
  std::vector<std::byte> bytes(buf.nbytes());
  REQUIRE(message(allocator.copyout(bytes, buf)) == "ok");
  return bytes;
}

/// Whether all bytes are `value`.
inline bool all(std::span<const std::byte> bytes, int value) {
  for (const std::byte byte : bytes) {
    if (byte != static_cast<std::byte>(value)) return false;
  }
  return true;
}

}  // namespace native
