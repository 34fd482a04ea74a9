// SPDX-License-Identifier: MIT
#pragma once

#include <berth/device/framework.hpp>

#include <memory>
#include <string_view>
#include <vector>

/// The process-wide list of frameworks. Backends do not enter it by being linked: `host::framework()`,
/// `opencl::framework()` and a user's own are registered by whoever wants them found. Thread-safe;
/// in a forked child (see `process`) the list is empty and takes nothing.
namespace berth::inline BERTH_ABI::device {

/// Adds a framework. One whose name is taken is `invalid_argument`, unless it is the very same object; null
/// is too.
[[nodiscard]] BERTH_EXPORT Result<void> register_framework(std::shared_ptr<Framework> framework);

/// Takes a framework out again; devices that were handed out stay usable, and links keep it alive. False when
/// there is none of that name.
BERTH_EXPORT bool unregister_framework(std::string_view name) noexcept;

/// The framework of that name; null when there is none.
[[nodiscard]] BERTH_EXPORT std::shared_ptr<Framework> find_framework(std::string_view name);

/// All of them, in order of registration.
[[nodiscard]] BERTH_EXPORT std::vector<std::shared_ptr<Framework>> frameworks();

}  // namespace berth::inline BERTH_ABI::device
