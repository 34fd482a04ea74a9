// SPDX-License-Identifier: MIT
// What the faults layer checks and notes for single entry points: sizes, ranges, alignment, maps.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "entries.hpp"
#include "faults_ledger.hpp"
#include "layer.hpp"

namespace layers::faults {

/// Most entry points: nothing. `before` false keeps the call from the driver; `after` runs on success.
template <Entry entry>
struct Checks {
  template <class... Args>
  static bool before(const Args&...) {
    return true;
  }
  template <class R, class... Args>
  static void after(const R&, const Args&...) {}
};

/// The largest alignment, in bytes, that every origin of a sub-buffer has on some device.
inline std::size_t origin_alignment(cl_mem object) {
  cl_context context = nullptr;
  target().clGetMemObjectInfo(object, CL_MEM_CONTEXT, sizeof context, &context, nullptr);
  std::size_t nbytes = 0;
  target().clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, nullptr, &nbytes);
  std::vector<cl_device_id> devices(nbytes / sizeof(cl_device_id));
  target().clGetContextInfo(context, CL_CONTEXT_DEVICES, nbytes, devices.data(), nullptr);
  std::size_t smallest = 0;
  for (cl_device_id device : devices) {
    cl_uint bits = 0;
    target().clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, nullptr);
    if (smallest == 0 || bits / 8 < smallest) smallest = bits / 8;
  }
  return smallest != 0 ? smallest : 1;
}

template <Entry entry>
struct CreatesBuffer : Checks<Entry::clGetPlatformIDs> {
  static constexpr std::string_view name = to_string(entry);
  static void size(std::size_t nbytes) {
    if (nbytes == 0) ledger().violation(name, "a buffer of no bytes");
  }
};

template <>
struct Checks<Entry::clCreateBuffer> : CreatesBuffer<Entry::clCreateBuffer> {
  static bool before(cl_context, cl_mem_flags, std::size_t nbytes, void*, cl_int*) {
    size(nbytes);
    return true;
  }
  static void after(cl_mem made, cl_context, cl_mem_flags, std::size_t nbytes, void*, cl_int*) {
    ledger().sized(made, nbytes, made, 0);
  }
};

template <>
struct Checks<Entry::clCreateBufferWithProperties> : CreatesBuffer<Entry::clCreateBufferWithProperties> {
  static bool before(cl_context, const cl_mem_properties*, cl_mem_flags, std::size_t nbytes, void*, cl_int*) {
    size(nbytes);
    return true;
  }
  static void after(cl_mem made, cl_context, const cl_mem_properties*, cl_mem_flags, std::size_t nbytes,
                    void*, cl_int*) {
    ledger().sized(made, nbytes, made, 0);
  }
};

template <>
struct Checks<Entry::clCreateSubBuffer> {
  static bool before(cl_mem root, cl_mem_flags, cl_buffer_create_type, const void* info, cl_int*) {
    constexpr std::string_view name = to_string(Entry::clCreateSubBuffer);
    if (root == nullptr || info == nullptr) return true;
    const auto& region = *static_cast<const cl_buffer_region*>(info);
    ledger().check_range(name, root, region.origin, region.size);
    if (region.origin % origin_alignment(root) != 0) ledger().violation(name, "a misaligned origin");
    return true;
  }
  static void after(cl_mem made, cl_mem root, cl_mem_flags, cl_buffer_create_type, const void* info,
                    cl_int*) {
    const auto& region = *static_cast<const cl_buffer_region*>(info);
    ledger().sized(made, region.size, root, region.origin);
  }
};

template <>
struct Checks<Entry::clEnqueueReadBuffer> : Checks<Entry::clGetPlatformIDs> {
  static bool before(cl_command_queue, cl_mem object, cl_bool, std::size_t offset, std::size_t nbytes,
                     void* pointer, cl_uint, const cl_event*, cl_event*) {
    constexpr std::string_view name = to_string(Entry::clEnqueueReadBuffer);
    ledger().check_range(name, object, offset, nbytes);
    ledger().check_own_memory(name, object, offset, pointer);
    return true;
  }
};

template <>
struct Checks<Entry::clEnqueueWriteBuffer> : Checks<Entry::clGetPlatformIDs> {
  static bool before(cl_command_queue, cl_mem object, cl_bool, std::size_t offset, std::size_t nbytes,
                     const void* pointer, cl_uint, const cl_event*, cl_event*) {
    constexpr std::string_view name = to_string(Entry::clEnqueueWriteBuffer);
    ledger().check_range(name, object, offset, nbytes);
    ledger().check_own_memory(name, object, offset, pointer);
    return true;
  }
};

template <>
struct Checks<Entry::clEnqueueFillBuffer> : Checks<Entry::clGetPlatformIDs> {
  static bool before(cl_command_queue, cl_mem object, const void*, std::size_t pattern, std::size_t offset,
                     std::size_t nbytes, cl_uint, const cl_event*, cl_event*) {
    constexpr std::string_view name = to_string(Entry::clEnqueueFillBuffer);
    ledger().check_range(name, object, offset, nbytes);
    if (pattern == 0 || offset % pattern != 0 || nbytes % pattern != 0) {
      ledger().violation(name, "offset or size is no multiple of the pattern");
    }
    return true;
  }
};

template <>
struct Checks<Entry::clEnqueueCopyBuffer> : Checks<Entry::clGetPlatformIDs> {
  static bool before(cl_command_queue, cl_mem from, cl_mem to, std::size_t from_offset, std::size_t to_offset,
                     std::size_t nbytes, cl_uint, const cl_event*, cl_event*) {
    constexpr std::string_view name = to_string(Entry::clEnqueueCopyBuffer);
    ledger().check_range(name, from, from_offset, nbytes);
    ledger().check_range(name, to, to_offset, nbytes);
    ledger().check_copy(name, from, from_offset, to, to_offset, nbytes);
    return true;
  }
};

template <>
struct Checks<Entry::clEnqueueMapBuffer> {
  static bool before(cl_command_queue, cl_mem object, cl_bool, cl_map_flags, std::size_t offset,
                     std::size_t nbytes, cl_uint, const cl_event*, cl_event*, cl_int*) {
    ledger().check_range(to_string(Entry::clEnqueueMapBuffer), object, offset, nbytes);
    return true;
  }
  static void after(void* pointer, cl_command_queue, cl_mem object, cl_bool, cl_map_flags flags,
                    std::size_t offset, std::size_t nbytes, cl_uint, const cl_event*, cl_event*, cl_int*) {
    const bool writes = (flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0;
    ledger().mapped(to_string(Entry::clEnqueueMapBuffer), object, pointer, offset, nbytes, writes);
  }
};

template <>
struct Checks<Entry::clEnqueueMapImage> : Checks<Entry::clGetPlatformIDs> {
  static void after(void* pointer, cl_command_queue, cl_mem image, cl_bool, cl_map_flags, const std::size_t*,
                    const std::size_t*, std::size_t*, std::size_t*, cl_uint, const cl_event*, cl_event*,
                    cl_int*) {
    ledger().mapped(to_string(Entry::clEnqueueMapImage), image, pointer, 0, 0, false);
  }
};

template <>
struct Checks<Entry::clEnqueueUnmapMemObject> : Checks<Entry::clGetPlatformIDs> {
  static bool before(cl_command_queue, cl_mem object, const void* pointer, cl_uint, const cl_event*,
                     cl_event*) {
    return ledger().unmapped(to_string(Entry::clEnqueueUnmapMemObject), object, pointer);
  }
};

template <>
struct Checks<Entry::clCreateKernelsInProgram> : Checks<Entry::clGetPlatformIDs> {
  static void after(cl_int, cl_program, cl_uint room, cl_kernel* kernels, cl_uint*) {
    for (cl_uint i = 0; kernels != nullptr && i < room; ++i) ledger().created(Kind::kernel, kernels[i]);
  }
};

template <>
struct Checks<Entry::clSetKernelArg> : Checks<Entry::clGetPlatformIDs> {
  static bool before(cl_kernel, cl_uint, std::size_t nbytes, const void* value) {
    if (value == nullptr || nbytes != sizeof(cl_mem)) return true;
    if (!ledger().dead_buffer(*static_cast<void* const*>(value))) return true;
    ledger().violation(to_string(Entry::clSetKernelArg), "use of a released buffer");
    return false;
  }
};

}  // namespace layers::faults
