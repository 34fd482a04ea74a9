// SPDX-License-Identifier: MIT
// The bytes that move between the host memory and a device, and the pages that are protected meanwhile.
#include <berth/core/diagnostics.hpp>
#include <berth/vector/core.hpp>

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace berth::inline BERTH_ABI::detail {
namespace {

// Moves a part of a buffer that is a copy.
template <class Move>
Result<void> with_part(Buffer& buffer, ByteRange range, Move move) {
  PackedAllocator allocator = buffer.allocator();
  if (range.nbytes == buffer.nbytes()) return move(allocator, buffer.handle());
  const auto part = allocator.offset(buffer.handle(), range.nbytes, range.byte_offset);
  if (!part) return fail(part.error());
  return move(allocator, *part);
}

}  // namespace

VectorCore::Ended VectorCore::Copy::wait() {
  Ended ended;
  Result<void> running;
  const auto tell = [&](const Launched& launched, const Error& error) {
    if (launched.writes && ended.launches) {
      ended.launches = fail(error);
    } else {
      report(error);
    }
  };
  std::erase_if(launches, [&](const Launched& launched) {
    const auto waited = launched.event.wait();
    if (waited) return true;
    if (waited.error().code() == Errc::unsupported) {  // its backend orders queues only
      if (auto ordered = device.allocator().wait(launched.event); !ordered) tell(launched, ordered.error());
      return true;
    }
    // A failed command tells more by its own status than by a wait for it; of one that has not ended the wait
    // itself failed, and the next one waits again.
    const auto complete = launched.event.complete();
    const bool ran = complete ? *complete : complete.error().code() != Errc::unsupported;
    if (!ran) {
      if (running) running = waited;
      return false;
    }
    tell(launched, complete ? waited.error() : complete.error());
    return true;
  });
  ended.idle = device.synchronize();
  if (ended.idle) ended.idle = running;
  if (ended.idle && announced == 0) busy = false;
  return ended;
}

std::span<std::byte> VectorCore::host(ByteRange range) const noexcept {
  return {memory_.data + range.byte_offset, range.nbytes};
}

Result<void> VectorCore::upload(Copy& copy, ByteRange range) {
  if (range.nbytes == 0) return {};
  const Ended ended = copy.wait();
  if (!ended.launches) {
    if (!whole(range)) return ended.launches;
    report(ended.launches.error());  // all that it wrote is replaced
  }
  if (!ended.idle) return ended.idle;
  unprotect();
  if (copy.link) return copy.link->publish(range.nbytes, range.byte_offset);
  if (auto moved = with_part(copy.own, range,
                             [&](PackedAllocator& allocator, const PackedBuffer& part) {
                               return allocator.copyin(part, host(range));
                             });
      !moved) {
    return moved;
  }
  return copy.device.queues().empty() ? Result<void>() : copy.device.allocator().synchronize();
}

Result<void> VectorCore::download(Copy& copy, ByteRange range) {
  if (range.nbytes == 0) return {};
  if (auto ended = copy.wait().both(); !ended) return ended;
  if (auto idle = wait_in_place(range); !idle) return idle;  // others that read the host's bytes
  unprotect();
  // No device writes to a read-only array, and a driver that copies at a map would.
  if (!memory_.writable) return {};
  auto moved = copy.link
                   ? copy.link->acquire(range.nbytes, range.byte_offset)
                   : with_part(copy.own, range, [&](PackedAllocator& allocator, const PackedBuffer& part) {
                       return allocator.copyout(host(range), part);
                     });
  if (!moved) protect_if_owned();
  return moved;
}

Result<void> VectorCore::come_home(berth::Access how) {
  Copy* const newer = newer_than_host();
  if (newer == nullptr) return {};
  if (auto free = check_unmapped(all(), "to_host"); !free) {
    return how == berth::Access::read && !location_.device_is_newest() ? Result<void>() : free;
  }
  if (auto home = download(*newer, all()); !home) return home;
  outdate_others();  // what moved on since the announcement lacks what the kernels wrote
  if (location_.device_is_newest()) {
    location_.state = Location::State::both;
  } else if (location_.state == Location::State::both && !location_.names(newer->device)) {
    location_.state = Location::State::stale_gpu;
  }
  return {};
}

Result<void> VectorCore::publish(const device::Device& device, ByteRange range) {
  if (auto host = check_host("publish"); !host) return host;
  if (auto inside = check_range(range, "publish"); !inside) return inside;
  if (auto free = check_unmapped(range, "publish"); !free) return free;
  if (range.nbytes == 0 && nbytes() != 0) return {};
  // Where the device lacks the other bytes it gets all of them; what is newest elsewhere comes home first.
  Copy* const newer = newer_than_host();
  const bool newer_elsewhere = newer != nullptr && newer->device != device;
  const bool lacks_others = newer_elsewhere || !location_.names(device) || find(device) == nullptr;
  // After a launch that is not done, too, the other bytes come home: its results end here.
  const bool keeps_others = lacks_others || pending() != nullptr;
  if (keeps_others) {
    if (auto free = check_unmapped(all(), "publish"); !free) return free;
  }
  if (auto rules = host_rules(range); !rules) return rules;
  if (keeps_others && newer != nullptr && !whole(range)) {
    if (auto kept = download_outside(*newer, range); !kept) return kept;
    if (location_.device_is_newest()) location_.state = Location::State::both;
  }
  if (lacks_others) range = all();
  const bool equal_then = whole(range) || location_.state == Location::State::both;
  if (equal_then) host_wrote();  // also when the bytes do not get there
  const std::size_t had = copies_.size();
  const auto copy = ensure(device);
  if (!copy) return fail(copy.error());
  if (auto moved = upload(**copy, range); !moved) {
    forget_since(had);
    return moved;
  }
  if (equal_then) location_ = {Location::State::both, device};
  protect_if_owned();
  wrote(std::nullopt);
  return {};
}

Result<void> VectorCore::acquire(const device::Device& device, ByteRange range) {
  if (auto host = check_host("acquire"); !host) return host;
  if (auto inside = check_range(range, "acquire"); !inside) return inside;
  // A map would throw away what the host wrote since.
  if (!current_on(device)) return {};
  if (range.nbytes == 0 && nbytes() != 0) return {};
  Copy& copy = *find(device);
  Copy* const newer = newer_than_host();
  const bool newer_elsewhere = newer != nullptr && newer != &copy && !whole(range);
  if (auto free = check_unmapped(newer_elsewhere ? all() : range, "acquire"); !free) return free;
  if (auto home = others_home(berth::Access::write); !home) return home;
  if (newer_elsewhere) {
    if (auto kept = download_outside(*newer, range); !kept) return kept;
  }
  if (auto home = download(copy, range); !home) return home;
  if (whole(range)) {
    location_.state = Location::State::both;
  } else if (newer_elsewhere) {
    location_.state = Location::State::stale_gpu;
  }
  wrote(current_on(device) ? std::optional(device) : std::nullopt);
  return {};
}

void VectorCore::protect(const Copy& copy) noexcept {
  if (!copy.protect || protected_) return;
  protected_ = ::mprotect(memory_.data, memory_.block_bytes, PROT_NONE) == 0;
  if (!protected_) report(Error(Errc::driver, "host").in("mprotect").with_status(errno).asking(nbytes()));
}

void VectorCore::unprotect() noexcept {
  if (!std::exchange(protected_, false)) return;
  if (::mprotect(memory_.data, memory_.block_bytes, PROT_READ | PROT_WRITE) != 0) {
    report(Error(Errc::driver, "host").in("mprotect").with_status(errno).asking(nbytes()));
  }
}

void VectorCore::protect_if_owned() noexcept {
  if (location_.device_is_newest() && check_unmapped(all(), "protect")) protect(*newest());
}

}  // namespace berth::inline BERTH_ABI::detail
