// SPDX-License-Identifier: MIT
#include "block.hpp"

#include <berth/core/diagnostics.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace berth::inline BERTH_ABI::cuda::detail {
namespace {

struct Instances {
  Mutex mutex;
  std::vector<std::weak_ptr<const Instance>> all BERTH_GUARDED_BY(mutex);
};

// Never destroyed: allocators may live until the very end of the process.
Instances& instances() noexcept {
  static Instances* const leaked = new Instances;
  return *leaked;
}

}  // namespace

void announce(const std::shared_ptr<const Instance>& instance) {
  Instances& live = instances();
  const MutexLock lock(live.mutex);
  std::erase_if(live.all, [](const auto& gone) { return gone.expired(); });
  live.all.push_back(instance);
}

std::shared_ptr<const Instance> find_instance(InstanceId id) {
  std::vector<std::shared_ptr<const Instance>> seen;  // the last owner may be here: not under the lock
  Instances& live = instances();
  const MutexLock lock(live.mutex);
  for (const auto& each : live.all) {
    auto instance = each.lock();
    if (instance == nullptr) continue;
    if (instance->info.instance == id) return instance;
    seen.push_back(std::move(instance));
  }
  return nullptr;
}

Instance::~Instance() {
  if (!owns_stream || !process::may_release() || context->lost()) return;
  const Current current(*context);
  if (current.entered_or_told()) context->told(context->driver.stream_destroy(stream), "cuStreamDestroy");
}

void Memory::release(const Context& context) const noexcept {
  const Driver& driver = context.driver;
  switch (kind) {
    case Kind::device:
      context.told(driver.mem_free(address), "cuMemFree");
      break;
    case Kind::pinned:
      context.told(driver.mem_free_host(host), "cuMemFreeHost");
      break;
    case Kind::external:
      break;
  }
}

void Block::used_on(abi::Stream stream) {
  const MutexLock lock(mutex_);
  if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
  has_streams_.store(true, std::memory_order_release);
}

void Block::settle(abi::Stream stream) noexcept {
  const Context& context = *instance.context;
  const Driver& driver = context.driver;
  const auto wait = [&](abi::Stream used) {
    return context.told(driver.stream_synchronize(used), "cuStreamSynchronize");
  };
  bool settled = wait(instance.stream);
  if (stream != instance.stream) settled = wait(stream) && settled;
  if (has_streams_.load(std::memory_order_acquire)) {
    const HoldReports held;
    const MutexLock lock(mutex_);
    for (const abi::Stream used : streams_) settled = wait(used) && settled;
  }
  if (!settled && !context.told(driver.ctx_synchronize(), "cuCtxSynchronize")) keep();
}

void Block::end(const Current* current) noexcept {
  const Context& context = *instance.context;
  if (kept_) {
    linked_.claim.keep_claimed();
    linked_.registration.keep();
  } else if (memory.kind != Memory::Kind::external && process::may_release() && !context.lost()) {
    std::optional<Current> own;
    if (current == nullptr) current = &own.emplace(context);
    if (current->entered_or_told()) memory.release(context);
  }
  delete this;
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
