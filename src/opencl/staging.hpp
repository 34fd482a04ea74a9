// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/mutex.hpp>
#include <berth/core/result.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "handle.hpp"

namespace berth::inline BERTH_ABI::opencl::detail {

/// Two chunks of pinned host memory (`CL_MEM_ALLOC_HOST_PTR`), mapped for as long as they live, on a queue of
/// their own: on the user's the map would wait for every kernel before it.
class Staging {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{4} << 20U;

  [[nodiscard]] static Result<std::unique_ptr<Staging>> make(cl_context context, cl_device_id device);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  [[nodiscard]] std::span<std::byte> chunk(std::size_t i) const noexcept {
    return {chunks_[i].bytes, chunk_bytes};
  }

 private:
  struct Chunk {
    Handle<cl_mem> mem;
    std::byte* bytes = nullptr;
  };

  Staging() = default;

  Handle<cl_command_queue> queue_;
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

}  // namespace berth::inline BERTH_ABI::opencl::detail
