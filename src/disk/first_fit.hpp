// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace berth::inline BERTH_ABI::disk::detail {

/// Which bytes of a growing space are taken: the lowest free run that is large enough is taken first, and
/// free neighbours become one. Only `take` allocates host memory. O(runs) to take, O(log runs) to give back.
/// Not thread-safe.
class FirstFit {
 public:
  struct Taken {
    std::uint64_t first;
    bool fresh;  ///< no byte of it was ever taken before
  };

  /// `nbytes`, more than 0, within the first `limit`; nothing when they do not fit.
  [[nodiscard]] std::optional<Taken> take(std::uint64_t nbytes, std::uint64_t limit) {
    for (auto run = runs_.begin(); run != runs_.end(); ++run) {
      if (!run->second.free || run->second.nbytes < nbytes) continue;
      const std::uint64_t first = run->first;
      if (run->second.nbytes > nbytes) {
        runs_.emplace_hint(std::next(run), first + nbytes, Run{run->second.nbytes - nbytes, true});
      }
      run->second = {nbytes, false};
      live_ += nbytes;
      return Taken{first, false};
    }
    if (end_ > limit || nbytes > limit - end_) return std::nullopt;
    const Taken taken{end_, end_ >= used_};
    runs_.emplace_hint(runs_.end(), end_, Run{nbytes, false});
    end_ += nbytes;
    live_ += nbytes;
    if (end_ > used_) used_ = end_;
    return taken;
  }

  /// False when no live run begins there.
  bool give_back(std::uint64_t first) noexcept {
    auto run = runs_.find(first);
    if (run == runs_.end() || run->second.free) return false;
    run->second.free = true;
    live_ -= run->second.nbytes;
    if (const auto next = std::next(run); next != runs_.end() && next->second.free) {
      run->second.nbytes += next->second.nbytes;
      runs_.erase(next);
    }
    if (run != runs_.begin()) {
      if (const auto before = std::prev(run); before->second.free) {
        before->second.nbytes += run->second.nbytes;
        runs_.erase(run);
        run = before;
      }
    }
    if (run->first + run->second.nbytes == end_) {
      end_ = run->first;
      runs_.erase(run);
    }
    return true;
  }

  /// Bytes taken.
  [[nodiscard]] std::uint64_t live() const noexcept { return live_; }

 private:
  struct Run {
    std::uint64_t nbytes;
    bool free;
  };

  std::map<std::uint64_t, Run> runs_;  // by first byte; they fill [0, end_), the last one is taken
  std::uint64_t end_ = 0;
  std::uint64_t used_ = 0;  // what `end_` was at most
  std::uint64_t live_ = 0;
};

}  // namespace berth::inline BERTH_ABI::disk::detail
