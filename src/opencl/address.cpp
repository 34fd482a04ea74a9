// SPDX-License-Identifier: MIT
#include "address.hpp"

#include <array>
#include <string_view>
#include <vector>

#include "query.hpp"

// Of OpenCL 3.0: null under an older loader.
extern "C" decltype(clCreateBufferWithProperties) clCreateBufferWithProperties __attribute__((weak));

namespace berth::inline BERTH_ABI::opencl {
namespace {

// cl_ext_buffer_device_address 1.0.2; Debian's headers lack it.
constexpr std::string_view extension = "cl_ext_buffer_device_address";
constexpr cl_mem_properties mem_device_private_address = 0x5000;
constexpr cl_mem_info mem_device_address = 0x5001;
using DeviceAddress = cl_ulong;

bool has_word(std::string_view text, std::string_view word) noexcept {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || text[at - 1] == ' ') && (end == text.size() || text[end] == ' ')) return true;
  }
  return false;
}

}  // namespace

bool offers_device_addresses(const DeviceDescription& device) noexcept {
  return device.version >= Version{3, 0} && &clCreateBufferWithProperties != nullptr &&
         has_word(device.extensions, extension);
}

Result<Handle<cl_mem>> make_buffer(const detail::Instance& instance, cl_mem_flags flags, std::size_t nbytes,
                                   void* host_ptr) {
  const cl_context context = instance.context.get();
  cl_int status = CL_SUCCESS;
  const char* call = "clCreateBuffer";
  Handle<cl_mem> mem;
  if (instance.device_addresses) {
    call = "clCreateBufferWithProperties";
    constexpr std::array<cl_mem_properties, 3> properties{mem_device_private_address, CL_TRUE, 0};
    mem = Handle<cl_mem>::adopt(
        clCreateBufferWithProperties(context, properties.data(), flags, nbytes, host_ptr, &status));
  }
  // Another device of the context may lack the extension.
  if (!instance.device_addresses || status == CL_INVALID_PROPERTY) {
    call = "clCreateBuffer";
    mem = Handle<cl_mem>::adopt(clCreateBuffer(context, flags, nbytes, host_ptr, &status));
  }
  if (status != CL_SUCCESS) return fail(error(status, call, Doing::allocating).asking(nbytes));
  return mem;
}

Result<std::uintptr_t> device_address(const detail::Instance& instance, cl_mem root) {
  if (instance.device_addresses) {
    // One for each device of the context.
    std::vector<DeviceAddress> addresses(instance.context_devices);
    const cl_int status = clGetMemObjectInfo(
        root, mem_device_address, addresses.size() * sizeof(DeviceAddress), addresses.data(), nullptr);
    if (status == CL_SUCCESS) return static_cast<std::uintptr_t>(addresses[instance.device_index]);
    // The object was made without an address.
    if (status != CL_INVALID_OPERATION) return fail(error(status, "clGetMemObjectInfo"));
  }
  if (instance.shared_virtual_memory) {
    const auto shared = query<cl_bool>(root, CL_MEM_USES_SVM_POINTER);
    if (!shared) return fail(shared.error());
    if (*shared == CL_TRUE) {
      const auto address = query<void*>(root, CL_MEM_HOST_PTR);
      if (!address) return fail(address.error());
      return reinterpret_cast<std::uintptr_t>(*address);
    }
  }
  return fail(Error(Errc::unsupported, backend)
                  .in("addr")
                  .because(instance.device_addresses ? "the cl_mem was made without a device address"
                                                     : "the device has no buffer device addresses"));
}

}  // namespace berth::inline BERTH_ABI::opencl
