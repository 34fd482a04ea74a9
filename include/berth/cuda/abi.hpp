// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <cstddef>
#include <cstdint>

// The tags of the driver's own handles: a user's CUcontext, CUstream, CUevent, CUmodule and CUfunction are
// pointers to these, and so convert to and from berth's without a cast.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

/// What berth uses of the binary interface of NVIDIA's driver, so that it needs no toolkit. Names and values
/// are those of cuda.h without its prefix; where cuda.h is at hand a test holds the two against each other.
namespace berth::inline BERTH_ABI::cuda::abi {

using Status = int;                    ///< CUresult
using Device = int;                    ///< CUdevice
using DevicePtr = unsigned long long;  ///< CUdeviceptr
using MemHandle = unsigned long long;  ///< CUmemGenericAllocationHandle
using Context = ::CUctx_st*;
using Stream = ::CUstream_st*;
using Event = ::CUevent_st*;
using Module = ::CUmod_st*;
using Function = ::CUfunc_st*;

/// CUuuid
struct Uuid {
  char bytes[16];
};
/// CUmemLocation
struct MemLocation {
  int type;
  int id;
};
/// CUmemAllocationProp
struct MemAllocationProp {
  int type;
  int requested_handle_types;
  MemLocation location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } alloc_flags;
};
/// CUmemAccessDesc
struct MemAccessDesc {
  MemLocation location;
  int flags;
};

inline constexpr Status success = 0;
inline constexpr Status invalid_value = 1;
inline constexpr Status out_of_memory = 2;
inline constexpr Status deinitialized = 4;
inline constexpr Status stub_library = 34;
inline constexpr Status no_device = 100;
inline constexpr Status invalid_device = 101;
inline constexpr Status invalid_context = 201;
inline constexpr Status ecc_uncorrectable = 214;
inline constexpr Status peer_access_unsupported = 217;
inline constexpr Status nvlink_uncorrectable = 220;
inline constexpr Status contained = 226;
inline constexpr Status invalid_handle = 400;
inline constexpr Status not_found = 500;
inline constexpr Status not_ready = 600;
inline constexpr Status illegal_address = 700;
inline constexpr Status launch_timeout = 702;
inline constexpr Status peer_access_already_enabled = 704;
inline constexpr Status context_is_destroyed = 709;
inline constexpr Status assert_failed = 710;  ///< CUDA_ERROR_ASSERT
inline constexpr Status too_many_peers = 711;
inline constexpr Status host_memory_already_registered = 712;
inline constexpr Status host_memory_not_registered = 713;
inline constexpr Status hardware_stack_error = 714;
inline constexpr Status illegal_instruction = 715;
inline constexpr Status misaligned_address = 716;
inline constexpr Status invalid_address_space = 717;
inline constexpr Status invalid_pc = 718;
inline constexpr Status launch_failed = 719;
inline constexpr Status tensor_memory_leak = 721;
inline constexpr Status not_permitted = 800;
inline constexpr Status not_supported = 801;
inline constexpr Status mps_client_terminated = 810;
inline constexpr Status external_device = 911;
inline constexpr Status unknown = 999;

inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned stream_wait_value_geq = 0;

inline constexpr unsigned memhostalloc_portable = 1;
inline constexpr unsigned memhostalloc_devicemap = 2;
inline constexpr unsigned memhostalloc_writecombined = 4;
inline constexpr unsigned memhostregister_portable = 1;
inline constexpr unsigned memhostregister_devicemap = 2;
inline constexpr unsigned memhostregister_read_only = 8;

inline constexpr int device_attribute_multiprocessor_count = 16;
inline constexpr int device_attribute_integrated = 18;
inline constexpr int device_attribute_compute_capability_major = 75;
inline constexpr int device_attribute_compute_capability_minor = 76;
inline constexpr int device_attribute_pageable_memory_access = 88;
inline constexpr int device_attribute_can_use_host_pointer_for_registered_mem = 91;
inline constexpr int device_attribute_host_register_supported = 99;
inline constexpr int device_attribute_virtual_memory_management_supported = 102;
inline constexpr int device_attribute_read_only_host_register_supported = 113;

inline constexpr int pointer_attribute_context = 1;
inline constexpr int pointer_attribute_memory_type = 2;
inline constexpr int pointer_attribute_range_start_addr = 11;
inline constexpr int pointer_attribute_range_size = 12;

inline constexpr unsigned memorytype_host = 1;
inline constexpr unsigned memorytype_device = 2;

inline constexpr int mem_allocation_type_pinned = 1;
inline constexpr int mem_location_type_device = 1;
inline constexpr int mem_access_flags_prot_readwrite = 3;
inline constexpr int mem_alloc_granularity_minimum = 0;

}  // namespace berth::inline BERTH_ABI::cuda::abi
