// SPDX-License-Identifier: MIT
#include "inventory.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <berth/device/registry.hpp>
#include <berth/host/allocator.hpp>
#include <berth/host/framework.hpp>

#include "text.hpp"

namespace berth::tool {
namespace {

Result<PackedAllocator> open_native() {
  auto allocator = host::Allocator::open();
  if (!allocator) return fail(allocator.error());
  return pack(*allocator);
}

FoundFramework find_native() {
  FoundFramework framework{.name = native_name, .problem = {}, .remedy = {}, .platforms = {}};
  if (auto known = device::register_framework(host::framework()); !known) {
    framework.problem = known.error().message();
    return framework;
  }
  const auto allocator = host::Allocator::open();
  if (!allocator) {
    framework.problem = allocator.error().message();
    return framework;
  }
  const AllocatorInfo info = allocator->info();
  FoundDevice device;
  device.framework = native_name;
  device.name = "host memory";
  device.type = "host";
  device.compute_units = static_cast<std::uint32_t>(::sysconf(_SC_NPROCESSORS_ONLN));
  device.total_bytes = info.total_bytes;
  device.max_alloc_bytes = info.max_bytes;
  device.base_alignment = info.alignment;
  device.unified_memory = info.shares_host_memory;
  device.open = open_native;
  device.histogram = [](const PackedAllocator&) -> Outcome<std::unique_ptr<Histogram>> {
    return mapped_histogram();
  };

  FoundPlatform platform;
  platform.devices.push_back(std::move(device));
  framework.platforms.push_back(std::move(platform));
  return framework;
}

}  // namespace

std::string FoundDevice::title() const { return fmt::format("[{}] {}", number, printable(name)); }

std::string FoundDevice::full_title() const {
  const std::string driver = platform.empty() ? "" : ", " + printable(platform);
  return fmt::format("{} ({}{})", title(), framework, driver);
}

std::vector<const FoundDevice*> Inventory::devices() const {
  std::vector<const FoundDevice*> found;
  for (const FoundFramework& framework : frameworks) {
    for (const FoundPlatform& platform : framework.platforms) {
      for (const FoundDevice& device : platform.devices) found.push_back(&device);
    }
  }
  return found;
}

Inventory take_inventory() {
  Inventory inventory;
  inventory.frameworks.push_back(find_opencl());
  inventory.frameworks.push_back(find_cuda());
  inventory.frameworks.push_back(find_native());
  std::size_t number = 0;
  for (FoundFramework& framework : inventory.frameworks) {
    for (FoundPlatform& platform : framework.platforms) {
      for (FoundDevice& device : platform.devices) device.number = number++;
    }
  }
  return inventory;
}

}  // namespace berth::tool
