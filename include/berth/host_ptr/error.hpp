// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/result.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

/// Why a host array could not be shared with a device.
namespace berth::inline BERTH_ABI::host_ptr {

/// What a backend has against this memory, with the numbers and what would pass.
struct Refusal {
  enum class Cause : std::uint8_t {
    backend,      ///< it links no host memory, or not like this
    device_type,  ///< the device does not share memory, and the caller requires that
    null,         ///< there is no memory
    alignment,    ///< of the address
    size,         ///< of the memory: too large
    padding,      ///< of the memory: ends where the driver does not stop
    overlap,      ///< another link covers some of it
    read_only,    ///< the memory is read-only and the backend would write to it
  };

  Cause cause = Cause::backend;
  std::uint64_t address = 0;
  std::uint64_t nbytes = 0;
  /// What would have passed, by the cause: the alignment, the largest size, what the size must be a multiple
  /// of; of an overlap, the size of the other link.
  std::uint64_t limit = 0;
  /// Of an overlap, where the other link starts.
  std::uint64_t other_address = 0;
  /// What the numbers do not say, a literal; may be empty.
  std::string_view detail;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

/// The backend refused.
struct Refused {
  std::string device;
  Refusal reason;
};

/// No framework of that name is registered (`device::register_framework`).
struct UnknownFramework {
  std::string framework;
};

/// Elements of the user's own type, a device-only vector, or another array than the vector's: nothing to
/// share.
struct NotBigarrayBacked {
  std::uint64_t vector_id = 0;
};

/// The vector has a buffer on the device already; sharing would leave two. Free it first
/// (`Vector::free_buffer`).
struct BufferExists {
  std::uint64_t vector_id = 0;
  std::string device;
};

/// Why a call of `host_ptr` failed; the last is the driver's or berth's own error.
using HostPtrError = std::variant<Refused, UnknownFramework, NotBigarrayBacked, BufferExists, Error>;

#if BERTH_EXPECTED_STD
template <class T>
using HostPtrResult = std::expected<T, HostPtrError>;
using HostPtrFailure = std::unexpected<HostPtrError>;
#else
template <class T>
using HostPtrResult = tl::expected<T, HostPtrError>;
using HostPtrFailure = tl::unexpected<HostPtrError>;
#endif

/// The enumerator's own name, a literal.
[[nodiscard]] BERTH_EXPORT std::string_view to_string(Refusal::Cause cause) noexcept;
/// The sentence a person reads, with what would pass.
[[nodiscard]] BERTH_EXPORT std::string refusal_message(const Refusal& refusal);
[[nodiscard]] BERTH_EXPORT std::string error_message(const HostPtrError& error);

}  // namespace berth::inline BERTH_ABI::host_ptr
