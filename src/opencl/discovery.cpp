// SPDX-License-Identifier: MIT
#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/discovery.hpp>

#include <cstdio>

#include "query.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

// Not every driver is safe against threads that race into its first call.
Mutex discovery_mutex;

DeviceType type_of(cl_device_type type) noexcept {
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return DeviceType::cpu;
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return DeviceType::gpu;
  if ((type & CL_DEVICE_TYPE_ACCELERATOR) != 0) return DeviceType::accelerator;
  return DeviceType::other;
}

// OpenCL 3.0, CL_DEVICE_VERSION: "OpenCL<space><major.minor><space><vendor-specific information>".
Version parse_version(const std::string& text) noexcept {
  Version version;
  if (std::sscanf(text.c_str(), "OpenCL %d.%d", &version.major, &version.minor) != 2) return {};
  return version;
}

// Fills one field and keeps the first failure.
class Reader {
 public:
  explicit Reader(cl_device_id device) noexcept : device_(device) {}

  template <class T>
  T value(cl_device_info param) {
    auto got = query<T>(device_, param);
    if (!got) keep(got.error());
    return got.value_or(T{});
  }
  std::string text(cl_device_info param) {
    auto got = query_text(device_, param);
    if (!got) keep(got.error());
    return got.value_or(std::string());
  }
  std::string platform_name() {
    const auto platform = query<cl_platform_id>(device_, CL_DEVICE_PLATFORM);
    const auto got =
        platform ? query_text(*platform, CL_PLATFORM_NAME) : Result<std::string>(fail(platform.error()));
    if (!got) keep(got.error());
    return got.value_or(std::string());
  }
  [[nodiscard]] const std::optional<Error>& problem() const noexcept { return problem_; }

 private:
  void keep(const Error& error) noexcept {
    if (!problem_) problem_ = error;
  }
  cl_device_id device_;
  std::optional<Error> problem_;
};

Result<std::vector<cl_platform_id>> platform_ids() {
  cl_uint count = 0;
  auto got = check(clGetPlatformIDs(0, nullptr, &count), "clGetPlatformIDs");
  if (!got && got.error().code() == Errc::no_device) {  // cl_khr_icd: CL_PLATFORM_NOT_FOUND_KHR
    return fail(Error(got.error()).because("no OpenCL driver is installed"));
  }
  if (!got) return fail(got.error());
  if (count == 0) {
    return fail(
        Error(Errc::no_device, backend).in("clGetPlatformIDs").because("no OpenCL driver is installed"));
  }
  std::vector<cl_platform_id> ids(count);
  if (auto got = check(clGetPlatformIDs(count, ids.data(), nullptr), "clGetPlatformIDs"); !got) {
    return fail(got.error());
  }
  hook_exit();  // the drivers are initialised now
  return ids;
}

Result<std::vector<cl_device_id>> device_ids(cl_platform_id platform) {
  cl_uint count = 0;
  if (auto got = check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count), "clGetDeviceIDs");
      !got) {
    return fail(got.error());
  }
  std::vector<cl_device_id> ids(count);
  if (auto got =
          check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr), "clGetDeviceIDs");
      !got) {
    return fail(got.error());
  }
  return ids;
}

PlatformDescription describe_platform(cl_platform_id id) {
  const auto text = [id](cl_platform_info param) { return query_text(id, param).value_or(std::string()); };
  PlatformDescription platform{.id = id,
                               .name = text(CL_PLATFORM_NAME),
                               .vendor = text(CL_PLATFORM_VENDOR),
                               .version_text = text(CL_PLATFORM_VERSION),
                               .devices = {},
                               .problem = std::nullopt};
  const auto ids = device_ids(id);
  if (!ids) {
    platform.problem = ids.error();
    return platform;
  }
  for (cl_device_id device : *ids) {
    if (auto description = describe(device)) {
      platform.devices.push_back(std::move(*description));
    } else {
      platform.problem = description.error();
    }
  }
  return platform;
}

}  // namespace

std::string_view to_string(DeviceType type) noexcept {
  switch (type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::gpu:
      return "gpu";
    case DeviceType::accelerator:
      return "accelerator";
    case DeviceType::other:
      return "other";
  }
  return "";
}

Result<DeviceDescription> describe(cl_device_id device) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  Reader read(device);
  DeviceDescription description;
  description.id = device;
  description.platform = read.platform_name();
  description.name = read.text(CL_DEVICE_NAME);
  description.vendor = read.text(CL_DEVICE_VENDOR);
  description.driver_version = read.text(CL_DRIVER_VERSION);
  description.version_text = read.text(CL_DEVICE_VERSION);
  description.version = parse_version(description.version_text);
  description.type = type_of(read.value<cl_device_type>(CL_DEVICE_TYPE));
  description.compute_units = read.value<cl_uint>(CL_DEVICE_MAX_COMPUTE_UNITS);
  description.global_bytes = read.value<cl_ulong>(CL_DEVICE_GLOBAL_MEM_SIZE);
  description.max_alloc_bytes = read.value<cl_ulong>(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  description.base_alignment = read.value<cl_uint>(CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8;
  description.unified_memory = read.value<cl_bool>(CL_DEVICE_HOST_UNIFIED_MEMORY) != CL_FALSE;
  description.available = read.value<cl_bool>(CL_DEVICE_AVAILABLE) != CL_FALSE;
  description.compiler = read.value<cl_bool>(CL_DEVICE_COMPILER_AVAILABLE) != CL_FALSE;
  description.out_of_order = (read.value<cl_command_queue_properties>(CL_DEVICE_QUEUE_PROPERTIES) &
                              CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
  if (description.version >= Version{2, 0}) {
    const auto svm = read.value<cl_device_svm_capabilities>(CL_DEVICE_SVM_CAPABILITIES);
    description.svm_coarse = (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
    description.svm_fine = (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
  }
  description.extensions = read.text(CL_DEVICE_EXTENSIONS);
  if (const auto problem = read.problem()) return fail(*problem);
  return description;
}

Result<std::vector<PlatformDescription>> platforms() {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const MutexLock lock(discovery_mutex);
  const auto ids = platform_ids();
  if (!ids) return fail(ids.error());
  std::vector<PlatformDescription> found;
  found.reserve(ids->size());
  for (cl_platform_id id : *ids) found.push_back(describe_platform(id));
  return found;
}

}  // namespace berth::inline BERTH_ABI::opencl
