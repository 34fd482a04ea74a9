// SPDX-License-Identifier: MIT
// Holds berth's declarations against those of NVIDIA's cuda.h and cudaTypedefs.h. Compiled twice: with the
// toolkit's headers before berth's and after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/entries.hpp"

namespace toolkit {

namespace cuda = berth::cuda;
namespace abi = berth::cuda::abi;

/// A type of cuda.h as berth declares it: the same, but for enumerations, which are integers of the same
/// size, and structures, which are berth's own.
template <class T>
struct AsBerth {
  using type = T;
};
template <class T>
  requires std::is_enum_v<T>
struct AsBerth<T> {
  static_assert(sizeof(T) == sizeof(int));
  using type = int;
};
template <>
struct AsBerth<CUuuid> {
  using type = abi::Uuid;
};
template <>
struct AsBerth<CUmemAllocationProp> {
  using type = abi::MemAllocationProp;
};
template <>
struct AsBerth<CUmemAccessDesc> {
  using type = abi::MemAccessDesc;
};
template <class T>
struct AsBerth<const T> {
  using type = const typename AsBerth<T>::type;
};
template <class T>
struct AsBerth<T*> {
  using type = typename AsBerth<T>::type*;
};
template <class R, class... Args>
struct AsBerth<R (*)(Args...)> {
  using type = typename AsBerth<R>::type (*)(typename AsBerth<Args>::type...);
};

#define BERTH_CHECK_ENTRY(member, symbol, version, need)                                                  \
  static_assert(std::is_same_v<AsBerth<PFN_##symbol##_v##version>::type, decltype(cuda::Driver::member)>, \
                #symbol);
BERTH_CUDA_ENTRIES(BERTH_CHECK_ENTRY)
#ifdef BERTH_WRONG_ENTRY  // the control: this must not compile
BERTH_CHECK_ENTRY(mem_alloc, cuMemFree, 3020, needed)
#endif
#undef BERTH_CHECK_ENTRY

// A user's handles are berth's.
static_assert(std::is_same_v<CUdevice, abi::Device> && std::is_same_v<CUdeviceptr, abi::DevicePtr> &&
              std::is_same_v<CUcontext, abi::Context> && std::is_same_v<CUstream, abi::Stream> &&
              std::is_same_v<CUevent, abi::Event> && std::is_same_v<CUmodule, abi::Module> &&
              std::is_same_v<CUfunction, abi::Function> &&
              std::is_same_v<CUmemGenericAllocationHandle, abi::MemHandle>);

// The structures.
static_assert(sizeof(CUuuid) == sizeof(abi::Uuid));
static_assert(sizeof(CUmemAllocationProp) == sizeof(abi::MemAllocationProp) &&
              alignof(CUmemAllocationProp) == alignof(abi::MemAllocationProp));
static_assert(offsetof(CUmemAllocationProp, type) == offsetof(abi::MemAllocationProp, type));
static_assert(offsetof(CUmemAllocationProp, requestedHandleTypes) ==
              offsetof(abi::MemAllocationProp, requested_handle_types));
static_assert(offsetof(CUmemAllocationProp, location) == offsetof(abi::MemAllocationProp, location));
static_assert(offsetof(CUmemAllocationProp, win32HandleMetaData) ==
              offsetof(abi::MemAllocationProp, win32_handle_meta_data));
static_assert(offsetof(CUmemAllocationProp, allocFlags) == offsetof(abi::MemAllocationProp, alloc_flags));
static_assert(offsetof(CUmemLocation, type) == offsetof(abi::MemLocation, type) &&
              offsetof(CUmemLocation, id) == offsetof(abi::MemLocation, id));
static_assert(sizeof(CUmemAccessDesc) == sizeof(abi::MemAccessDesc) &&
              offsetof(CUmemAccessDesc, location) == offsetof(abi::MemAccessDesc, location) &&
              offsetof(CUmemAccessDesc, flags) == offsetof(abi::MemAccessDesc, flags));

// The constants.
static_assert(abi::success == CUDA_SUCCESS && abi::invalid_value == CUDA_ERROR_INVALID_VALUE &&
              abi::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY &&
              abi::deinitialized == CUDA_ERROR_DEINITIALIZED &&
              abi::stub_library == CUDA_ERROR_STUB_LIBRARY && abi::no_device == CUDA_ERROR_NO_DEVICE &&
              abi::invalid_device == CUDA_ERROR_INVALID_DEVICE &&
              abi::invalid_context == CUDA_ERROR_INVALID_CONTEXT &&
              abi::ecc_uncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE &&
              abi::peer_access_unsupported == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED &&
              abi::nvlink_uncorrectable == CUDA_ERROR_NVLINK_UNCORRECTABLE &&
              abi::invalid_handle == CUDA_ERROR_INVALID_HANDLE && abi::not_found == CUDA_ERROR_NOT_FOUND &&
              abi::not_ready == CUDA_ERROR_NOT_READY && abi::illegal_address == CUDA_ERROR_ILLEGAL_ADDRESS &&
              abi::launch_timeout == CUDA_ERROR_LAUNCH_TIMEOUT &&
              abi::peer_access_already_enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED &&
              abi::context_is_destroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED &&
              abi::assert_failed == CUDA_ERROR_ASSERT && abi::too_many_peers == CUDA_ERROR_TOO_MANY_PEERS &&
              abi::host_memory_already_registered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
              abi::host_memory_not_registered == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED &&
              abi::hardware_stack_error == CUDA_ERROR_HARDWARE_STACK_ERROR &&
              abi::illegal_instruction == CUDA_ERROR_ILLEGAL_INSTRUCTION &&
              abi::misaligned_address == CUDA_ERROR_MISALIGNED_ADDRESS &&
              abi::invalid_address_space == CUDA_ERROR_INVALID_ADDRESS_SPACE &&
              abi::invalid_pc == CUDA_ERROR_INVALID_PC && abi::launch_failed == CUDA_ERROR_LAUNCH_FAILED &&
              abi::not_permitted == CUDA_ERROR_NOT_PERMITTED &&
              abi::not_supported == CUDA_ERROR_NOT_SUPPORTED && abi::unknown == CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 13000  // names that older toolkits lack
static_assert(abi::mps_client_terminated == CUDA_ERROR_MPS_CLIENT_TERMINATED &&
              abi::external_device == CUDA_ERROR_EXTERNAL_DEVICE && abi::contained == CUDA_ERROR_CONTAINED &&
              abi::tensor_memory_leak == CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
static_assert(abi::stream_non_blocking == CU_STREAM_NON_BLOCKING &&
              abi::event_disable_timing == CU_EVENT_DISABLE_TIMING &&
              abi::stream_wait_value_geq == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(abi::memhostalloc_portable == CU_MEMHOSTALLOC_PORTABLE &&
              abi::memhostalloc_devicemap == CU_MEMHOSTALLOC_DEVICEMAP &&
              abi::memhostalloc_writecombined == CU_MEMHOSTALLOC_WRITECOMBINED &&
              abi::memhostregister_portable == CU_MEMHOSTREGISTER_PORTABLE &&
              abi::memhostregister_devicemap == CU_MEMHOSTREGISTER_DEVICEMAP &&
              abi::memhostregister_read_only == CU_MEMHOSTREGISTER_READ_ONLY);
static_assert(abi::device_attribute_multiprocessor_count == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              abi::device_attribute_integrated == CU_DEVICE_ATTRIBUTE_INTEGRATED &&
              abi::device_attribute_compute_capability_major ==
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              abi::device_attribute_compute_capability_minor ==
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              abi::device_attribute_pageable_memory_access == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS &&
              abi::device_attribute_can_use_host_pointer_for_registered_mem ==
                  CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM &&
              abi::device_attribute_host_register_supported == CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED &&
              abi::device_attribute_virtual_memory_management_supported ==
                  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
              abi::device_attribute_read_only_host_register_supported ==
                  CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
static_assert(abi::pointer_attribute_context == CU_POINTER_ATTRIBUTE_CONTEXT &&
              abi::pointer_attribute_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              abi::pointer_attribute_range_start_addr == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
              abi::pointer_attribute_range_size == CU_POINTER_ATTRIBUTE_RANGE_SIZE &&
              abi::memorytype_host == CU_MEMORYTYPE_HOST && abi::memorytype_device == CU_MEMORYTYPE_DEVICE);
static_assert(abi::mem_allocation_type_pinned == CU_MEM_ALLOCATION_TYPE_PINNED &&
              abi::mem_location_type_device == CU_MEM_LOCATION_TYPE_DEVICE &&
              abi::mem_access_flags_prot_readwrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
              abi::mem_alloc_granularity_minimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);

}  // namespace toolkit
