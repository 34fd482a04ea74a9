// SPDX-License-Identifier: MIT
#include <berth/core/host_range.hpp>

#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>

#include <cstdint>
#include <map>

namespace berth::inline BERTH_ABI {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::uintptr_t, std::size_t> ranges BERTH_GUARDED_BY(mutex);  // begin -> nbytes, disjoint
};

// Never destroyed: claims may be given up until the very end of the process.
Registry& registry() noexcept {
  static Registry* const leaked = new Registry;
  return *leaked;
}

}  // namespace

Result<HostRange> HostRange::claim(std::span<const std::byte> bytes, const char* backend) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const Error error = Error(Errc::invalid_argument, backend).in("claim").asking(bytes.size()).at(begin);
  if (bytes.empty() || bytes.data() == nullptr)
    return fail(Error(error).because("the range is empty or null"));
  if (bytes.size() > UINTPTR_MAX - begin) return fail(Error(error).because("the range wraps around"));

  Registry& live = registry();
  const MutexLock lock(live.mutex);
  const auto overlap = [&](auto other) {
    return fail(Error(Errc::overlap, backend)
                    .in("claim")
                    .asking(bytes.size())
                    .at(other->first)
                    .limited_to(other->second));
  };
  const auto next = live.ranges.lower_bound(begin);
  if (next != live.ranges.end() && next->first < begin + bytes.size()) return overlap(next);
  if (next != live.ranges.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second > begin) return overlap(before);
  }
  live.ranges.emplace_hint(next, begin, bytes.size());
  return HostRange(bytes.data());
}

void HostRange::give_up() noexcept {
  if (process::forked()) return;
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  live.ranges.erase(reinterpret_cast<std::uintptr_t>(begin_));
}

}  // namespace berth::inline BERTH_ABI
