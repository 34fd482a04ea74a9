// SPDX-License-Identifier: MIT
#include "context.hpp"

#include <berth/core/diagnostics.hpp>

#include <algorithm>

namespace berth::inline BERTH_ABI::cuda::detail {

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
  return fail(
      error(driver, lost_.load(std::memory_order_relaxed), call).because("the context failed before"));
}

Error Context::failure(abi::Status status, const char* call) const noexcept {
  const Error failed = error(driver, status, call);
  abi::Status working = abi::success;
  if (sticky(status) && lost_.compare_exchange_strong(working, status, std::memory_order_acq_rel)) {
    report(failed);
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
  const MutexLock lock(mutex_);
  if (const auto known = std::ranges::find(peers_, peer.handle, &Peer::context); known != peers_.end()) {
    return known->reached;
  }
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
  peers_.push_back({peer.handle, reached});
  return reached;
}

Current::Current(const Context& context) noexcept : context_(context) {
  const Driver& driver = context.driver;
  abi::Context current = nullptr;
  entered_ = context.check(driver.ctx_get_current(&current), "cuCtxGetCurrent");
  if (!entered_ || current == context.handle) return;
  entered_ = context.check(driver.ctx_push_current(context.handle), "cuCtxPushCurrent");
  pushed_ = entered_.has_value();
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
