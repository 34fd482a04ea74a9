// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>
#include <berth/core/process.hpp>
#include <berth/cuda/discovery.hpp>

#include <array>
#include <cstring>
#include <optional>

#include "resolve.hpp"
#include "status.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

constexpr int max_name_bytes = 256;

// Fills one field and keeps the first failure.
class Reader {
 public:
  Reader(const Driver& driver, abi::Device device) noexcept : driver_(driver), device_(device) {}

  int attribute(int which) noexcept {
    int value = 0;
    keep(driver_.device_get_attribute(&value, which, device_), "cuDeviceGetAttribute");
    return value;
  }
  bool flag(int which) noexcept { return attribute(which) != 0; }
  void keep(abi::Status status, const char* call) noexcept {
    if (status != abi::success && !problem_) problem_ = error(driver_, status, call);
  }
  [[nodiscard]] const std::optional<Error>& problem() const noexcept { return problem_; }

 private:
  const Driver& driver_;
  abi::Device device_;
  std::optional<Error> problem_;
};

Result<abi::Device> device_at(const Driver& driver, int ordinal) noexcept {
  abi::Device device = 0;
  if (auto got = check(driver, driver.device_get(&device, ordinal), "cuDeviceGet"); !got)
    return fail(got.error());
  return device;
}

}  // namespace

Result<const Driver*> resolve(const Driver* given) {
  if (given == nullptr) return driver();
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto ready = check(*given, given->init(0), "cuInit"); !ready) return fail(ready.error());
  hook_exit();
  return given;
}

Result<DeviceDescription> describe_device(const Driver& driver, abi::Device device) {
  Reader read(driver, device);
  DeviceDescription description;
  description.ordinal = device;
  std::array<char, max_name_bytes> name{};
  read.keep(driver.device_get_name(name.data(), max_name_bytes, device), "cuDeviceGetName");
  description.name = name.data();
  abi::Uuid uuid{};
  read.keep(driver.device_get_uuid(&uuid, device), "cuDeviceGetUuid");
  description.key.backend = backend;
  std::memcpy(&description.key.high, uuid.bytes, sizeof description.key.high);
  std::memcpy(&description.key.low, uuid.bytes + sizeof description.key.high, sizeof description.key.low);
  std::size_t total_bytes = 0;
  read.keep(driver.device_total_mem(&total_bytes, device), "cuDeviceTotalMem");
  description.total_bytes = total_bytes;
  description.compute_capability = {read.attribute(abi::device_attribute_compute_capability_major),
                                    read.attribute(abi::device_attribute_compute_capability_minor)};
  description.multiprocessors =
      static_cast<std::uint32_t>(read.attribute(abi::device_attribute_multiprocessor_count));
  description.integrated = read.flag(abi::device_attribute_integrated);
  description.pageable_memory_access = read.flag(abi::device_attribute_pageable_memory_access);
  description.host_register = read.flag(abi::device_attribute_host_register_supported);
  description.read_only_host_register = read.flag(abi::device_attribute_read_only_host_register_supported);
  description.registered_at_host_address =
      read.flag(abi::device_attribute_can_use_host_pointer_for_registered_mem);
  description.virtual_memory = read.flag(abi::device_attribute_virtual_memory_management_supported);
  if (const auto problem = read.problem()) return fail(*problem);
  return description;
}

Result<Version> driver_version(const Driver* given) {
  const auto driver = resolve(given);
  if (!driver) return fail(driver.error());
  int version = 0;
  if (auto got = check(**driver, (*driver)->driver_get_version(&version), "cuDriverGetVersion"); !got)
    return fail(got.error());
  return Version{version / 1000, version % 1000 / 10};  // cuDriverGetVersion: 1000 * major + 10 * minor
}

Result<DeviceDescription> describe(int ordinal, const Driver* given) {
  const auto driver = resolve(given);
  if (!driver) return fail(driver.error());
  const auto device = device_at(**driver, ordinal);
  if (!device) return fail(device.error());
  auto description = describe_device(**driver, *device);
  if (description) description->ordinal = ordinal;
  return description;
}

Result<std::vector<DeviceDescription>> devices(const Driver* given) {
  const auto driver = resolve(given);
  if (!driver) return fail(driver.error());
  int count = 0;
  if (auto got = check(**driver, (*driver)->device_get_count(&count), "cuDeviceGetCount"); !got)
    return fail(got.error());
  if (count == 0) {
    return fail(Error(Errc::no_device, backend)
                    .in("cuDeviceGetCount")
                    .because("the driver is there, but sees no device (CUDA_VISIBLE_DEVICES hides some)"));
  }
  std::vector<DeviceDescription> found;
  found.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto description = describe(ordinal, *driver);
    if (description) {
      found.push_back(std::move(*description));
    } else if (ordinal + 1 < count || !found.empty()) {
      report(description.error());
    } else {
      return fail(description.error());
    }
  }
  return found;
}

}  // namespace berth::inline BERTH_ABI::cuda
