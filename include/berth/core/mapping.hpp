// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/core/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace berth::inline BERTH_ABI {

/// What the host does with mapped bytes.
enum class Access : std::uint8_t {
  read,       ///< reads only
  write,      ///< reads and writes; the bytes are current when the map is made
  overwrite,  ///< writes every byte of the range; what was there may be lost
};

/// Host access to a range of a device buffer for a scope. The device must not use the range meanwhile.
/// Destruction unmaps and sends a failure to the sink; `unmap()` unmaps now and returns it. Move-only. Must
/// not outlive the allocator it came from.
class [[nodiscard]] Mapping {
 public:
  /// What an unmapper needs to remember, at most, trivially copyable.
  static constexpr std::size_t state_bytes = 40;

  Mapping() = default;
  /// A range that needs no unmapping.
  [[nodiscard]] explicit Mapping(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}
  /// `unmap(state, bytes)` runs once.
  template <class State>
  [[nodiscard]] Mapping(std::span<std::byte> bytes, const State& state,
                        Result<void> (*unmap)(const State& state,
                                              std::span<std::byte> bytes) noexcept) noexcept
      : bytes_(bytes), unmap_(reinterpret_cast<void (*)()>(unmap)), call_(&call<State>) {
    static_assert(sizeof(State) <= state_bytes && std::is_trivially_copyable_v<State>);
    std::memcpy(state_.data(), &state, sizeof(State));
  }

  Mapping(Mapping&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})),
        state_(other.state_),
        unmap_(std::exchange(other.unmap_, nullptr)),
        call_(std::exchange(other.call_, nullptr)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    Mapping moved(std::move(other));
    std::swap(bytes_, moved.bytes_);
    std::swap(state_, moved.state_);
    std::swap(unmap_, moved.unmap_);
    std::swap(call_, moved.call_);
    return *this;
  }
  ~Mapping() {
    if (const auto unmapped = unmap(); !unmapped) report(unmapped.error());
  }

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

  /// Gives the range back to the device. A second call does nothing.
  [[nodiscard]] Result<void> unmap() noexcept {
    const auto bytes = std::exchange(bytes_, {});
    if (const auto call = std::exchange(call_, nullptr)) return call(unmap_, state_.data(), bytes);
    return {};
  }

 private:
  template <class State>
  static Result<void> call(void (*unmap)(), const std::byte* raw, std::span<std::byte> bytes) noexcept {
    State state;
    std::memcpy(&state, raw, sizeof(State));
    return reinterpret_cast<Result<void> (*)(const State&, std::span<std::byte>) noexcept>(unmap)(state,
                                                                                                  bytes);
  }

  std::span<std::byte> bytes_;
  alignas(std::max_align_t) std::array<std::byte, state_bytes> state_{};
  void (*unmap_)() = nullptr;
  Result<void> (*call_)(void (*unmap)(), const std::byte* state,
                        std::span<std::byte> bytes) noexcept = nullptr;
};

}  // namespace berth::inline BERTH_ABI
