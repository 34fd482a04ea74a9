// SPDX-License-Identifier: MIT
#include <berth/vector/auto_sync.hpp>

#include <atomic>

namespace berth::inline BERTH_ABI {
namespace {

constinit std::atomic<bool> on_everywhere{true};

}  // namespace

void set_auto_sync(bool on) noexcept { on_everywhere.store(on, std::memory_order_relaxed); }
bool auto_sync() noexcept { return on_everywhere.load(std::memory_order_relaxed); }

}  // namespace berth::inline BERTH_ABI
