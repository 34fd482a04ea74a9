// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/result.hpp>
#include <berth/cuda/abi.hpp>

#include <cstddef>

namespace berth::inline BERTH_ABI::cuda {

/// The entry points of NVIDIA's driver that berth calls: a plain table, so that a test, or a tool that
/// watches calls, can hand in its own. Members are the driver's names without `cu`, in snake case (cuda.h
/// makes macros of the names themselves). Signatures are those of CUDA 11.4, and older where that is enough.
///
/// Those of the last group are null when the driver lacks them; all others are there.
struct Driver {
  using Status = abi::Status;

  // The driver and its devices.
  Status (*init)(unsigned flags) = nullptr;
  Status (*driver_get_version)(int* version) = nullptr;
  Status (*get_error_name)(Status status, const char** name) = nullptr;
  Status (*device_get_count)(int* count) = nullptr;
  Status (*device_get)(abi::Device* device, int ordinal) = nullptr;
  Status (*device_get_name)(char* name, int nbytes, abi::Device device) = nullptr;
  Status (*device_get_uuid)(abi::Uuid* uuid, abi::Device device) = nullptr;
  Status (*device_total_mem)(std::size_t* nbytes, abi::Device device) = nullptr;
  Status (*device_get_attribute)(int* value, int attribute, abi::Device device) = nullptr;
  Status (*device_can_access_peer)(int* can, abi::Device device, abi::Device peer) = nullptr;

  // Contexts.
  Status (*device_primary_ctx_retain)(abi::Context* context, abi::Device device) = nullptr;
  Status (*device_primary_ctx_release)(abi::Device device) = nullptr;
  Status (*ctx_create)(abi::Context* context, unsigned flags, abi::Device device) = nullptr;
  Status (*ctx_destroy)(abi::Context context) = nullptr;
  Status (*ctx_push_current)(abi::Context context) = nullptr;
  Status (*ctx_pop_current)(abi::Context* context) = nullptr;
  Status (*ctx_get_current)(abi::Context* context) = nullptr;
  Status (*ctx_set_current)(abi::Context context) = nullptr;
  Status (*ctx_get_device)(abi::Device* device) = nullptr;
  Status (*ctx_synchronize)() = nullptr;
  Status (*ctx_enable_peer_access)(abi::Context peer, unsigned flags) = nullptr;

  // Streams and events.
  Status (*stream_create)(abi::Stream* stream, unsigned flags) = nullptr;
  Status (*stream_destroy)(abi::Stream stream) = nullptr;
  Status (*stream_get_ctx)(abi::Stream stream, abi::Context* context) = nullptr;
  Status (*stream_query)(abi::Stream stream) = nullptr;
  Status (*stream_synchronize)(abi::Stream stream) = nullptr;
  Status (*stream_wait_event)(abi::Stream stream, abi::Event event, unsigned flags) = nullptr;
  Status (*event_create)(abi::Event* event, unsigned flags) = nullptr;
  Status (*event_destroy)(abi::Event event) = nullptr;
  Status (*event_record)(abi::Event event, abi::Stream stream) = nullptr;
  Status (*event_query)(abi::Event event) = nullptr;
  Status (*event_synchronize)(abi::Event event) = nullptr;

  // Memory.
  Status (*mem_get_info)(std::size_t* free, std::size_t* total) = nullptr;
  Status (*mem_alloc)(abi::DevicePtr* address, std::size_t nbytes) = nullptr;
  Status (*mem_free)(abi::DevicePtr address) = nullptr;
  Status (*mem_get_address_range)(abi::DevicePtr* base, std::size_t* nbytes,
                                  abi::DevicePtr address) = nullptr;
  Status (*pointer_get_attribute)(void* value, int attribute, abi::DevicePtr address) = nullptr;
  Status (*mem_host_alloc)(void** memory, std::size_t nbytes, unsigned flags) = nullptr;
  Status (*mem_free_host)(void* memory) = nullptr;
  Status (*mem_host_register)(void* memory, std::size_t nbytes, unsigned flags) = nullptr;
  Status (*mem_host_unregister)(void* memory) = nullptr;
  Status (*mem_host_get_device_pointer)(abi::DevicePtr* address, void* memory, unsigned flags) = nullptr;

  // Copies.
  Status (*memcpy_htod_async)(abi::DevicePtr dest, const void* src, std::size_t nbytes,
                              abi::Stream stream) = nullptr;
  Status (*memcpy_dtoh_async)(void* dest, abi::DevicePtr src, std::size_t nbytes,
                              abi::Stream stream) = nullptr;
  Status (*memcpy_dtod_async)(abi::DevicePtr dest, abi::DevicePtr src, std::size_t nbytes,
                              abi::Stream stream) = nullptr;
  Status (*memcpy_peer_async)(abi::DevicePtr dest, abi::Context dest_context, abi::DevicePtr src,
                              abi::Context src_context, std::size_t nbytes, abi::Stream stream) = nullptr;
  Status (*memset_d8_async)(abi::DevicePtr dest, unsigned char value, std::size_t nbytes,
                            abi::Stream stream) = nullptr;

  // Kernels.
  Status (*module_load_data)(abi::Module* module, const void* image) = nullptr;
  Status (*module_unload)(abi::Module module) = nullptr;
  Status (*module_get_function)(abi::Function* function, abi::Module module, const char* name) = nullptr;
  Status (*launch_kernel)(abi::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_nbytes,
                          abi::Stream stream, void** params, void** extra) = nullptr;

  // Virtual memory, and waits on memory: null when the driver lacks them.
  Status (*stream_wait_value32)(abi::Stream stream, abi::DevicePtr address, std::uint32_t value,
                                unsigned flags) = nullptr;
  Status (*mem_address_reserve)(abi::DevicePtr* address, std::size_t nbytes, std::size_t alignment,
                                abi::DevicePtr wanted, unsigned long long flags) = nullptr;
  Status (*mem_address_free)(abi::DevicePtr address, std::size_t nbytes) = nullptr;
  Status (*mem_create)(abi::MemHandle* handle, std::size_t nbytes, const abi::MemAllocationProp* properties,
                       unsigned long long flags) = nullptr;
  Status (*mem_release)(abi::MemHandle handle) = nullptr;
  Status (*mem_map)(abi::DevicePtr address, std::size_t nbytes, std::size_t byte_offset,
                    abi::MemHandle handle, unsigned long long flags) = nullptr;
  Status (*mem_unmap)(abi::DevicePtr address, std::size_t nbytes) = nullptr;
  Status (*mem_set_access)(abi::DevicePtr address, std::size_t nbytes, const abi::MemAccessDesc* access,
                           std::size_t count) = nullptr;
  Status (*mem_get_allocation_granularity)(std::size_t* granularity, const abi::MemAllocationProp* properties,
                                           int option) = nullptr;
};

/// Loads a library and finds its entry points through `cuGetProcAddress`; calls none of them. Nothing links
/// to it. `library_missing` when there is no such library, `symbol_missing` with the entry point's name when
/// it lacks one (a driver before CUDA 11.4). The library is never unloaded.
[[nodiscard]] BERTH_EXPORT Result<Driver> load_driver(const char* library = "libcuda.so.1");

/// The process's own driver, loaded and initialised (`cuInit`) on the first call that succeeds; the same
/// table from then on. Besides what `load_driver` answers: `no_device` when the driver sees none.
/// Thread-safe.
[[nodiscard]] BERTH_EXPORT Result<const Driver*> driver();

}  // namespace berth::inline BERTH_ABI::cuda
