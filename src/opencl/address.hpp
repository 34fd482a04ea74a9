// SPDX-License-Identifier: MIT
#pragma once

#include <berth/opencl/discovery.hpp>

#include <cstddef>
#include <cstdint>

#include "block.hpp"

/// Device addresses of buffer objects: by cl_ext_buffer_device_address, which wants them asked for when the
/// object is made, and over shared virtual memory.
namespace berth::inline BERTH_ABI::opencl {

[[nodiscard]] bool offers_device_addresses(const DeviceDescription& device) noexcept;

/// A buffer object, with an address where the device offers one.
[[nodiscard]] Result<Handle<cl_mem>> make_buffer(const detail::Instance& instance, cl_mem_flags flags,
                                                 std::size_t nbytes, void* host_ptr);

/// The address of a root object on the instance's device; `unsupported` where it has none.
[[nodiscard]] Result<std::uintptr_t> device_address(const detail::Instance& instance, cl_mem root);

}  // namespace berth::inline BERTH_ABI::opencl
