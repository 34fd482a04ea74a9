// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace berth::tool {

/// How often each byte value occurs.
struct ByteCounts {
  std::array<std::uint64_t, 256> of{};

  ByteCounts& operator+=(const ByteCounts& other) noexcept;
  friend bool operator==(const ByteCounts&, const ByteCounts&) = default;

  [[nodiscard]] std::uint64_t total() const noexcept;
};

/// The host's own count.
[[nodiscard]] ByteCounts count_bytes(std::span<const std::byte> bytes) noexcept;

}  // namespace berth::tool
