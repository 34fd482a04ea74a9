// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/identity.hpp>
#include <berth/core/result.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

/// What happens when memory runs out: idle memory of the device is given back, step by step, before a caller
/// sees the error.
namespace berth::inline BERTH_ABI::reclaim {

/// All of it.
inline constexpr std::uint64_t everything = std::numeric_limits<std::uint64_t>::max();

/// Something that holds idle memory of a device: a cache, a staging ring.
class BERTH_EXPORT Reclaimable {
 public:
  virtual ~Reclaimable();
  /// Gives back at least `nbytes` of idle memory, oldest first, or all there is; returns the bytes given
  /// back. Called on any thread, with no lock held.
  virtual std::uint64_t reclaim(std::uint64_t nbytes) noexcept = 0;

 protected:
  Reclaimable() = default;
  Reclaimable(const Reclaimable&) = default;
  Reclaimable& operator=(const Reclaimable&) = default;
};

/// What a holder's idle memory is for. Staging goes first: it is cheap to make again.
enum class Holds : std::uint8_t { staging, blocks };

/// Lets others find `holder` when memory of `device` runs out, for as long as it lives. Process-wide,
/// thread-safe.
BERTH_EXPORT void announce(const DeviceKey& device, const std::shared_ptr<Reclaimable>& holder,
                           Holds holds = Holds::blocks);

/// Reclaims `nbytes`, or what there is, from all that announced themselves for `device`, except one: staging
/// first, then blocks, each in the order in which they were announced.
BERTH_EXPORT std::uint64_t from_others(const DeviceKey& device, const Reclaimable* except,
                                       std::uint64_t nbytes) noexcept;

/// The runtime's own last resort: frees what it can and says whether to try again. Called with no lock held;
/// an allocation that it makes itself does not call it again on that thread.
using OutOfMemoryHook = std::function<bool(std::uint64_t nbytes)>;

/// The ladder that one allocation climbs on one thread. Only the outermost acts; an allocator below another's
/// ladder passes its error up.
class [[nodiscard]] BERTH_EXPORT Ladder {
 public:
  Ladder() noexcept;
  Ladder(const Ladder&) = delete;
  Ladder& operator=(const Ladder&) = delete;
  ~Ladder();

  [[nodiscard]] bool outermost() const noexcept { return outermost_; }
  /// Runs the hook; false when there is none or when this thread is inside it.
  [[nodiscard]] bool ask(const OutOfMemoryHook& hook, std::uint64_t nbytes) const;

 private:
  bool outermost_;
};

/// Tries `attempt`, which allocates `nbytes`, and while it is out of memory: reclaims from the device's other
/// holders, synchronizes, evicts the oldest of `self` until `nbytes` are free, tries again; evicts
/// everything, tries again; then asks the hook for as long as it says so. The last error is returned. Any
/// other error ends it at once: a size above the device's maximum evicts nothing.
template <class Attempt, class Synchronize>
[[nodiscard]] auto allocate(std::uint64_t nbytes, const DeviceKey& device, Reclaimable& self,
                            const OutOfMemoryHook& hook, Attempt&& attempt, Synchronize&& synchronize)
    -> decltype(attempt()) {
  const Ladder ladder;
  auto buf = attempt();
  const auto failed = [&] { return !buf && buf.error().code() == Errc::out_of_memory; };
  if (!failed() || !ladder.outermost()) return buf;

  const std::uint64_t others = from_others(device, &self, nbytes);
  if (auto idle = synchronize(); !idle) return fail(idle.error());
  if (others < nbytes) self.reclaim(nbytes - others);
  buf = attempt();
  if (!failed()) return buf;

  from_others(device, &self, everything);
  self.reclaim(everything);
  buf = attempt();
  while (failed() && ladder.ask(hook, nbytes)) buf = attempt();
  return buf;
}

}  // namespace berth::inline BERTH_ABI::reclaim
