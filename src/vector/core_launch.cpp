// SPDX-License-Identifier: MIT
#include <berth/vector/core.hpp>

#include <algorithm>

namespace berth::inline BERTH_ABI::detail {

Result<void> VectorCore::check_launch(LaunchUse use) const {
  if (auto usable = check_process(); !usable) return usable;
  if (use != LaunchUse::in && storage_ != VectorStorage::device_only) {
    if (auto writable = check_writable("launching"); !writable) return writable;
  }
  return check_unmapped(all(), "launching");
}

Result<bool> VectorCore::prepare_launch(const device::Device& device, LaunchUse use) {
  if (use != LaunchUse::out || storage_ == VectorStorage::device_only) {
    if (auto there = to_device(device); !there) return fail(there.error());
    return false;
  }
  // Nothing of it will be read, so nothing is uploaded; what another device has newest is kept until the
  // launch counts as run.
  if (auto home = others_home(berth::Access::write); !home) return fail(home.error());
  if (const Copy* const newer = newer_than_host(); newer != nullptr && newer->device != device) {
    if (auto home = come_home(berth::Access::write); !home) return fail(home.error());
  }
  const std::size_t had = copies_.size();
  if (auto copy = ensure(device); !copy) return fail(copy.error());
  return copies_.size() != had;
}

void VectorCore::unprepare_launch(const device::Device& device) noexcept {
  if (!copies_.empty() && copies_.back()->device == device) forget_since(copies_.size() - 1);
}

VectorCore::Announced VectorCore::mark_launched(const device::Device& device, LaunchUse use) {
  Copy& copy = *find(device);
  ++copy.announced;
  if (use != LaunchUse::in) ++copy.writing;
  const Announced announced{copy.id, ++copy.last_launch};
  if (use == LaunchUse::out) {  // nobody will read what earlier ones wrote
    copy.last_out = announced.number;
    for (Launched& earlier : copy.launches) earlier.writes = false;
  }
  mark(copy, use);
  return announced;
}

void VectorCore::mark(Copy& copy, LaunchUse use) {
  copy.busy = true;
  if (use == LaunchUse::in) return;
  const bool alone = use == LaunchUse::out || storage_ == VectorStorage::device_only ||
                     (location_.names(copy.device) && location_.state == Location::State::gpu);
  if (copy.info().kind == device::LinkKind::same) {
    // One memory, of which the host must not read before work that runs elsewhere has ended.
    const bool ended = copy.launches.empty() && copy.device.queues().empty();
    location_ = {ended ? Location::State::both : Location::State::stale_cpu, copy.device};
  } else {
    location_ = {alone ? Location::State::gpu : Location::State::stale_cpu, copy.device};
  }
  wrote(copy.device);
  protect_if_owned();
}

// What read or moved the vector since the announcement came before the kernels, and does not count. A newer
// version does, be it the host's, another device's or another launch's.
void VectorCore::mark_done(const device::Device& device, LaunchUse use, const Announced& announced) {
  Copy* const copy = find(device);
  if (copy == nullptr) return;  // freed since the launch was announced
  if (copy->id == announced.copy) {
    --copy->announced;
    if (use != LaunchUse::in) --copy->writing;
  }
  const bool counts = writer_ == device || (current_on(device) && !pending_elsewhere(*copy));
  mark(*copy, counts ? use : LaunchUse::in);
}

bool VectorCore::pending_elsewhere(const Copy& copy) const noexcept {
  return std::ranges::any_of(*family_, [&](const VectorCore* member) {
    const Copy* const other = member->pending();
    return other != nullptr && other != &copy && (member == this || overlaps(*member));
  });
}

void VectorCore::add_launch(const device::Device& device, LaunchUse use, const Announced& announced,
                            const Event& event) {
  Copy* const copy = find(device);
  if (copy == nullptr || !event) return;
  // What has ended well needs no waiting for.
  std::erase_if(copy->launches,
                [](const Launched& earlier) { return earlier.event.complete().value_or(false); });
  const bool replaced = copy->id != announced.copy || announced.number < copy->last_out;
  copy->launches.push_back({event, use != LaunchUse::in && !replaced});
}

}  // namespace berth::inline BERTH_ABI::detail
