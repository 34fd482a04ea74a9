// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <memory>

namespace berth::inline BERTH_ABI::cuda {

namespace detail {
class Registration;
}  // namespace detail

/// Host memory that stays registered (`cuMemHostRegister`) for as long as this lives, whatever is attached to
/// it meanwhile: see `Allocator::register_host`. A registration and its end were seen to take 60 to 115 ms a
/// GiB, so a runtime does it once for a region, off its hot path, and ends it before it frees the memory. An
/// end that the driver refuses is reported to the sink, and tried again when the memory is next registered;
/// in a forked child, and past berth's exit hook, the end does nothing. Move-only; may be moved to and
/// destroyed on any thread, and is used by one at a time.
class [[nodiscard]] HostRegistration {
 public:
  BERTH_EXPORT HostRegistration() noexcept;
  BERTH_EXPORT HostRegistration(HostRegistration&& other) noexcept;
  BERTH_EXPORT HostRegistration& operator=(HostRegistration&& other) noexcept;
  BERTH_EXPORT ~HostRegistration();

  explicit operator bool() const noexcept { return registration_ != nullptr; }

 private:
  friend class Allocator;
  explicit HostRegistration(std::unique_ptr<detail::Registration> registration) noexcept;

  std::unique_ptr<detail::Registration> registration_;
};

}  // namespace berth::inline BERTH_ABI::cuda
