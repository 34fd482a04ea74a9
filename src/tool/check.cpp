// SPDX-License-Identifier: MIT
#include "check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <berth/testing/conformance.hpp>

#include <algorithm>
#include <cstdio>

#include "json.hpp"
#include "selection.hpp"
#include "text.hpp"

namespace berth::tool {
namespace {

using testing::LawResult;
using testing::Verdict;

const char* word(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::skip:
      return "skip";
  }
  return "";
}

void print_result(const LawResult& result) {
  fmt::print("  {}  {}{}{}\n", word(result.verdict), result.law, result.reason.empty() ? "" : ": ",
             printable(result.reason));
  std::fflush(stdout);
}

void print_result_json(const FoundDevice& device, const LawResult& result) {
  print_json_line({{"device", device.number},
                   {"name", device.name},
                   {"law", result.law},
                   {"verdict", word(result.verdict)},
                   {"reason", text_or_null(result.reason)}});
  std::fflush(stdout);
}

ExitStatus check_device(const FoundDevice& device, const CheckCommandOptions& options) {
  if (!device.unusable.empty()) {
    fmt::print(stderr, "berth check: {}: {}\n", device.title(), device.unusable);
    return ExitStatus::error;
  }
  if (!options.json) {
    fmt::print("{}\n", device.full_title());
    if (device.single_threaded) {
      fmt::print("  {} breaks when several host threads use it: the laws about threads are left out\n",
                 device.platform);
    }
  }
  testing::CheckOptions how;
  how.law = options.law;
  how.threads = !device.single_threaded;
  how.on_result = [&](const LawResult& result) {
    options.json ? print_result_json(device, result) : print_result(result);
  };
  const testing::Report report = testing::check<PackedAllocator>(device.open, how);
  if (!options.json) {
    fmt::print("  {} passed, {} failed, {} skipped\n", report.passed(), report.failed(), report.skipped());
  }
  return report.failed() == 0 ? ExitStatus::success : ExitStatus::failed;
}

}  // namespace

ExitStatus run_check(const CheckCommandOptions& options) {
  const auto laws = testing::law_names();
  if (options.list) {
    for (const std::string_view law : laws) fmt::print("{}\n", law);
    return ExitStatus::success;
  }
  if (!options.law.empty() && std::ranges::find(laws, options.law) == laws.end()) {
    fmt::print(stderr, "berth check: no law is named '{}'; there are: {}\n", options.law,
               fmt::join(laws, ", "));
    return ExitStatus::error;
  }
  const Inventory inventory = take_inventory();
  const auto devices = select_devices(inventory, options.device);
  if (!devices) {
    fmt::print(stderr, "berth check: {}\n", devices.error());
    return ExitStatus::error;
  }
  auto status = ExitStatus::success;
  for (const FoundDevice* device : *devices) status = worse(status, check_device(*device, options));
  return status;
}

}  // namespace berth::tool
