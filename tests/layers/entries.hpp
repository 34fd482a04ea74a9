// SPDX-License-Identifier: MIT
// The entry points of OpenCL 1.0 to 3.0 that the loader lets a layer replace.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace layers {

// clang-format off
#define BERTH_CL_ENTRIES(ENTRY) \
  ENTRY(clGetPlatformIDs) ENTRY(clGetPlatformInfo) ENTRY(clGetDeviceIDs) ENTRY(clGetDeviceInfo) \
  ENTRY(clCreateSubDevices) ENTRY(clRetainDevice) ENTRY(clReleaseDevice) \
  ENTRY(clCreateContext) ENTRY(clCreateContextFromType) ENTRY(clRetainContext) ENTRY(clReleaseContext) \
  ENTRY(clGetContextInfo) ENTRY(clSetContextDestructorCallback) \
  ENTRY(clCreateCommandQueue) ENTRY(clCreateCommandQueueWithProperties) ENTRY(clRetainCommandQueue) \
  ENTRY(clReleaseCommandQueue) ENTRY(clGetCommandQueueInfo) ENTRY(clSetCommandQueueProperty) \
  ENTRY(clSetDefaultDeviceCommandQueue) \
  ENTRY(clCreateBuffer) ENTRY(clCreateBufferWithProperties) ENTRY(clCreateSubBuffer) ENTRY(clCreateImage) \
  ENTRY(clCreateImageWithProperties) ENTRY(clCreateImage2D) ENTRY(clCreateImage3D) ENTRY(clCreatePipe) \
  ENTRY(clRetainMemObject) ENTRY(clReleaseMemObject) ENTRY(clSetMemObjectDestructorCallback) \
  ENTRY(clGetMemObjectInfo) ENTRY(clGetImageInfo) ENTRY(clGetPipeInfo) ENTRY(clGetSupportedImageFormats) \
  ENTRY(clSVMAlloc) ENTRY(clSVMFree) \
  ENTRY(clCreateSampler) ENTRY(clCreateSamplerWithProperties) ENTRY(clRetainSampler) ENTRY(clReleaseSampler) \
  ENTRY(clGetSamplerInfo) \
  ENTRY(clCreateProgramWithSource) ENTRY(clCreateProgramWithBinary) ENTRY(clCreateProgramWithBuiltInKernels) \
  ENTRY(clCreateProgramWithIL) ENTRY(clRetainProgram) ENTRY(clReleaseProgram) ENTRY(clBuildProgram) \
  ENTRY(clCompileProgram) ENTRY(clLinkProgram) ENTRY(clUnloadPlatformCompiler) \
  ENTRY(clGetProgramInfo) ENTRY(clGetProgramBuildInfo) ENTRY(clSetProgramReleaseCallback) \
  ENTRY(clSetProgramSpecializationConstant) \
  ENTRY(clCreateKernel) ENTRY(clCreateKernelsInProgram) ENTRY(clCloneKernel) ENTRY(clRetainKernel) \
  ENTRY(clReleaseKernel) ENTRY(clSetKernelArg) ENTRY(clSetKernelArgSVMPointer) ENTRY(clSetKernelExecInfo) \
  ENTRY(clGetKernelInfo) ENTRY(clGetKernelArgInfo) ENTRY(clGetKernelWorkGroupInfo) ENTRY(clGetKernelSubGroupInfo) \
  ENTRY(clCreateUserEvent) ENTRY(clSetUserEventStatus) ENTRY(clSetEventCallback) ENTRY(clWaitForEvents) \
  ENTRY(clRetainEvent) ENTRY(clReleaseEvent) ENTRY(clGetEventInfo) ENTRY(clGetEventProfilingInfo) \
  ENTRY(clGetDeviceAndHostTimer) ENTRY(clGetHostTimer) ENTRY(clFlush) ENTRY(clFinish) \
  ENTRY(clEnqueueReadBuffer) ENTRY(clEnqueueReadBufferRect) ENTRY(clEnqueueWriteBuffer) \
  ENTRY(clEnqueueWriteBufferRect) ENTRY(clEnqueueFillBuffer) ENTRY(clEnqueueCopyBuffer) \
  ENTRY(clEnqueueCopyBufferRect) ENTRY(clEnqueueReadImage) ENTRY(clEnqueueWriteImage) ENTRY(clEnqueueFillImage) \
  ENTRY(clEnqueueCopyImage) ENTRY(clEnqueueCopyImageToBuffer) ENTRY(clEnqueueCopyBufferToImage) \
  ENTRY(clEnqueueMapBuffer) ENTRY(clEnqueueMapImage) ENTRY(clEnqueueUnmapMemObject) \
  ENTRY(clEnqueueMigrateMemObjects) ENTRY(clEnqueueNDRangeKernel) ENTRY(clEnqueueTask) \
  ENTRY(clEnqueueNativeKernel) ENTRY(clEnqueueMarker) ENTRY(clEnqueueMarkerWithWaitList) ENTRY(clEnqueueBarrier) \
  ENTRY(clEnqueueBarrierWithWaitList) ENTRY(clEnqueueWaitForEvents) \
  ENTRY(clEnqueueSVMFree) ENTRY(clEnqueueSVMMemcpy) ENTRY(clEnqueueSVMMemFill) ENTRY(clEnqueueSVMMap) \
  ENTRY(clEnqueueSVMUnmap) ENTRY(clEnqueueSVMMigrateMem)
// clang-format on

enum class Entry : std::size_t {
#define BERTH_CL_ENTRY(name) name,
  BERTH_CL_ENTRIES(BERTH_CL_ENTRY)
#undef BERTH_CL_ENTRY
};

inline constexpr auto entry_names = std::to_array<std::string_view>({
#define BERTH_CL_ENTRY(name) #name,
    BERTH_CL_ENTRIES(BERTH_CL_ENTRY)
#undef BERTH_CL_ENTRY
});

[[nodiscard]] constexpr std::string_view to_string(Entry entry) noexcept {
  return entry_names[static_cast<std::size_t>(entry)];
}

}  // namespace layers
