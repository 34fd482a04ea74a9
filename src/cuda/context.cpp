// SPDX-License-Identifier: MIT
#include "context.hpp"

#include <berth/core/diagnostics.hpp>
#include <berth/core/mutex.hpp>

#include <algorithm>

namespace berth::inline BERTH_ABI::cuda::detail {
namespace {

// The drivers whose contexts live.
struct Faults {
  struct Entry {
    const Driver* driver;
    std::weak_ptr<Fault> fault;
  };
  Mutex mutex;
  std::vector<Entry> entries BERTH_GUARDED_BY(mutex);
};

Faults& faults() noexcept {
  static Faults* const leaked = new Faults;
  return *leaked;
}

}  // namespace

std::shared_ptr<Fault> fault_of(const Driver& driver) {
  Faults& all = faults();
  const MutexLock lock(all.mutex);
  std::erase_if(all.entries, [](const Faults::Entry& gone) { return gone.fault.expired(); });
  const auto known = std::ranges::find(all.entries, &driver, &Faults::Entry::driver);
  if (known != all.entries.end()) {
    if (auto fault = known->fault.lock()) return fault;
  }
  auto fault = std::make_shared<Fault>(abi::success);
  all.entries.push_back({&driver, fault});
  return fault;
}

Context::~Context() {
  if (!process::may_release()) return;
  // A lost context may refuse, and there is nothing more to say of it.
  const auto end = [this](abi::Status status, const char* call) {
    if (!lost()) told(status, call);
  };
  if (ownership_ == Ownership::primary)
    end(driver.device_primary_ctx_release(device), "cuDevicePrimaryCtxRelease");
  if (ownership_ == Ownership::adopted) end(driver.ctx_destroy(handle), "cuCtxDestroy");
}

Result<void> Context::usable(const char* call) const noexcept {
  if (auto may = process::usable(backend); !may) return may;
  if (!lost()) [[likely]]
    return {};
  const abi::Status fault = fault_->load(std::memory_order_relaxed);
  return fail(error(driver, fault != abi::success ? fault : abi::context_is_destroyed, call)
                  .because(fault != abi::success ? "the driver met a fault before"
                                                 : "the context was destroyed before"));
}

Error Context::failure(abi::Status status, const char* call) const noexcept {
  const Error failed = error(driver, status, call);
  abi::Status working = abi::success;
  switch (damage(status)) {
    case Damage::none:
      break;
    case Damage::context:
      if (!gone_.exchange(true, std::memory_order_acq_rel)) report(failed);
      break;
    case Damage::process:
      if (fault_->compare_exchange_strong(working, status, std::memory_order_acq_rel)) report(failed);
      break;
  }
  return failed;
}

bool Context::told(abi::Status status, const char* call) const noexcept {
  if (status == abi::success) return true;
  const Error failed = failure(status, call);  // tells of a fault itself
  if (!sticky(status)) report(failed);
  return false;
}

bool Context::reaches(const Context& peer) const noexcept {
  if (device == peer.device) return true;
  const HoldReports held;
  const MutexLock lock(mutex_);
  std::erase_if(peers_, [](const Peer& gone) { return gone.identity.expired(); });
  const auto known =
      std::ranges::find(peers_, peer.identity_, [](const Peer& each) { return each.identity.lock(); });
  if (known != peers_.end()) return known->reached;
  int can = 0;
  if (!told(driver.device_can_access_peer(&can, device, peer.device), "cuDeviceCanAccessPeer")) return false;
  bool reached = false;
  if (can != 0) {
    const abi::Status enabled = driver.ctx_enable_peer_access(peer.handle, 0);
    reached = enabled == abi::success || enabled == abi::peer_access_already_enabled;
    const bool no_way = enabled == abi::peer_access_unsupported || enabled == abi::too_many_peers;
    if (!reached && !no_way) {
      told(enabled, "cuCtxEnablePeerAccess");
      return false;
    }
  }
  peers_.push_back({peer.identity_, reached});
  return reached;
}

// On the usual way no Result is made or copied.
Current::Current(const Context& context) noexcept : context_(context) {
  const Driver& driver = context.driver;
  abi::Context current = nullptr;
  if (const auto asked = driver.ctx_get_current(&current); asked != abi::success) [[unlikely]] {
    entered_ = context.check(asked, "cuCtxGetCurrent");
    return;
  }
  if (current == context.handle) return;
  const auto pushed = driver.ctx_push_current(context.handle);
  pushed_ = pushed == abi::success;
  if (!pushed_) [[unlikely]]
    entered_ = context.check(pushed, "cuCtxPushCurrent");
}

bool Current::entered_or_told() const noexcept {
  if (!entered_ && !sticky(entered_.error().status().value_or(abi::success))) report(entered_.error());
  return entered_.has_value();
}

Current::~Current() {
  abi::Context popped = nullptr;
  if (pushed_) context_.told(context_.driver.ctx_pop_current(&popped), "cuCtxPopCurrent");
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
