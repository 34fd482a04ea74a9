// SPDX-License-Identifier: MIT
#include "../inventory.hpp"

#include <fmt/format.h>
#include <berth/device/registry.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/discovery.hpp>
#include <berth/opencl/framework.hpp>

#include <cstdlib>

#include "histogram.hpp"

namespace berth::tool {
namespace {

std::string remedy() {
  std::string text =
      "PoCL runs OpenCL on any CPU (Debian, Ubuntu: apt-get install pocl-opencl-icd); for a GPU, install "
      "its vendor's driver.";
  if (const char* vendors = std::getenv("OCL_ICD_VENDORS")) {
    text +=
        fmt::format(" The environment sets OCL_ICD_VENDORS={}: drivers are looked for there alone.", vendors);
  }
  return text;
}

Result<PackedAllocator> open(cl_device_id id) {
  auto allocator = opencl::Allocator::open(id);
  if (!allocator) return fail(allocator.error());
  return pack(std::move(*allocator));
}

FoundDevice describe(const opencl::PlatformDescription& platform,
                     const opencl::DeviceDescription& description) {
  FoundDevice device;
  device.framework = "OpenCL";
  device.platform = platform.name;
  device.name = description.name;
  device.type = opencl::to_string(description.type);
  device.vendor = description.vendor;
  device.driver_version = description.driver_version;
  device.version = description.version_text;
  device.compute_units = description.compute_units;
  device.total_bytes = description.global_bytes;
  device.max_alloc_bytes = description.max_alloc_bytes;
  device.base_alignment = description.base_alignment;
  device.unified_memory = description.unified_memory;
  device.svm_coarse = description.svm_coarse;
  device.svm_fine = description.svm_fine;
  device.compiler = description.compiler;
  const opencl::Quirks quirks = opencl::quirks_of(description);
  for (const opencl::QuirkRow& row : opencl::quirk_table()) {
    if (!quirks.has(row.quirk)) continue;
    device.quirks.push_back({std::string(to_string(row.quirk)), std::string(row.remedy)});
  }
  device.single_threaded = quirks.has(opencl::Quirk::one_host_thread);
  if (!description.available)
    device.unusable = "its driver says that it is not available (CL_DEVICE_AVAILABLE)";
  device.open = [id = description.id] { return open(id); };
  device.histogram = opencl_histogram;
  return device;
}

}  // namespace

FoundFramework find_opencl() {
  FoundFramework framework{.name = "OpenCL", .problem = {}, .remedy = {}, .platforms = {}};
  if (auto known = device::register_framework(opencl::framework()); !known) {
    framework.problem = known.error().message();
    return framework;
  }
  const auto platforms = opencl::platforms();
  if (!platforms) {
    framework.problem = platforms.error().message();
    framework.remedy = remedy();
    return framework;
  }
  for (const opencl::PlatformDescription& platform : *platforms) {
    FoundPlatform found{.name = platform.name,
                        .vendor = platform.vendor,
                        .version = platform.version_text,
                        .problem = platform.problem ? platform.problem->message() : std::string(),
                        .devices = {}};
    for (const opencl::DeviceDescription& description : platform.devices) {
      found.devices.push_back(describe(platform, description));
    }
    framework.platforms.push_back(std::move(found));
  }
  return framework;
}

}  // namespace berth::tool
