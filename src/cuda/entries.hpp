// SPDX-License-Identifier: MIT
#pragma once

// Every entry point of the table: member of Driver, the driver's symbol, the version of the interface whose
// signature it has (1000 * major + 10 * minor), and whether berth does without. `cuda.h` turns some symbols
// into macros: a user of the list must not let them expand before # or ##.
//
// The newest that berth needs came with CUDA 11.4.
#define BERTH_CUDA_ENTRIES(X)                                             \
  X(init, cuInit, 2000, needed)                                           \
  X(driver_get_version, cuDriverGetVersion, 2020, needed)                 \
  X(get_error_name, cuGetErrorName, 6000, needed)                         \
  X(device_get_count, cuDeviceGetCount, 2000, needed)                     \
  X(device_get, cuDeviceGet, 2000, needed)                                \
  X(device_get_name, cuDeviceGetName, 2000, needed)                       \
  X(device_get_uuid, cuDeviceGetUuid, 11040, needed)                      \
  X(device_total_mem, cuDeviceTotalMem, 3020, needed)                     \
  X(device_get_attribute, cuDeviceGetAttribute, 2000, needed)             \
  X(device_can_access_peer, cuDeviceCanAccessPeer, 4000, needed)          \
  X(device_primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000, needed)    \
  X(device_primary_ctx_release, cuDevicePrimaryCtxRelease, 11000, needed) \
  X(ctx_create, cuCtxCreate, 3020, needed)                                \
  X(ctx_destroy, cuCtxDestroy, 4000, needed)                              \
  X(ctx_push_current, cuCtxPushCurrent, 4000, needed)                     \
  X(ctx_pop_current, cuCtxPopCurrent, 4000, needed)                       \
  X(ctx_get_current, cuCtxGetCurrent, 4000, needed)                       \
  X(ctx_set_current, cuCtxSetCurrent, 4000, needed)                       \
  X(ctx_get_device, cuCtxGetDevice, 2000, needed)                         \
  X(ctx_synchronize, cuCtxSynchronize, 2000, needed)                      \
  X(ctx_enable_peer_access, cuCtxEnablePeerAccess, 4000, needed)          \
  X(stream_create, cuStreamCreate, 2000, needed)                          \
  X(stream_destroy, cuStreamDestroy, 4000, needed)                        \
  X(stream_get_ctx, cuStreamGetCtx, 9020, needed)                         \
  X(stream_query, cuStreamQuery, 2000, needed)                            \
  X(stream_synchronize, cuStreamSynchronize, 2000, needed)                \
  X(stream_wait_event, cuStreamWaitEvent, 3020, needed)                   \
  X(event_create, cuEventCreate, 2000, needed)                            \
  X(event_destroy, cuEventDestroy, 4000, needed)                          \
  X(event_record, cuEventRecord, 2000, needed)                            \
  X(event_query, cuEventQuery, 2000, needed)                              \
  X(event_synchronize, cuEventSynchronize, 2000, needed)                  \
  X(mem_get_info, cuMemGetInfo, 3020, needed)                             \
  X(mem_alloc, cuMemAlloc, 3020, needed)                                  \
  X(mem_free, cuMemFree, 3020, needed)                                    \
  X(mem_get_address_range, cuMemGetAddressRange, 3020, needed)            \
  X(pointer_get_attribute, cuPointerGetAttribute, 4000, needed)           \
  X(mem_host_alloc, cuMemHostAlloc, 2020, needed)                         \
  X(mem_free_host, cuMemFreeHost, 2000, needed)                           \
  X(mem_host_register, cuMemHostRegister, 6050, needed)                   \
  X(mem_host_unregister, cuMemHostUnregister, 4000, needed)               \
  X(mem_host_get_device_pointer, cuMemHostGetDevicePointer, 3020, needed) \
  X(memcpy_htod_async, cuMemcpyHtoDAsync, 3020, needed)                   \
  X(memcpy_dtoh_async, cuMemcpyDtoHAsync, 3020, needed)                   \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync, 3020, needed)                   \
  X(memcpy_peer_async, cuMemcpyPeerAsync, 4000, needed)                   \
  X(memset_d8_async, cuMemsetD8Async, 3020, needed)                       \
  X(module_load_data, cuModuleLoadData, 2000, needed)                     \
  X(module_unload, cuModuleUnload, 2000, needed)                          \
  X(module_get_function, cuModuleGetFunction, 2000, needed)               \
  X(launch_kernel, cuLaunchKernel, 4000, needed)                          \
  X(stream_wait_value32, cuStreamWaitValue32, 11070, optional)            \
  X(mem_address_reserve, cuMemAddressReserve, 10020, optional)            \
  X(mem_address_free, cuMemAddressFree, 10020, optional)                  \
  X(mem_create, cuMemCreate, 10020, optional)                             \
  X(mem_release, cuMemRelease, 10020, optional)                           \
  X(mem_map, cuMemMap, 10020, optional)                                   \
  X(mem_unmap, cuMemUnmap, 10020, optional)                               \
  X(mem_set_access, cuMemSetAccess, 10020, optional)                      \
  X(mem_get_allocation_granularity, cuMemGetAllocationGranularity, 10020, optional)
