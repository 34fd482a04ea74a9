// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mutex.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "event.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

/// Two chunks of pinned host memory, and an event for each: the end of the copy out of it. Where no memory
/// can be pinned a chunk is from the heap: the driver stages a copy out of it. The context must outlive it,
/// and no copy may be under way when it goes.
class Staging {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{4} << 20U;

  /// The context must be current.
  [[nodiscard]] static Result<std::unique_ptr<Staging>> make(const Context& context);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  [[nodiscard]] std::span<std::byte> chunk(std::size_t i) const noexcept {
    return {chunks_[i].bytes, chunk_bytes};
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

  explicit Staging(const Context& context) noexcept : context_(context) {}

  const Context& context_;
  std::array<Chunk, 2> chunks_;
};

/// Where an instance keeps one idle `Staging` between copies. Thread-safe; the lock is held across no call of
/// the driver.
class StagingShelf {
 public:
  /// The one that is kept; null when there is none.
  [[nodiscard]] std::unique_ptr<Staging> take() noexcept BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return std::move(kept_);
  }
  /// Keeps it; when there is one already, that one goes.
  void put(std::unique_ptr<Staging> staging) noexcept BERTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::swap(kept_, staging);
  }

 private:
  Mutex mutex_;
  std::unique_ptr<Staging> kept_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::inline BERTH_ABI::cuda::detail
