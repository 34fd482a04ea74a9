// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/buffer.hpp>

#include <cstdint>
#include <string_view>

namespace berth::inline BERTH_ABI {

/// How `copy` moved the bytes.
enum class CopyPath : std::uint8_t {
  none,         ///< there were none
  transfer,     ///< device to device
  disk,         ///< from the source's file straight to the destination
  shared_host,  ///< one side is host memory, or shares it: one copy
  bounce,       ///< through a bounded host buffer: two copies
};

[[nodiscard]] BERTH_EXPORT std::string_view to_string(CopyPath path) noexcept;

/// Copies all of `src` to all of `dst`, whatever their backends, and says how: the first of transfer, disk,
/// shared host memory and bounce that both sides have. Equal sizes, else `invalid_size`; overlapping parts of
/// one allocation are `overlap`. On return `src` may be freed or changed by later work on its own queue, and
/// later work on `dst`'s queue sees the data.
[[nodiscard]] BERTH_EXPORT Result<CopyPath> copy(Buffer& dst, const Buffer& src);

}  // namespace berth::inline BERTH_ABI
