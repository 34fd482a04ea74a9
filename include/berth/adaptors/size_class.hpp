// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <bit>
#include <cstddef>
#include <limits>

namespace berth::inline BERTH_ABI {

/// `nbytes` rounded up to one of 16 sizes an octave, at most 6.25 % more. Powers of two are classes of their
/// own, so they waste nothing and stay aligned. Sizes whose class would not fit are their own class.
[[nodiscard]] constexpr std::size_t size_class(std::size_t nbytes) noexcept {
  constexpr std::size_t classes_per_octave = 16;
  if (nbytes <= classes_per_octave || nbytes > std::numeric_limits<std::size_t>::max() / 2) return nbytes;
  const std::size_t octave = std::bit_floor(nbytes - 1);  // octave < nbytes <= 2 * octave
  const std::size_t step = octave < classes_per_octave ? 1 : octave / classes_per_octave;
  return (nbytes + step - 1) / step * step;
}

}  // namespace berth::inline BERTH_ABI
