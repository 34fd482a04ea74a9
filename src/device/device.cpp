// SPDX-License-Identifier: MIT
#include <berth/core/diagnostics.hpp>
#include <berth/core/process.hpp>
#include <berth/device/device.hpp>

#include <algorithm>

namespace berth::inline BERTH_ABI::device {

struct Device::State {
  const std::string framework;
  const std::size_t index;
  const std::string name;
  const PackedAllocator allocator;
  Mutex mutex;
  std::vector<Queue> queues BERTH_GUARDED_BY(mutex);
};

Device::Device(std::string framework, std::size_t index, std::string name, PackedAllocator allocator)
    : state_(std::make_shared<State>(std::move(framework), index, std::move(name), std::move(allocator))) {}

std::string_view Device::framework() const noexcept { return state_->framework; }
std::size_t Device::index() const noexcept { return state_->index; }
std::string_view Device::name() const noexcept { return state_->name; }
PackedAllocator Device::allocator() const noexcept { return state_->allocator; }

Result<void> Device::register_queue(const Queue& queue) {
  if (!queue) return fail(Error(Errc::invalid_argument).in("register_queue").because("the queue is empty"));
  if (auto usable = process::not_forked("host"); !usable) return usable;
  const HoldReports held;
  const MutexLock lock(state_->mutex);
  if (std::ranges::find(state_->queues, queue) == state_->queues.end()) state_->queues.push_back(queue);
  return {};
}

bool Device::unregister_queue(const Queue& queue) {
  if (process::forked()) return false;
  const HoldReports held;
  const MutexLock lock(state_->mutex);
  return std::erase(state_->queues, queue) != 0;
}

std::vector<Queue> Device::queues() const {
  if (process::forked()) return {};  // another thread may have held the lock
  const HoldReports held;
  const MutexLock lock(state_->mutex);
  return state_->queues;
}

Result<void> Device::synchronize() const {
  const auto own = allocator().synchronize();
  const auto registered = synchronize_registered();
  return own ? registered : own;
}

Result<void> Device::synchronize_registered() const {
  Result<void> first;
  for (const Queue& queue : queues()) {
    auto idle = queue.wait();
    if (!idle && idle.error().code() == Errc::unsupported) {  // the backend's handles cannot be waited for
      auto handle = allocator().on(queue);
      idle = handle ? handle->synchronize() : fail(handle.error());
    }
    if (!idle && first) first = idle;
  }
  return first;
}

}  // namespace berth::inline BERTH_ABI::device
