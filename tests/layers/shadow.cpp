// SPDX-License-Identifier: MIT
// The layer "shadow": drivers that keep a buffer apart from the host's memory, which is where most of them
// differ from PoCL's CPU device. The driver's own object never sees the host memory; a map is a read into it
// and an unmap a write from it, each a command of the same queue.
//
// Not imitated: the command type of a map's event (it is that of the read or the marker), host-access flags,
// images.
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "layer.hpp"
#include "shadow_objects.hpp"

namespace layers {
namespace shadow {
namespace {

Objects& objects() {
  static auto* const leaked = new Objects;
  return *leaked;
}

std::atomic<ShadowMode> current{ShadowMode::clvk};
std::atomic<std::uint64_t> to_host{0};
std::atomic<std::uint64_t> to_device{0};

void CL_CALLBACK on_deleted(cl_mem object, void*) { objects().remove(object); }

// The driver calls back in reverse order: this, told first, comes after the caller's own.
cl_mem watched(cl_mem object, cl_int* errcode) {
  const cl_int told = target().clSetMemObjectDestructorCallback(object, &on_deleted, nullptr);
  if (told == CL_SUCCESS) return object;
  objects().remove(object);
  target().clReleaseMemObject(object);
  return fail<cl_mem>(told, errcode);
}

// Flags with which the driver copies what it would have used in place. Combinations that it must refuse stay.
cl_mem_flags apart(cl_mem_flags flags) {
  constexpr cl_mem_flags exclusive = CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
  if ((flags & CL_MEM_USE_HOST_PTR) == 0 || (flags & exclusive) != 0) return flags;
  return (flags & ~static_cast<cl_mem_flags>(CL_MEM_USE_HOST_PTR)) | CL_MEM_COPY_HOST_PTR;
}

cl_mem made(cl_mem object, ShadowMode mode, cl_mem_flags flags, void* host, std::size_t nbytes,
            cl_int* errcode) {
  if (object == nullptr) return nullptr;
  objects().add(object, mode, (flags & CL_MEM_USE_HOST_PTR) != 0 ? host : nullptr, nbytes);
  return watched(object, errcode);
}

// What the mode makes of one buffer.
ShadowMode mode_for(cl_mem_flags flags, const void* host, std::size_t nbytes) {
  const ShadowMode mode = current;
  if (mode != ShadowMode::lines) return mode;
  constexpr std::size_t line = 64;
  const bool whole = reinterpret_cast<std::uintptr_t>(host) % line == 0 && nbytes % line == 0;
  return (flags & CL_MEM_USE_HOST_PTR) != 0 && !whole ? ShadowMode::intel : ShadowMode::shared;
}

cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, std::size_t nbytes, void* host,
                                 cl_int* errcode) {
  const ShadowMode mode = mode_for(flags, host, nbytes);
  if (mode == ShadowMode::shared) return target().clCreateBuffer(context, flags, nbytes, host, errcode);
  return made(target().clCreateBuffer(context, apart(flags), nbytes, host, errcode), mode, flags, host,
              nbytes, errcode);
}

cl_mem CL_API_CALL create_buffer_with_properties(cl_context context, const cl_mem_properties* properties,
                                                 cl_mem_flags flags, std::size_t nbytes, void* host,
                                                 cl_int* errcode) {
  const ShadowMode mode = mode_for(flags, host, nbytes);
  const auto below = target().clCreateBufferWithProperties;
  if (mode == ShadowMode::shared) return below(context, properties, flags, nbytes, host, errcode);
  return made(below(context, properties, apart(flags), nbytes, host, errcode), mode, flags, host, nbytes,
              errcode);
}

cl_mem CL_API_CALL create_sub_buffer(cl_mem root, cl_mem_flags flags, cl_buffer_create_type type,
                                     const void* info, cl_int* errcode) {
  const cl_mem object = target().clCreateSubBuffer(root, flags, type, info, errcode);
  if (object == nullptr) return nullptr;
  const auto& region = *static_cast<const cl_buffer_region*>(info);
  if (!objects().add_sub_buffer(object, root, region.origin, region.size)) return object;
  return watched(object, errcode);
}

cl_int CL_API_CALL mem_info(cl_mem object, cl_mem_info param, std::size_t room, void* out,
                            std::size_t* needed) {
  const cl_int below = target().clGetMemObjectInfo(object, param, room, out, needed);
  const auto facts = objects().facts(object);
  if (!facts || below != CL_SUCCESS) return below;
  switch (param) {
    case CL_MEM_FLAGS: {
      if (!facts->user_memory || out == nullptr) return below;
      auto& flags = *static_cast<cl_mem_flags*>(out);
      flags = (flags & ~static_cast<cl_mem_flags>(CL_MEM_COPY_HOST_PTR)) | CL_MEM_USE_HOST_PTR;
      return below;
    }
    case CL_MEM_HOST_PTR:
      if (!facts->user_memory) return below;
      return answer(&facts->host_pointer, sizeof facts->host_pointer, room, out, needed);
    case CL_MEM_MAP_COUNT:
      return answer(&facts->maps, sizeof facts->maps, room, out, needed);
    default:
      return below;
  }
}

struct Waits {
  cl_uint count;
  const cl_event* events;
};

cl_int check_context(cl_command_queue queue, cl_mem object) {
  cl_context of_queue = nullptr;
  cl_context of_object = nullptr;
  if (const cl_int status =
          target().clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof of_queue, &of_queue, nullptr);
      status != CL_SUCCESS) {
    return status;
  }
  if (const cl_int status =
          target().clGetMemObjectInfo(object, CL_MEM_CONTEXT, sizeof of_object, &of_object, nullptr);
      status != CL_SUCCESS) {
    return status;
  }
  return of_queue == of_object ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

// A command that copies nothing.
cl_int order(cl_command_queue queue, cl_bool blocking, Waits waits, cl_event* event) {
  cl_event own = nullptr;
  const cl_int marked = target().clEnqueueMarkerWithWaitList(queue, waits.count, waits.events, &own);
  if (marked != CL_SUCCESS) return marked;
  const cl_int waited = blocking != CL_FALSE ? target().clWaitForEvents(1, &own) : CL_SUCCESS;
  if (waited == CL_SUCCESS && event != nullptr) {
    *event = own;
  } else {
    target().clReleaseEvent(own);
  }
  return waited;
}

void* CL_API_CALL map_buffer(cl_command_queue queue, cl_mem object, cl_bool blocking, cl_map_flags flags,
                             std::size_t offset, std::size_t nbytes, cl_uint count, const cl_event* events,
                             cl_event* event, cl_int* errcode) {
  if (!objects().contains(object)) {
    return target().clEnqueueMapBuffer(queue, object, blocking, flags, offset, nbytes, count, events, event,
                                       errcode);
  }
  if (const cl_int status = check_context(queue, object); status != CL_SUCCESS)
    return fail<void*>(status, errcode);
  Map map{};
  if (const cl_int status = objects().begin_map(object, flags, offset, nbytes, map); status != CL_SUCCESS) {
    return fail<void*>(status, errcode);
  }
  target().clRetainMemObject(object);  // a mapped object stays
  const cl_int status = map.copies_in ? target().clEnqueueReadBuffer(queue, object, blocking, offset, nbytes,
                                                                     map.pointer, count, events, event)
                                      : order(queue, blocking, {count, events}, event);
  if (status != CL_SUCCESS) {
    static_cast<void>(objects().end_map(object, map.pointer, map));
    target().clReleaseMemObject(object);
    return fail<void*>(status, errcode);
  }
  if (map.copies_in) to_host += nbytes;
  if (errcode != nullptr) *errcode = CL_SUCCESS;
  return map.pointer;
}

cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem object, void* pointer, cl_uint count,
                         const cl_event* events, cl_event* event) {
  if (!objects().contains(object)) {
    return target().clEnqueueUnmapMemObject(queue, object, pointer, count, events, event);
  }
  if (const cl_int status = check_context(queue, object); status != CL_SUCCESS) return status;
  Map map{};
  if (const cl_int status = objects().end_map(object, pointer, map); status != CL_SUCCESS) return status;
  const cl_int status = map.copies_out
                            ? target().clEnqueueWriteBuffer(queue, object, CL_FALSE, map.offset, map.nbytes,
                                                            map.pointer, count, events, event)
                            : order(queue, CL_FALSE, {count, events}, event);
  if (status != CL_SUCCESS) {
    objects().restore(object, map);
    return status;
  }
  if (map.copies_out) to_device += map.nbytes;
  target().clReleaseMemObject(object);
  return CL_SUCCESS;
}

constexpr ShadowControl control{
    .set_mode = [](ShadowMode mode) { current = mode; },
    .mode = [] { return current.load(); },
    .bytes_to_host = [] { return to_host.load(); },
    .bytes_to_device = [] { return to_device.load(); },
};

ShadowMode mode_of(std::string_view name) {
  if (name == "shared") return ShadowMode::shared;
  if (name == "intel") return ShadowMode::intel;
  if (name == "rusticl") return ShadowMode::rusticl;
  if (name == "lines") return ShadowMode::lines;
  return ShadowMode::clvk;
}

}  // namespace
}  // namespace shadow

const char* const name = "berth shadow";

void install(cl_icd_dispatch& table) {
  if (const char* const mode = std::getenv("BERTH_SHADOW_MODE")) shadow::current = shadow::mode_of(mode);
  table.clCreateBuffer = &shadow::create_buffer;
  table.clCreateBufferWithProperties = &shadow::create_buffer_with_properties;
  table.clCreateSubBuffer = &shadow::create_sub_buffer;
  table.clGetMemObjectInfo = &shadow::mem_info;
  table.clEnqueueMapBuffer = &shadow::map_buffer;
  table.clEnqueueUnmapMemObject = &shadow::unmap;
}

}  // namespace layers

extern "C" __attribute__((visibility("default"))) const layers::ShadowControl* berth_shadow_layer() {
  return &layers::shadow::control;
}
