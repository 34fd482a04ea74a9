// SPDX-License-Identifier: MIT
#include "devices.hpp"

#include <fmt/format.h>

#include "inventory.hpp"
#include "json.hpp"
#include "support.hpp"
#include "text.hpp"

namespace berth::tool {
namespace {

/// A device and what opening it told.
struct Examined {
  const FoundDevice& device;
  std::vector<Support> supports;
  std::string problem;  ///< why it could not be opened
};

Examined examine(const FoundDevice& device) {
  if (!device.unusable.empty()) return {device, {}, device.unusable};
  const auto allocator = device.open();
  if (!allocator) return {device, {}, allocator.error().message()};
  return {device, supports_of(*allocator), {}};
}

void print_fact(const char* label, const std::string& value) {
  if (!value.empty()) fmt::print("      {:<14}{}\n", label, printable(value));
}

const char* yes_no(bool value) noexcept { return value ? "yes" : "no"; }

std::string supported(const std::vector<Support>& supports) {
  std::string text;
  for (const Support& support : supports) {
    if (support.supported) text += (text.empty() ? "" : ", ") + std::string(support.label);
  }
  return text;
}

std::string lacking(const std::vector<Support>& supports) {
  std::string text;
  for (const Support& support : supports) {
    if (support.supported) continue;
    text += (text.empty() ? "" : ", ") + std::string(support.label);
    if (!support.reason.empty()) text += fmt::format(" ({})", support.reason);
  }
  return text;
}

std::string memory(const FoundDevice& device) {
  const bool limited = device.max_alloc_bytes < device.total_bytes;
  return fmt::format("{}, largest allocation {}, base alignment {}", binary_size(device.total_bytes),
                     limited ? binary_size(device.max_alloc_bytes) : "not limited by itself",
                     counted(device.base_alignment, "byte"));
}

void print_device(const Examined& examined) {
  const FoundDevice& device = examined.device;
  fmt::print("  {}\n", device.title());
  print_fact("type", fmt::format("{}, {}", device.type, counted(device.compute_units, "compute unit")));
  print_fact("vendor", device.vendor);
  print_fact("driver", device.driver_version);
  print_fact("version", device.version);
  print_fact("memory", memory(device));
  if (!device.sharing.empty()) {
    print_fact("host sharing", device.sharing);
  } else if (device.framework != native_name) {
    print_fact("host sharing", fmt::format("unified memory: {}, SVM: {}", yes_no(device.unified_memory),
                                           device.svm_fine     ? "coarse- and fine-grained buffers"
                                           : device.svm_coarse ? "coarse-grained buffers"
                                                               : "no"));
  }
  if (device.framework != native_name && !device.compiler)
    print_fact("kernels", "no compiler: `berth tour` cannot run on it");
  for (const FoundQuirk& quirk : device.quirks) {
    print_fact(&quirk == device.quirks.data() ? "quirks" : "",
               fmt::format("{}: {}", quirk.name, quirk.remedy));
  }
  if (!examined.problem.empty()) {
    print_fact("not usable", examined.problem);
  } else {
    print_fact("berth does", supported(examined.supports));
    print_fact("berth lacks", lacking(examined.supports));
  }
}

void print_text(const Inventory& inventory) {
  for (const FoundFramework& framework : inventory.frameworks) {
    fmt::print("{}\n", framework.name);
    if (!framework.problem.empty()) fmt::print("  none: {}\n  {}\n", framework.problem, framework.remedy);
    for (const FoundPlatform& platform : framework.platforms) {
      if (!platform.name.empty()) {
        fmt::print("  platform {} ({}), {}\n", printable(platform.name), printable(platform.vendor),
                   printable(platform.version));
      }
      if (!platform.problem.empty()) fmt::print("  devices missing: {}\n", platform.problem);
      for (const FoundDevice& device : platform.devices) print_device(examine(device));
    }
  }
}

Json device_json(const Examined& examined) {
  const FoundDevice& device = examined.device;
  Json supports = Json::object();
  for (const Support& support : examined.supports) supports[support.key] = support.supported;
  Json quirks = Json::object();
  for (const FoundQuirk& quirk : device.quirks) quirks[quirk.name] = quirk.remedy;
  return {{"number", device.number},
          {"name", device.name},
          {"type", device.type},
          {"vendor", text_or_null(device.vendor)},
          {"driver_version", text_or_null(device.driver_version)},
          {"version", text_or_null(device.version)},
          {"compute_units", device.compute_units},
          {"total_bytes", device.total_bytes},
          {"max_alloc_bytes", device.max_alloc_bytes},
          {"base_alignment", device.base_alignment},
          {"unified_memory", device.unified_memory},
          {"svm_coarse", device.svm_coarse},
          {"svm_fine", device.svm_fine},
          {"compiler", device.compiler},
          {"quirks", std::move(quirks)},
          {"supports", examined.problem.empty() ? supports : Json()},
          {"problem", text_or_null(examined.problem)}};
}

Json platform_json(const FoundPlatform& platform) {
  Json devices = Json::array();
  for (const FoundDevice& device : platform.devices) devices.push_back(device_json(examine(device)));
  return {{"name", text_or_null(platform.name)},
          {"vendor", text_or_null(platform.vendor)},
          {"version", text_or_null(platform.version)},
          {"problem", text_or_null(platform.problem)},
          {"devices", std::move(devices)}};
}

void print_json(const Inventory& inventory) {
  Json frameworks = Json::array();
  for (const FoundFramework& framework : inventory.frameworks) {
    Json platforms = Json::array();
    for (const FoundPlatform& platform : framework.platforms) platforms.push_back(platform_json(platform));
    frameworks.push_back({{"name", framework.name},
                          {"problem", text_or_null(framework.problem)},
                          {"remedy", text_or_null(framework.remedy)},
                          {"platforms", std::move(platforms)}});
  }
  print_json_line({{"frameworks", std::move(frameworks)}});
}

}  // namespace

ExitStatus run_devices(const DevicesOptions& options) {
  const Inventory inventory = take_inventory();
  if (options.json) {
    print_json(inventory);
  } else {
    print_text(inventory);
  }
  return ExitStatus::success;
}

}  // namespace berth::tool
