// SPDX-License-Identifier: MIT
#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/host/allocator.hpp>
#include <berth/host/framework.hpp>

#include "host_link.hpp"

namespace berth::inline BERTH_ABI::host {
namespace {

class Native final : public device::Framework {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "Native"; }

  [[nodiscard]] Result<std::vector<device::Device>> devices() override {
    if (auto usable = process::not_forked("host"); !usable) return fail(usable.error());
    const MutexLock lock(mutex_);
    if (devices_.empty()) {
      auto allocator = Allocator::open();
      if (!allocator) return fail(allocator.error());
      devices_.emplace_back("Native", 0, "host memory", pack(*allocator));
    }
    return devices_;
  }

  [[nodiscard]] device::HostLinker* host_linker() noexcept override { return &linker_; }

 private:
  Linker linker_;
  Mutex mutex_;
  std::vector<device::Device> devices_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<device::Framework> framework() {
  static const auto* const leaked = new std::shared_ptr<device::Framework>(std::make_shared<Native>());
  return *leaked;
}

}  // namespace berth::inline BERTH_ABI::host
