// SPDX-License-Identifier: MIT
// The layer "address": offers cl_ext_buffer_device_address over a driver that lacks it. The addresses are
// made up: no kernel can use them, so clSetKernelArgDevicePointerEXT is not offered. They are aligned, never
// overlap, differ from device to device and are not used twice.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "layer.hpp"

namespace layers {
namespace address {
namespace {

// Debian's headers lack the extension.
constexpr cl_mem_properties device_private_address = 0x5000;
constexpr cl_mem_info device_address = 0x5001;
constexpr const char* extension = "cl_ext_buffer_device_address";
using Address = cl_ulong;

constexpr Address first_address = Address{1} << 32U;
constexpr Address alignment = 4096;
constexpr Address device_distance = Address{1} << 44U;

struct Object {
  Address address;  // on the first device
  std::vector<cl_mem_properties> properties;
};

std::mutex mutex;
Address next = first_address;
std::unordered_map<cl_mem, Object>& objects() {
  static auto* const leaked = new std::unordered_map<cl_mem, Object>;
  return *leaked;
}

std::optional<Object> find(cl_mem object) {
  const std::lock_guard lock(mutex);
  const auto found = objects().find(object);
  return found != objects().end() ? std::optional(found->second) : std::nullopt;
}

void CL_CALLBACK on_deleted(cl_mem object, void*) {
  const std::lock_guard lock(mutex);
  objects().erase(object);
}

cl_mem keep(cl_mem made, Object object, cl_int* errcode) {
  {
    const std::lock_guard lock(mutex);
    objects()[made] = std::move(object);
  }
  const cl_int told = target().clSetMemObjectDestructorCallback(made, &on_deleted, nullptr);
  if (told == CL_SUCCESS) return made;
  on_deleted(made, nullptr);
  target().clReleaseMemObject(made);
  return fail<cl_mem>(told, errcode);
}

cl_mem CL_API_CALL create_buffer(cl_context context, const cl_mem_properties* properties, cl_mem_flags flags,
                                 std::size_t nbytes, void* host, cl_int* errcode) {
  std::vector<cl_mem_properties> asked;
  std::vector<cl_mem_properties> others;
  bool with_address = false;
  bool known = false;
  for (const cl_mem_properties* pair = properties; pair != nullptr && pair[0] != 0; pair += 2) {
    asked.insert(asked.end(), {pair[0], pair[1]});
    if (pair[0] != device_private_address) {
      others.insert(others.end(), {pair[0], pair[1]});
      continue;
    }
    if (known || (pair[1] != CL_TRUE && pair[1] != CL_FALSE))
      return fail<cl_mem>(CL_INVALID_PROPERTY, errcode);
    known = true;
    with_address = pair[1] == CL_TRUE;
  }
  asked.push_back(0);
  others.push_back(0);
  const cl_mem_properties* const passed = others.size() > 1 ? others.data() : nullptr;
  const cl_mem made = target().clCreateBufferWithProperties(context, passed, flags, nbytes, host, errcode);
  if (made == nullptr || !known) return made;

  Object object{0, std::move(asked)};
  if (with_address) {
    const std::lock_guard lock(mutex);
    object.address = next;
    next += (nbytes + 2 * alignment - 1) / alignment * alignment;  // and a gap
  }
  return keep(made, std::move(object), errcode);
}

cl_mem CL_API_CALL create_sub_buffer(cl_mem root, cl_mem_flags flags, cl_buffer_create_type type,
                                     const void* info, cl_int* errcode) {
  const cl_mem made = target().clCreateSubBuffer(root, flags, type, info, errcode);
  const auto parent = find(root);
  if (made == nullptr || !parent || parent->address == 0) return made;
  return keep(made, {parent->address + static_cast<const cl_buffer_region*>(info)->origin, {}}, errcode);
}

cl_int CL_API_CALL mem_info(cl_mem object, cl_mem_info param, std::size_t room, void* out,
                            std::size_t* needed) {
  const auto known = find(object);
  if (param == CL_MEM_PROPERTIES && known && !known->properties.empty()) {
    return answer(known->properties.data(), known->properties.size() * sizeof(cl_mem_properties), room, out,
                  needed);
  }
  if (param != device_address) return target().clGetMemObjectInfo(object, param, room, out, needed);
  cl_context context = nullptr;
  if (const cl_int status = target().clGetMemObjectInfo(object, CL_MEM_CONTEXT, sizeof context,
                                                        static_cast<void*>(&context), nullptr);
      status != CL_SUCCESS) {
    return status;
  }
  if (!known || known->address == 0) return CL_INVALID_OPERATION;
  cl_uint devices = 0;
  if (const cl_int status =
          target().clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof devices, &devices, nullptr);
      status != CL_SUCCESS) {
    return status;
  }
  std::vector<Address> addresses;
  for (cl_uint i = 0; i < devices; ++i) addresses.push_back(known->address + i * device_distance);
  return answer(addresses.data(), addresses.size() * sizeof(Address), room, out, needed);
}

cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info param, std::size_t room, void* out,
                               std::size_t* needed) {
  if (param != CL_DEVICE_EXTENSIONS && param != CL_DEVICE_EXTENSIONS_WITH_VERSION) {
    return target().clGetDeviceInfo(device, param, room, out, needed);
  }
  std::size_t nbytes = 0;
  if (const cl_int status = target().clGetDeviceInfo(device, param, 0, nullptr, &nbytes);
      status != CL_SUCCESS) {
    return status;
  }
  std::string bytes(nbytes, '\0');
  if (const cl_int status = target().clGetDeviceInfo(device, param, nbytes, bytes.data(), nullptr);
      status != CL_SUCCESS) {
    return status;
  }
  if (param == CL_DEVICE_EXTENSIONS_WITH_VERSION) {
    cl_name_version added{};
    added.version = CL_MAKE_VERSION(1, 0, 0);
    std::strncpy(added.name, extension, sizeof added.name - 1);
    bytes.append(reinterpret_cast<const char*>(&added), sizeof added);
  } else {
    bytes.resize(std::strlen(bytes.c_str()));
    if (!bytes.empty() && bytes.back() != ' ') bytes += ' ';
    bytes.append(extension).push_back('\0');
  }
  return answer(bytes.data(), bytes.size(), room, out, needed);
}

}  // namespace
}  // namespace address

const char* const name = "berth address";

void install(cl_icd_dispatch& table) {
  table.clCreateBufferWithProperties = &address::create_buffer;
  table.clCreateSubBuffer = &address::create_sub_buffer;
  table.clGetMemObjectInfo = &address::mem_info;
  table.clGetDeviceInfo = &address::device_info;
}

}  // namespace layers
