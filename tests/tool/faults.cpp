// SPDX-License-Identifier: MIT

// Preloaded into the program: stands in for the C library's pread and for three OpenCL calls, and goes wrong
// in the way that the environment variable BERTH_TOOL_FAULT names.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace {

bool fault(std::string_view name) noexcept {
  const char* wanted = std::getenv("BERTH_TOOL_FAULT");
  return wanted != nullptr && name == wanted;
}

template <class Function>
Function* real(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

ssize_t faulty_pread(int fd, void* bytes, std::size_t nbytes, off_t offset) noexcept {
  static const auto next = real<ssize_t(int, void*, std::size_t, off_t)>("pread");
  static std::atomic<unsigned> calls{0};
  const unsigned call = calls++;
  if (fault("partial_reads")) {
    if (call % 3 == 0) {
      errno = EINTR;
      return -1;
    }
    nbytes = std::min<std::size_t>(nbytes, 4099);
  }
  if (fault("shrinking_file") && offset + static_cast<off_t>(nbytes) > 1000) {
    nbytes = offset >= 1000 ? 0 : static_cast<std::size_t>(1000 - offset);
  }
  if (fault("io_error")) {
    errno = EIO;
    return -1;
  }
  return next(fd, bytes, nbytes, offset);
}

}  // namespace

extern "C" {

ssize_t pread(int fd, void* bytes, std::size_t nbytes, off_t offset) {
  return faulty_pread(fd, bytes, nbytes, offset);
}
ssize_t pread64(int fd, void* bytes, std::size_t nbytes, off_t offset) {
  return faulty_pread(fd, bytes, nbytes, offset);
}

// "flipped_bit": one bit of what comes back is wrong. "no_copy_back": nothing comes back, and the call
// succeeds.
cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, std::size_t offset,
                           std::size_t nbytes, void* bytes, cl_uint wait_count, const cl_event* wait_list,
                           cl_event* event) {
  static const auto next = real<decltype(clEnqueueReadBuffer)>("clEnqueueReadBuffer");
  constexpr std::size_t counters_bytes = 1024;
  const bool payload = nbytes != counters_bytes;
  if (payload && fault("no_copy_back")) return CL_SUCCESS;
  if (payload && fault("device_lost")) return CL_OUT_OF_RESOURCES;
  const cl_int status = next(queue, buffer, blocking, offset, nbytes, bytes, wait_count, wait_list, event);
  if (payload && fault("flipped_bit")) static_cast<unsigned char*>(bytes)[nbytes / 2] ^= 1U;
  return status;
}

// "no_kernel": the kernel does not run, and the call succeeds.
cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const std::size_t* global_offset, const std::size_t* global_size,
                              const std::size_t* local_size, cl_uint wait_count, const cl_event* wait_list,
                              cl_event* event) {
  static const auto next = real<decltype(clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel");
  if (fault("no_kernel")) return CL_SUCCESS;
  return next(queue, kernel, dimensions, global_offset, global_size, local_size, wait_count, wait_list,
              event);
}

// "no_compiler": no program builds.
cl_int clBuildProgram(cl_program program, cl_uint device_count, const cl_device_id* devices,
                      const char* options, void(CL_CALLBACK* notify)(cl_program, void*), void* context) {
  static const auto next = real<decltype(clBuildProgram)>("clBuildProgram");
  if (fault("no_compiler")) return CL_COMPILER_NOT_AVAILABLE;
  return next(program, device_count, devices, options, notify, context);
}

// "no_context": no device opens. "no_memory": no memory is had beyond the counters.
cl_context clCreateContext(const cl_context_properties* properties, cl_uint device_count,
                           const cl_device_id* devices,
                           void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* context,
                           cl_int* status) {
  static const auto next = real<decltype(clCreateContext)>("clCreateContext");
  if (!fault("no_context")) return next(properties, device_count, devices, notify, context, status);
  *status = CL_OUT_OF_HOST_MEMORY;
  return nullptr;
}
cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, std::size_t nbytes, void* host,
                      cl_int* status) {
  static const auto next = real<decltype(clCreateBuffer)>("clCreateBuffer");
  if (!fault("no_memory") || nbytes <= 1024) return next(context, flags, nbytes, host, status);
  *status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  return nullptr;
}

// "not_available": every device says that it is not available. "no_devices": platforms have none.
cl_int clGetDeviceInfo(cl_device_id device, cl_device_info param, std::size_t nbytes, void* value,
                       std::size_t* needed) {
  static const auto next = real<decltype(clGetDeviceInfo)>("clGetDeviceInfo");
  const cl_int status = next(device, param, nbytes, value, needed);
  if (param == CL_DEVICE_AVAILABLE && value != nullptr && fault("not_available")) {
    *static_cast<cl_bool*>(value) = CL_FALSE;
  }
  return status;
}
cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint entries, cl_device_id* devices,
                      cl_uint* count) {
  static const auto next = real<decltype(clGetDeviceIDs)>("clGetDeviceIDs");
  return fault("no_devices") ? CL_DEVICE_NOT_FOUND : next(platform, type, entries, devices, count);
}

}  // extern "C"
