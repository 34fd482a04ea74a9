// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/result.hpp>

#include <atomic>
#include <cstdint>

/// What berth knows of the process it lives in: whether it was forked, and whether it is on its way out.
///
/// Drivers do not survive `fork`: in a child of a process that used berth every call answers `Errc::forked`
/// and every free does nothing. At exit drivers are torn down by their own handlers: past berth's exit hook
/// no driver is called, late frees do nothing and late calls answer `Errc::exiting`. Both are one relaxed
/// load, tested before any lock.
namespace berth::inline BERTH_ABI::process {

/// The word that tells, on a page that the kernel wipes in a forked child (`MADV_WIPEONFORK`).
enum class Life : std::uint32_t { wiped = 0, running = 1, exiting = 2 };

namespace detail {
/// Null until berth is first used.
BERTH_EXPORT extern std::atomic<std::atomic<Life>*> life;
/// First use, or the reason why not.
[[nodiscard]] BERTH_EXPORT Result<void> begin_use(const char* backend) noexcept;
}  // namespace detail

/// Succeeds when the backend may work: berth was not used before a `fork` that made this process, and, for a
/// backend with a driver, the exit hook has not run. Marks berth as used. `backend` is a literal for the
/// error.
[[nodiscard]] inline Result<void> usable(const char* backend) noexcept {
  const std::atomic<Life>* word = detail::life.load(std::memory_order_acquire);
  if (word != nullptr && word->load(std::memory_order_relaxed) == Life::running) [[likely]] {
    return {};
  }
  return detail::begin_use(backend);
}

/// True in the child of a process that used berth before `fork`.
[[nodiscard]] inline bool forked() noexcept {
  const std::atomic<Life>* word = detail::life.load(std::memory_order_acquire);
  return word != nullptr && word->load(std::memory_order_relaxed) == Life::wiped;
}

/// `usable` for a backend without a driver, which goes on working while the process exits.
[[nodiscard]] inline Result<void> not_forked(const char* backend) noexcept {
  if (forked()) [[unlikely]]
    return fail(Error(Errc::forked, backend));
  return {};
}

/// False when a free must do nothing: in a forked child, and for a driver past the exit hook.
[[nodiscard]] inline bool may_release() noexcept {
  const std::atomic<Life>* word = detail::life.load(std::memory_order_acquire);
  return word == nullptr || word->load(std::memory_order_relaxed) == Life::running;
}

/// Registers berth's exit hook. Each backend calls it once, after its driver is initialised, so that the hook
/// runs before that driver's own exit handlers (`atexit` runs them in reverse order).
BERTH_EXPORT void register_exit_hook() noexcept;

}  // namespace berth::inline BERTH_ABI::process
