// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/staging_shelf.hpp"
#include "event.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// Two chunks of pinned host memory, and an event for each: the end of the copy out of it. Where no memory
/// can be pinned a chunk is from the heap: the driver stages a copy out of it. No copy may be under way when
/// it goes.
class Staging {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{4} << 20U;

  /// The context must be current.
  [[nodiscard]] static Result<std::unique_ptr<Staging>> make(std::shared_ptr<const Context> context);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  [[nodiscard]] std::span<std::byte> chunk(std::size_t i) const noexcept {
    return {chunks_[i].bytes, chunk_bytes};
  }
  /// What goes back to the driver with this.
  [[nodiscard]] std::uint64_t pinned_bytes() const noexcept {
    return chunk_bytes * ((chunks_[0].pinned ? 1U : 0U) + (chunks_[1].pinned ? 1U : 0U));
  }
  [[nodiscard]] bool pinned() const noexcept { return chunks_[0].pinned && chunks_[1].pinned; }
  /// The driver may be reading the chunks for ever: they are not given back.
  void keep() noexcept {
    for (Chunk& chunk : chunks_) chunk.bytes = nullptr;
  }
  [[nodiscard]] abi::Event event(std::size_t i) const noexcept { return chunks_[i].copied.get(); }

 private:
  struct Chunk {
    std::byte* bytes = nullptr;
    bool pinned = false;
    OwnedEvent copied;
  };

  explicit Staging(std::shared_ptr<const Context> context) noexcept : context_(std::move(context)) {}

  const std::shared_ptr<const Context> context_;
  std::array<Chunk, 2> chunks_;
};

using StagingShelf = berth::detail::StagingShelf<Staging>;

}  // namespace berth::inline BERTH_ABI::cuda::detail
