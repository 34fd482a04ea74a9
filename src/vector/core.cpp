// SPDX-License-Identifier: MIT
#include <berth/core/copy.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/core/process.hpp>
#include <berth/vector/auto_sync.hpp>
#include <berth/vector/core.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

namespace berth::inline BERTH_ABI::detail {
namespace {

std::uint64_t next_vector_id() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void tell(const Result<void>& result) noexcept {
  if (!result) report(result.error());
}

}  // namespace

VectorCore::VectorCore(VectorStorage storage, HostMemory memory, std::shared_ptr<Family> family)
    : id_(next_vector_id()), storage_(storage), memory_(std::move(memory)), family_(std::move(family)) {
  family_->push_back(this);
}

std::shared_ptr<VectorCore> VectorCore::make(VectorStorage storage, HostMemory memory) {
  return std::shared_ptr<VectorCore>(new VectorCore(storage, std::move(memory), std::make_shared<Family>()));
}

VectorCore::~VectorCore() {
  std::erase(*family_, this);
  // Others of the family have the host memory without owning it by themselves.
  const bool outlived = memory_.outlives_this() || !family_->empty();
  if (process::may_release() && storage_ != VectorStorage::device_only && location_.device_is_newest() &&
      outlived) {
    tell(download(*newest(), all()));  // although a relative may be reading
  }
  unprotect();
  if (!process::may_release()) return;
  for (const auto& copy : copies_) tell(release_copy(*copy));
}

VectorCore::Copy* VectorCore::find(const device::Device& device) const noexcept {
  const auto found = std::ranges::find_if(copies_, [&](const auto& copy) { return copy->device == device; });
  return found != copies_.end() ? found->get() : nullptr;
}

VectorCore::Copy* VectorCore::newest() const noexcept {
  return location_.device ? find(*location_.device) : nullptr;
}

VectorCore::Copy* VectorCore::pending() const noexcept {
  Copy* const copy = writer_ ? find(*writer_) : nullptr;
  return copy != nullptr && copy->writing != 0 ? copy : nullptr;
}

VectorCore::Copy* VectorCore::newer_than_host() const noexcept {
  if (Copy* const copy = pending()) return copy;
  return location_.device_is_newest() ? newest() : nullptr;
}

Result<VectorCore::Copy*> VectorCore::ensure(const device::Device& device) {
  if (Copy* const copy = find(device)) return copy;
  auto own = Buffer::create(device.allocator(), memory_.nbytes);
  if (!own) return fail(own.error());
  auto copy = std::make_unique<Copy>(device, ++last_copy_);
  copy->own = std::move(*own);
  copies_.push_back(std::move(copy));
  return copies_.back().get();
}

void VectorCore::forget_since(std::size_t count) noexcept {
  for (; copies_.size() > count; copies_.pop_back()) tell(release_copy(*copies_.back()));
}

void VectorCore::restore(const Location& location) noexcept {
  location_ = location;
  protect_if_owned();
}

void VectorCore::adopt(const device::Device& device, std::shared_ptr<device::Framework> framework,
                       std::unique_ptr<device::HostLink> link, bool protect) {
  auto copy = std::make_unique<Copy>(device, ++last_copy_);
  copy->framework = std::move(framework);
  copy->link = std::move(link);
  copy->protect = protect;
  copies_.push_back(std::move(copy));
  location_ = {Location::State::both, device};
}

Buffer* VectorCore::buffer(const device::Device& device) noexcept {
  Copy* const copy = find(device);
  return copy != nullptr ? &copy->buffer() : nullptr;
}

std::optional<device::LinkInfo> VectorCore::link(const device::Device& device) const noexcept {
  const Copy* const copy = find(device);
  return copy != nullptr ? std::optional(copy->info()) : std::nullopt;
}

bool VectorCore::current_on(const device::Device& device) const noexcept {
  return location_.names(device) && location_.state != Location::State::stale_gpu;
}

Result<std::shared_ptr<VectorCore>> VectorCore::part(ByteRange range) {
  if (auto host = check_host("sub_vector"); !host) return fail(host.error());
  if (auto inside = check_range(range, "sub_vector"); !inside) return fail(inside.error());
  HostMemory memory = memory_;
  memory.data += range.byte_offset;
  memory.nbytes = range.nbytes;
  memory.block_bytes = range.nbytes;
  return std::shared_ptr<VectorCore>(new VectorCore(storage_, std::move(memory), family_));
}

Result<void> VectorCore::to_device(const device::Device& device) {
  if (auto usable = check_process(); !usable) return usable;
  if (storage_ == VectorStorage::device_only) return move_between_devices(device);
  if (auto free = check_unmapped(all(), "to_device"); !free) return free;
  if (auto home = others_home(berth::Access::write); !home) return home;
  const Copy* const newer = newer_than_host();
  if (newer == nullptr ? current_on(device) : newer->device == device) {
    if (!location_.device_is_newest()) location_ = {Location::State::both, device};
    return {};
  }
  if (auto home = come_home(berth::Access::write); !home) return home;
  const std::size_t had = copies_.size();
  const auto copy = ensure(device);
  if (!copy) return fail(copy.error());
  if (auto moved = upload(**copy, all()); !moved) {
    forget_since(had);
    return moved;
  }
  location_ = {Location::State::both, device};
  return {};
}

Result<void> VectorCore::move_between_devices(const device::Device& device) {
  Copy* const source = newer_than_host();
  if (source != nullptr && source->device == device) {
    location_ = {Location::State::gpu, device};
    return {};
  }
  const std::size_t had = copies_.size();
  const auto copy = ensure(device);
  if (!copy) return fail(copy.error());
  if (source != nullptr && nbytes() != 0) {
    auto moved = source->wait().both();
    if (moved) {
      const Ended replaced = (*copy)->wait();
      tell(replaced.launches);  // nobody will read their results
      moved = replaced.idle;
    }
    if (moved) {
      if (auto copied = berth::copy((*copy)->own, source->own); !copied) moved = fail(copied.error());
    }
    if (moved) moved = device.allocator().synchronize();
    if (!moved) {
      forget_since(had);
      return moved;
    }
  }
  location_ = {Location::State::gpu, device};
  return {};
}

Result<void> VectorCore::to_host(bool force) {
  if (auto host = check_host("to_host"); !host) return host;
  if (auto home = others_home(berth::Access::write); !home) return home;
  if (newer_than_host() != nullptr) return come_home(berth::Access::write);
  if (!force || location_.state != Location::State::both) return {};
  if (auto free = check_unmapped(all(), "to_host"); !free) return free;
  if (auto home = download(*newest(), all()); !home) return home;
  wrote(location_.device);
  return {};
}

Result<void> VectorCore::sync() {
  if (location_.state != Location::State::stale_gpu || !location_.device) return to_host(false);
  return to_device(device::Device(*location_.device));
}

Result<void> VectorCore::bring_home() {
  if (auto free = check_unmapped(all(), "attach"); !free) return free;
  return to_host(false);
}

Result<void> VectorCore::free_buffer(const device::Device& device) {
  if (auto usable = check_process(); !usable) return usable;
  if (auto free = check_unmapped(all(), "free_buffer"); !free) return free;
  Copy* const copy = find(device);
  if (copy == nullptr) return {};
  const bool named = location_.names(device);
  if ((named && location_.device_is_newest()) || newer_than_host() == copy) {
    if (auto home = to_host(false); !home) return home;
  }
  unprotect();
  tell(release_copy(*copy));
  std::erase_if(copies_, [&](const auto& other) { return other.get() == copy; });
  if (named) location_ = {};
  return {};
}

Result<void> VectorCore::free_all_buffers() {
  if (auto usable = check_process(); !usable) return usable;
  if (auto free = check_unmapped(all(), "free_all_buffers"); !free) return free;
  if (newer_than_host() != nullptr) {
    if (auto home = to_host(false); !home) return home;
  }
  unprotect();
  for (const auto& copy : copies_) tell(release_copy(*copy));
  copies_.clear();
  location_ = {};
  return {};
}

// The allocator orders a free behind its own queue alone.
Result<void> VectorCore::release_copy(Copy& copy) {
  Result<void> launched;
  Result<void> idle;
  if (nbytes() != 0) {  // nothing uses an empty one
    if (!copy.launches.empty()) launched = copy.wait().both();
    idle = copy.in_place() ? copy.device.synchronize() : copy.device.synchronize_registered();
  }
  copy.link.reset();
  copy.own = Buffer();
  if (writer_ == copy.device) writer_.reset();
  return launched ? idle : launched;
}

Result<void> VectorCore::before_read() {
  if (auto host = check_host("read"); !host) return host;
  if (auto home = others_home(berth::Access::read); !home) return home;
  return auto_sync_ && berth::auto_sync() ? come_home(berth::Access::read) : Result<void>();
}

Result<void> VectorCore::before_write() {
  if (auto writable = check_writable("write"); !writable) return writable;
  if (auto free = check_unmapped(all(), "write"); !free) return free;
  if (auto home = others_home(berth::Access::write); !home) return home;
  if (auto home = come_home(berth::Access::write); !home) return home;
  if (auto idle = wait_in_place(all()); !idle) return idle;
  host_wrote();
  return {};
}

Result<void> VectorCore::before_overwrite() {
  if (auto writable = check_writable("fill"); !writable) return writable;
  if (auto free = check_unmapped(all(), "fill"); !free) return free;
  if (auto rules = host_rules(all()); !rules) return rules;
  host_wrote();
  return {};
}

void VectorCore::host_wrote() {
  unprotect();
  if (location_.state != Location::State::cpu) location_.state = Location::State::stale_gpu;
  wrote(std::nullopt);
}

Result<void> VectorCore::check_process() { return process::not_forked("host"); }

Result<void> VectorCore::check_host(const char* call) const {
  if (auto usable = check_process(); !usable) return usable;
  if (storage_ != VectorStorage::device_only) return {};
  return fail(Error(Errc::unsupported, "host")
                  .in(call)
                  .asking(nbytes())
                  .because("the vector has no storage on the host"));
}

Result<void> VectorCore::check_writable(const char* call) const {
  if (auto host = check_host(call); !host) return host;
  if (memory_.writable) return {};
  return fail(
      Error(Errc::invalid_argument, "host").in(call).asking(nbytes()).because("the array is read-only"));
}

Result<void> VectorCore::check_range(ByteRange range, const char* call) const {
  return checks::range(range.nbytes, range.byte_offset, nbytes(), "host", call);
}

}  // namespace berth::inline BERTH_ABI::detail
