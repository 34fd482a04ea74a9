// SPDX-License-Identifier: MIT
#include "../inventory.hpp"

#include <fmt/format.h>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>
#include <berth/cuda/framework.hpp>
#include <berth/device/registry.hpp>

#include "histogram.hpp"

namespace berth::tool {
namespace {

std::string remedy(Errc code) {
  switch (code) {
    case Errc::library_missing:
      return "Install NVIDIA's driver; the CUDA toolkit is not needed.";
    case Errc::symbol_missing:
      return "Install a newer driver of NVIDIA's.";
    case Errc::no_device:
      return "The driver sees no GPU: `nvidia-smi` says more, and CUDA_VISIBLE_DEVICES hides devices.";
    default:
      return "`nvidia-smi` says whether the driver works.";
  }
}

Result<PackedAllocator> open(int ordinal) {
  auto allocator = cuda::Allocator::open(ordinal);
  if (!allocator) return fail(allocator.error());
  return pack(std::move(*allocator));
}

std::string sharing(const cuda::DeviceDescription& description) {
  const char* const registered = !description.host_register               ? "no"
                                 : description.registered_at_host_address ? "yes, at the host's addresses"
                                                                          : "yes, at addresses of its own";
  return fmt::format("pageable memory: {}, registered memory: {}",
                     description.pageable_memory_access ? "yes" : "no", registered);
}

FoundDevice describe(const cuda::DeviceDescription& description, const std::string& version) {
  FoundDevice device;
  device.framework = "CUDA";
  device.platform = "NVIDIA CUDA";
  device.name = description.name;
  device.type = "gpu";
  device.vendor = "NVIDIA";
  device.driver_version = version;
  device.version = fmt::format("compute capability {}.{}", description.compute_capability.major,
                               description.compute_capability.minor);
  device.compute_units = description.multiprocessors;
  device.total_bytes = description.total_bytes;
  device.max_alloc_bytes = description.total_bytes;
  device.base_alignment = 256;
  device.unified_memory = description.integrated;
  device.sharing = sharing(description);
  device.compiler = true;  // the driver compiles PTX
  device.open = [ordinal = description.ordinal] { return open(ordinal); };
  device.histogram = cuda_histogram;
  return device;
}

}  // namespace

FoundFramework find_cuda() {
  FoundFramework framework{.name = "CUDA", .problem = {}, .remedy = {}, .platforms = {}};
  if (auto known = device::register_framework(cuda::framework()); !known) {
    framework.problem = known.error().message();
    return framework;
  }
  const auto devices = cuda::devices();
  if (!devices) {
    framework.problem = devices.error().message();
    framework.remedy = remedy(devices.error().code());
    return framework;
  }
  const cuda::Version newest = cuda::driver_version().value_or(cuda::Version{});
  const std::string version = fmt::format("CUDA {}.{}", newest.major, newest.minor);
  FoundPlatform platform{
      .name = "NVIDIA CUDA", .vendor = "NVIDIA", .version = version, .problem = {}, .devices = {}};
  for (const cuda::DeviceDescription& description : *devices) {
    platform.devices.push_back(describe(description, version));
  }
  framework.platforms.push_back(std::move(platform));
  return framework;
}

}  // namespace berth::tool
