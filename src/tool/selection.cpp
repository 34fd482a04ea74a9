// SPDX-License-Identifier: MIT
#include "selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "text.hpp"

namespace berth::tool {
namespace {

std::optional<std::size_t> as_number(const std::string& text) {
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

bool matches(const FoundDevice& device, const std::string& wanted) {
  if (const auto number = as_number(wanted)) return device.number == *number;
  return contains_ignoring_case(device.name, wanted) || contains_ignoring_case(device.platform, wanted) ||
         contains_ignoring_case(device.framework, wanted);
}

// Why there may be fewer devices than the user thinks.
std::string what_is_missing(const Inventory& inventory) {
  std::string text;
  for (const FoundFramework& framework : inventory.frameworks) {
    if (!framework.problem.empty()) {
      text += fmt::format("\n{}: {}. {}", framework.name, framework.problem, framework.remedy);
    }
    for (const FoundPlatform& platform : framework.platforms) {
      if (!platform.problem.empty()) {
        text += fmt::format("\n{}, platform {}: {}", framework.name, platform.name, platform.problem);
      }
      for (const FoundDevice& device : platform.devices) {
        if (!device.unusable.empty()) text += fmt::format("\n{}: {}", device.title(), device.unusable);
      }
    }
  }
  return text;
}

std::string no_match(const Inventory& inventory, const std::string& wanted) {
  std::string text = fmt::format("no device matches '{}'; found:", printable(wanted));
  for (const FoundDevice* device : inventory.devices()) {
    text += "\n  " + device->full_title();
  }
  return text + what_is_missing(inventory);
}

}  // namespace

Outcome<std::vector<const FoundDevice*>> select_devices(const Inventory& inventory,
                                                        const std::string& wanted) {
  std::vector<const FoundDevice*> selected = inventory.devices();
  if (wanted.empty()) {
    std::erase_if(selected, [](const FoundDevice* device) { return !device->unusable.empty(); });
    if (std::ranges::all_of(selected,
                            [](const FoundDevice* device) { return device->framework == native_name; })) {
      return complain("no device; `--device native` takes the host's own memory instead" +
                      what_is_missing(inventory));
    }
    return selected;
  }
  std::erase_if(selected, [&](const FoundDevice* device) { return !matches(*device, wanted); });
  if (selected.empty()) return complain(no_match(inventory, wanted));
  return selected;
}

}  // namespace berth::tool
