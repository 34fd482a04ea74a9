// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>
#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>
#include <berth/cuda/framework.hpp>

#include "host_link.hpp"
#include "status.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

class Cuda final : public device::Framework {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "CUDA"; }

  [[nodiscard]] Result<std::vector<device::Device>> devices() override {
    if (auto usable = process::usable(backend); !usable) return fail(usable.error());
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
    const auto found = cuda::devices();
    if (!found) return fail(found.error());
    for (const DeviceDescription& description : *found) {
      auto allocator = Allocator::open(description.ordinal);
      if (!allocator) {
        report(allocator.error());
        continue;
      }
      devices_.emplace_back("CUDA", devices_.size(), description.name, pack(std::move(*allocator)));
    }
    if (!devices_.empty()) return {};
    return fail(Error(Errc::no_device, backend).in("devices").because("no device opens"));
  }

  Linker linker_;
  Mutex mutex_;
  std::vector<device::Device> devices_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<device::Framework> framework() {
  static const auto* const leaked = new std::shared_ptr<device::Framework>(std::make_shared<Cuda>());
  return *leaked;
}

}  // namespace berth::inline BERTH_ABI::cuda
