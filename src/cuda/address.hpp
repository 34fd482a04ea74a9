// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "context.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// What the driver knows of an address.
struct Allocation {
  abi::DevicePtr base;
  bool of_context;
};

/// The allocation that has the bytes. `invalid_argument` unless the context, which is current,
/// can use the address, `out_of_range` when the allocation ends before the bytes do. Memory of no context
/// (mapped by the virtual memory calls, or of a pool) is for its owner to make accessible.
[[nodiscard]] Result<Allocation> check_memory(const Context& context, abi::DevicePtr address,
                                              std::size_t nbytes, const char* call);

}  // namespace berth::inline BERTH_ABI::cuda::detail
