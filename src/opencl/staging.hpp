// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "core/staging_shelf.hpp"
#include "handle.hpp"

namespace berth::inline BERTH_ABI::opencl::detail {

/// Two chunks of host memory for copies: pinned (`CL_MEM_ALLOC_HOST_PTR`) and mapped for as long as they
/// live, on a queue of their own, since on the user's the map would wait for every kernel before it; or
/// pageable, where the driver has no pinned memory left.
class Staging {
 public:
  static constexpr std::size_t chunk_bytes = std::size_t{4} << 20U;

  [[nodiscard]] static Result<std::unique_ptr<Staging>> make(cl_context context, cl_device_id device);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  [[nodiscard]] std::span<std::byte> chunk(std::size_t i) const noexcept {
    const Chunk& chunk = chunks_[i];
    return {chunk.mapped != nullptr ? chunk.mapped : chunk.pageable.get(), chunk_bytes};
  }
  /// What goes back to the driver with this.
  [[nodiscard]] std::uint64_t pinned_bytes() const noexcept;

 private:
  struct Free {
    void operator()(std::byte* bytes) const noexcept { std::free(bytes); }
  };
  struct Chunk {
    Handle<cl_mem> mem;
    std::byte* mapped = nullptr;
    std::unique_ptr<std::byte, Free> pageable;
  };

  Staging() = default;
  Result<void> pin(Chunk& chunk, cl_context context);

  Handle<cl_command_queue> queue_;
  std::array<Chunk, 2> chunks_;
};

using StagingShelf = berth::detail::StagingShelf<Staging>;

}  // namespace berth::inline BERTH_ABI::opencl::detail
