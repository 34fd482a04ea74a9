// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/result.hpp>

#include <cstddef>
#include <memory>

namespace berth::inline BERTH_ABI {

/// A run of host memory and what is known of it, without a type. A copy refers to the same memory.
struct HostMemory {
  std::byte* data = nullptr;
  std::size_t nbytes = 0;
  /// Bytes from `data` on that belong to nobody else; at least `nbytes`.
  std::size_t block_bytes = 0;
  bool writable = true;
  /// Keeps the memory alive; null when the caller does.
  std::shared_ptr<const void> owner;

  /// Whether someone besides this copy holds, or may hold, the memory. An owner that counts nothing (an alias
  /// of an empty pointer) keeps nothing alive: the caller does.
  [[nodiscard]] bool outlives_this() const noexcept { return owner.use_count() != 1; }
};

/// A block of zeros for `count` elements of `element_bytes`, page-aligned and padded to whole pages, so that
/// every device takes it. Freed with the last owner. `invalid_size` when the product does not fit,
/// `out_of_memory`.
[[nodiscard]] BERTH_EXPORT Result<HostMemory> make_host_memory(std::size_t count, std::size_t element_bytes);

}  // namespace berth::inline BERTH_ABI
