// SPDX-License-Identifier: MIT
// Host access to a range for a scope. Where a device has the memory in place the range is mapped meanwhile;
// that is the only form that every driver honours.
#include <berth/core/diagnostics.hpp>
#include <berth/vector/core.hpp>

#include <algorithm>
#include <functional>
#include <utility>

namespace berth::inline BERTH_ABI::detail {
namespace {

bool meet(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) noexcept {
  const std::less<const std::byte*> before;
  return a_bytes != 0 && b_bytes != 0 && before(a, b + b_bytes) && before(b, a + a_bytes);
}

}  // namespace

Result<void> VectorCore::check_unmapped(ByteRange range, const char* call) const {
  for (const VectorCore* const member : *family_) {
    for (const Access& live : member->accesses_) {
      if (!meet(memory_.data + range.byte_offset, range.nbytes, member->memory_.data + live.range.byte_offset,
                live.range.nbytes)) {
        continue;
      }
      return fail(Error(Errc::mapped, "host")
                      .in(call)
                      .asking(range.nbytes)
                      .at(live.range.byte_offset)
                      .because("the host has access to bytes of it"));
    }
  }
  return {};
}

Result<VectorCore::Access*> VectorCore::open(berth::Access how, ByteRange range) {
  constexpr const char* call = "HostAccess";
  const bool reads = how == berth::Access::read;
  if (auto usable = reads ? check_host(call) : check_writable(call); !usable) return fail(usable.error());
  if (auto inside = check_range(range, call); !inside) return fail(inside.error());
  const auto same = std::ranges::find_if(accesses_, [&](const Access& live) {
    return reads && live.how == how && live.range.nbytes == range.nbytes &&
           live.range.byte_offset == range.byte_offset;
  });
  if (same != accesses_.end() && shows_newest(*same)) {
    ++same->references;
    return &*same;
  }
  if (range.nbytes == 0) return &accesses_.emplace_back(Access{how, range, 1, Mapping(), nullptr});
  if (auto free = check_unmapped(range, call); !free) return fail(free.error());
  if (auto home = others_home(how); !home) return fail(home.error());

  // Read-only memory needs no map, and a driver that copies at one would write to it.
  const auto linked = std::ranges::find_if(copies_, [&](const auto& copy) {
    return copy->in_place() && copy->info().kind != device::LinkKind::same && memory_.writable;
  });
  const bool replaced = how == berth::Access::overwrite && whole(range);
  Access access{how, range, 1, Mapping(), nullptr};
  if (linked == copies_.end()) {
    if (!replaced) {
      if (auto home = come_home(how); !home) return fail(home.error());
    }
    if (!reads) {
      if (auto idle = wait_in_place(all()); !idle) return fail(idle.error());
      host_wrote();
    }
    return &accesses_.emplace_back(std::move(access));
  }

  Copy& copy = **linked;
  if (copy.announced != 0) {
    return fail(
        Error(Errc::invalid_argument, "host")
            .in(call)
            .asking(range.nbytes)
            .because("a launch is announced and not done, whose kernels would find the range mapped"));
  }
  if (const Copy* const newer = newer_than_host(); newer != nullptr && newer != &copy && !replaced) {
    if (auto home = come_home(how); !home) return fail(home.error());
  }
  if (!current_on(copy.device) && !replaced) {
    // A map may copy from the device: what the host wrote goes there first, and all of it has been written.
    if (auto free = check_unmapped(all(), call); !free) return fail(free.error());
    if (auto published = upload(copy, all()); !published) return fail(published.error());
    location_ = {Location::State::both, copy.device};
  } else {
    const Ended ended = copy.wait();
    if (!ended.launches) {
      if (!replaced) return fail(ended.launches.error());
      report(ended.launches.error());
    }
    if (!ended.idle) return fail(ended.idle.error());
  }
  if (auto idle = wait_in_place(range); !idle) return fail(idle.error());
  unprotect();
  auto mapping = copy.link->map(how, range.nbytes, range.byte_offset);
  if (!mapping) {
    protect_if_owned();
    return fail(mapping.error());
  }
  if (whole(range)) location_ = {Location::State::both, copy.device};
  if (reads) {
    outdate_others();  // a map may bring what nobody announced
  } else {
    wrote(std::nullopt);
  }
  access.mapping = std::move(*mapping);
  access.device = &copy.device;
  return &accesses_.emplace_back(std::move(access));
}

// Whether nothing newer than what the access shows is on another device, or a relative's.
bool VectorCore::shows_newest(const Access& access) const noexcept {
  if (location_.device_is_newest() && (access.device == nullptr || !location_.names(*access.device)))
    return false;
  return std::ranges::none_of(*family_, [&](const VectorCore* other) {
    return other != this && other->location_.device_is_newest() &&
           meet(memory_.data + access.range.byte_offset, access.range.nbytes, other->memory_.data,
                other->nbytes());
  });
}

// The bytes at or behind `first` that no access has, up to the next that one has.
ByteRange VectorCore::next_unmapped(std::size_t first) const noexcept {
  std::size_t last = nbytes();
  for (bool moved = true; moved;) {
    moved = false;
    last = nbytes();
    for (const VectorCore* const member : *family_) {
      for (const Access& live : member->accesses_) {
        const ByteRange taken = shared_with(*member, live.range);
        if (taken.nbytes == 0 || taken.byte_offset + taken.nbytes <= first) continue;
        if (taken.byte_offset <= first) {
          first = taken.byte_offset + taken.nbytes;
          moved = true;
        } else {
          last = std::min(last, taken.byte_offset);
        }
      }
    }
  }
  return {last - first, first};
}

// What the host wrote may be here only. What the device alone has comes home beside it, but for what other
// accesses hold, which is here; failing that too, the device counts, which has all other bytes.
void VectorCore::keep_written(const Access& access) noexcept {
  if (location_.device_is_newest()) {
    for (ByteRange part = next_unmapped(0); part.nbytes != 0;
         part = next_unmapped(part.byte_offset + part.nbytes)) {
      if (!download(*newest(), part)) return;
    }
  }
  location_ = {Location::State::stale_gpu, *access.device};
}

Result<void> VectorCore::close(Access* access) noexcept {
  if (--access->references != 0) return {};
  auto ended = access->mapping.unmap();
  if (access->device != nullptr) {
    const auto idle = access->device->allocator().synchronize();
    if (ended) ended = idle;
    if (!ended && access->how != berth::Access::read) keep_written(*access);
  }
  accesses_.remove_if([&](const Access& live) { return &live == access; });
  for (VectorCore* const member : *family_) member->protect_if_owned();
  return ended;
}

}  // namespace berth::inline BERTH_ABI::detail
