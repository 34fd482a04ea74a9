// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>
#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/discovery.hpp>
#include <berth/opencl/framework.hpp>

#include "host_link.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

class OpenCl final : public device::Framework {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "OpenCL"; }

  [[nodiscard]] Result<std::vector<device::Device>> devices() override {
    if (auto usable = process::usable("opencl"); !usable) return fail(usable.error());
    const HoldReports held;
    const MutexLock lock(mutex_);
    if (devices_.empty()) {
      if (auto opened = open_all(); !opened) return fail(opened.error());
    }
    return devices_;
  }

  [[nodiscard]] device::HostLinker* host_linker() noexcept override { return &linker_; }

 private:
  Result<void> open_all() BERTH_REQUIRES(mutex_) {
    const auto found = platforms();
    if (!found) return fail(found.error());
    for (const PlatformDescription& platform : *found) {
      for (const DeviceDescription& description : platform.devices) {
        if (!description.available) continue;
        auto allocator = Allocator::open(description.id);
        if (!allocator) {
          report(allocator.error());
          continue;
        }
        devices_.emplace_back("OpenCL", devices_.size(), description.name, pack(std::move(*allocator)));
      }
    }
    if (!devices_.empty()) return {};
    return fail(
        Error(Errc::no_device, "opencl").in("devices").because("no platform has an available device"));
  }

  Linker linker_;
  Mutex mutex_;
  std::vector<device::Device> devices_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<device::Framework> framework() {
  static const auto* const leaked = new std::shared_ptr<device::Framework>(std::make_shared<OpenCl>());
  return *leaked;
}

}  // namespace berth::inline BERTH_ABI::opencl
