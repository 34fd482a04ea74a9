// SPDX-License-Identifier: MIT
#pragma once

#include "context.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// `invalid_argument` unless the context, which is current, can use the address. Memory of no context (mapped
/// by the virtual memory calls, or of a pool) is for its owner to make accessible.
[[nodiscard]] Result<void> check_address(const Context& context, abi::DevicePtr address, const char* call);

}  // namespace berth::inline BERTH_ABI::cuda::detail
