// SPDX-License-Identifier: MIT
#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/core/reclaim.hpp>

#include <algorithm>
#include <vector>

namespace berth::inline BERTH_ABI::reclaim {
namespace {

struct Holder {
  DeviceKey device;
  std::weak_ptr<Reclaimable> holder;
  Holds holds;
};

struct Registry {
  Mutex mutex;
  std::vector<Holder> holders BERTH_GUARDED_BY(mutex);
};

// Never destroyed: caches may live until the very end of the process.
Registry& registry() noexcept {
  static Registry* const leaked = new Registry;
  return *leaked;
}

// Where this thread is.
struct Position {
  bool on_ladder = false;
  bool in_hook = false;
};
thread_local constinit Position position;

}  // namespace

Reclaimable::~Reclaimable() = default;

void announce(const DeviceKey& device, const std::shared_ptr<Reclaimable>& holder, Holds holds) {
  if (process::forked()) return;
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  std::erase_if(live.holders, [](const Holder& gone) { return gone.holder.expired(); });
  // Staging before blocks, each in order of arrival.
  const auto place = std::ranges::upper_bound(live.holders, holds, {}, &Holder::holds);
  live.holders.insert(place, {device, holder, holds});
}

std::uint64_t from_others(const DeviceKey& device, const Reclaimable* except, std::uint64_t nbytes) noexcept {
  if (process::forked()) return 0;
  std::vector<std::shared_ptr<Reclaimable>> others;
  {
    Registry& live = registry();
    const MutexLock lock(live.mutex);
    for (const Holder& announced : live.holders) {
      if (!(announced.device == device)) continue;
      if (auto holder = announced.holder.lock(); holder != nullptr && holder.get() != except) {
        others.push_back(std::move(holder));
      }
    }
  }
  std::uint64_t freed = 0;
  for (const auto& other : others) {
    if (freed >= nbytes) break;
    freed += other->reclaim(nbytes - freed);
  }
  return freed;
}

Ladder::Ladder() noexcept : outermost_(!std::exchange(position.on_ladder, true)) {}

Ladder::~Ladder() {
  if (outermost_) position.on_ladder = false;
}

bool Ladder::ask(const OutOfMemoryHook& hook, std::uint64_t nbytes) const {
  if (!hook || position.in_hook) return false;
  // What the hook allocates climbs a ladder of its own, without the hook.
  position = {.on_ladder = false, .in_hook = true};
  const bool again = hook(nbytes);
  position = {.on_ladder = true, .in_hook = false};
  return again;
}

}  // namespace berth::inline BERTH_ABI::reclaim
