// SPDX-License-Identifier: MIT
// A vector and its sub-vectors over the same host memory. What one of them has newest on a device is the only
// valid version of its bytes: it comes home before another is used, and what the others hold is old from then
// on.
#include <berth/core/diagnostics.hpp>
#include <berth/vector/core.hpp>

#include <algorithm>
#include <functional>

namespace berth::inline BERTH_ABI::detail {

bool VectorCore::overlaps(const VectorCore& other) const noexcept {
  if (storage_ == VectorStorage::device_only || other.storage_ == VectorStorage::device_only)
    return this == &other;
  if (nbytes() == 0 || other.nbytes() == 0) return false;
  const std::less<const std::byte*> before;
  return before(memory_.data, other.memory_.data + other.memory_.nbytes) &&
         before(other.memory_.data, memory_.data + memory_.nbytes);
}

ByteRange VectorCore::shared_with(const VectorCore& other, ByteRange range) const noexcept {
  const std::ptrdiff_t begin = other.memory_.data + range.byte_offset - memory_.data;
  const auto end = begin + static_cast<std::ptrdiff_t>(range.nbytes);
  const auto size = static_cast<std::ptrdiff_t>(nbytes());
  const auto first = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(begin, 0, size));
  const auto last = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(end, 0, size));
  return {last - first, first};
}

Result<void> VectorCore::others_home(berth::Access how) {
  for (VectorCore* const other : *family_) {
    if (other == this || !overlaps(*other)) continue;
    if (auto home = other->come_home(how); !home) return home;
  }
  return {};
}

void VectorCore::outdate_others() noexcept {
  for (VectorCore* const other : *family_) {
    if (other == this || other->location_.state == Location::State::cpu || !overlaps(*other)) continue;
    other->location_.state = Location::State::stale_gpu;
  }
}

void VectorCore::wrote(const std::optional<device::Device>& writer) noexcept {
  for (VectorCore* const other : *family_) {
    if (other != this && overlaps(*other)) other->writer_.reset();
  }
  writer_ = writer;
  outdate_others();
}

// The host's bytes in the range count, whatever a device holds; all others survive.
Result<void> VectorCore::host_rules(ByteRange range) {
  std::vector<VectorCore*> ended;
  for (VectorCore* const other : *family_) {
    Copy* const newer = other->newer_than_host();
    if (other == this || newer == nullptr || !overlaps(*other)) continue;
    if (auto free = other->check_unmapped(other->all(), "publish"); !free) return free;
    if (auto kept = other->download_outside(*newer, other->shared_with(*this, range)); !kept) return kept;
    ended.push_back(other);
  }
  if (auto idle = wait_in_place(range); !idle) return idle;
  for (VectorCore* const other : ended) {
    other->outdate_others();
    other->unprotect();  // the host writes there next
    if (other->location_.state != Location::State::cpu) other->location_.state = Location::State::stale_gpu;
    other->writer_.reset();
  }
  return {};
}

// Two parts at most, before and behind the range.
Result<void> VectorCore::download_outside(Copy& source, ByteRange range) {
  const std::size_t end = range.byte_offset + range.nbytes;
  for (const ByteRange part : {ByteRange{range.byte_offset, 0}, ByteRange{nbytes() - end, end}}) {
    if (auto home = download(source, part); !home) return home;
  }
  return {};
}

// Work that reads or writes the host memory itself must have ended before the host writes there. What it left
// in the range is replaced.
Result<void> VectorCore::wait_in_place(ByteRange range) {
  for (const VectorCore* const member : *family_) {
    if (member != this && !overlaps(*member)) continue;
    for (const auto& copy : member->copies_) {
      if (!copy->in_place() || !copy->busy) continue;
      const Ended ended = copy->wait();
      if (!ended.launches) {
        const bool counts = member == this && location_.device_is_newest() && location_.names(copy->device);
        if (counts && !whole(range)) return ended.launches;
        report(ended.launches.error());  // nobody will read its results
      }
      if (!ended.idle) return ended.idle;
    }
  }
  return {};
}

}  // namespace berth::inline BERTH_ABI::detail
