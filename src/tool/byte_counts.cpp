// SPDX-License-Identifier: MIT
#include "byte_counts.hpp"

#include <numeric>

namespace berth::tool {

ByteCounts& ByteCounts::operator+=(const ByteCounts& other) noexcept {
  for (std::size_t value = 0; value < of.size(); ++value) of[value] += other.of[value];
  return *this;
}

std::uint64_t ByteCounts::total() const noexcept {
  return std::reduce(of.begin(), of.end(), std::uint64_t{0});
}

ByteCounts count_bytes(std::span<const std::byte> bytes) noexcept {
  // Several counters a value: a run of equal bytes would wait for one counter's last increment each time.
  std::array<ByteCounts, 4> lanes;
  std::size_t at = 0;
  for (; bytes.size() - at >= lanes.size(); at += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
      ++lanes[lane].of[std::to_integer<std::size_t>(bytes[at + lane])];
  }
  for (; at < bytes.size(); ++at) ++lanes[0].of[std::to_integer<std::size_t>(bytes[at])];

  ByteCounts counts;
  for (const ByteCounts& lane : lanes) counts += lane;
  return counts;
}

}  // namespace berth::tool
