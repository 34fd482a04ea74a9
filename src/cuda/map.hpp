// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mapping.hpp>

#include "block.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// A map of memory that the host does not see: a copy on the heap, which the end of a map that writes copies
/// back on `stream`. `mapped` when it overlaps a live one, since one would undo the other. The context must
/// be current.
[[nodiscard]] Result<Mapping> map_copy(Block& block, abi::Stream stream, abi::DevicePtr address,
                                       std::size_t nbytes, Access access);

/// A map of memory that the host does see: where it lies, once `stream` is empty. `mapped` as above.
[[nodiscard]] Result<Mapping> map_in_place(Block& block, abi::Stream stream, abi::DevicePtr address,
                                           std::size_t nbytes, Access access);

}  // namespace berth::inline BERTH_ABI::cuda::detail
