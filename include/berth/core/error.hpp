// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::inline BERTH_ABI {

/// Why a call failed, told apart by what a caller does next.
enum class Errc : std::uint8_t {
  out_of_memory,           ///< no memory now; freeing some and trying again may work
  exceeds_device_maximum,  ///< more than the device ever allocates at once; freeing does not help
  invalid_size,            ///< a size that no arithmetic can serve, or two sizes that must be equal
  invalid_argument,        ///< a request that contradicts itself
  out_of_range,            ///< outside the buffer, view or file extent
  misaligned,              ///< an address or origin below the alignment that the device asks
  unsupported,             ///< this backend or device has no such operation
  wrong_backend,           ///< a buffer, queue or event of another backend
  wrong_allocator,         ///< a buffer of another instance of the same backend
  overlap,                 ///< source and destination, or two links, share bytes
  mapped,                  ///< the host has a map on these bytes
  short_read,              ///< a file gave fewer bytes than its extent holds
  io,                      ///< the operating system refused to read or write
  cancelled,               ///< a stop was requested
  forked,                  ///< berth was used before `fork`; the child cannot use it
  exiting,                 ///< the process is past berth's exit hook; no driver is called any more
  library_missing,         ///< the driver's library is not installed
  symbol_missing,          ///< the driver's library is too old
  no_device,               ///< a driver, but no device
  device_lost,             ///< the device or its context failed; later calls will fail too
  driver,                  ///< any other status of the driver
};

/// Number of enumerators of `Errc`.
inline constexpr int errc_count = static_cast<int>(Errc::driver) + 1;

/// The enumerator's own name, a literal.
[[nodiscard]] BERTH_EXPORT std::string_view to_string(Errc code) noexcept;

/// What went wrong, as data: trivially copyable, never allocates; `message()` makes the sentence late.
///
/// The text fields are literals (static lifetime). Numbers that a failure does not know are absent. Bytes,
/// everywhere.
class Error {
 public:
  constexpr explicit Error(Errc code, const char* backend = "") noexcept : backend_(backend), code_(code) {}

  /// The driver's entry point, or berth's own operation where no driver was asked.
  constexpr Error& in(const char* call) noexcept {
    call_ = call;
    return *this;
  }
  /// The driver's status and its name ("CL_OUT_OF_RESOURCES"; empty where it has none).
  constexpr Error& with_status(std::int32_t status, const char* name = "") noexcept {
    status_ = status;
    status_name_ = name;
    return known(has_status);
  }
  /// The call and status of another error.
  constexpr Error& caused_by(const Error& cause) noexcept {
    call_ = cause.call_;
    status_ = cause.status_;
    status_name_ = cause.status_name_;
    return known(static_cast<Known>(cause.known_ & has_status));
  }
  /// Bytes asked for.
  constexpr Error& asking(std::uint64_t nbytes) noexcept {
    asked_ = nbytes;
    return known(has_asked);
  }
  /// The address or byte offset asked for.
  constexpr Error& at(std::uint64_t position) noexcept {
    position_ = position;
    return known(has_position);
  }
  /// What would have passed: the maximum, the view's size, the budget or the alignment, by the error's code.
  constexpr Error& limited_to(std::uint64_t limit) noexcept {
    limit_ = limit;
    return known(has_limit);
  }
  /// Bytes done before the failure (`cancelled`, `short_read`).
  constexpr Error& after(std::uint64_t nbytes) noexcept {
    done_ = nbytes;
    return known(has_done);
  }
  /// Bytes that live allocations hold.
  constexpr Error& with_live(std::uint64_t nbytes) noexcept {
    live_ = nbytes;
    return known(has_live);
  }
  /// Bytes that caches hold.
  constexpr Error& with_cached(std::uint64_t nbytes) noexcept {
    cached_ = nbytes;
    return known(has_cached);
  }
  /// One literal sentence part that says what the numbers cannot.
  constexpr Error& because(const char* reason) noexcept {
    reason_ = reason;
    return *this;
  }

  [[nodiscard]] constexpr Errc code() const noexcept { return code_; }
  [[nodiscard]] constexpr std::string_view backend() const noexcept { return backend_; }
  [[nodiscard]] constexpr std::string_view call() const noexcept { return call_; }
  [[nodiscard]] constexpr std::string_view reason() const noexcept { return reason_; }
  [[nodiscard]] constexpr std::string_view status_name() const noexcept { return status_name_; }
  [[nodiscard]] constexpr std::optional<std::int32_t> status() const noexcept {
    return (known_ & has_status) != 0 ? std::optional(status_) : std::nullopt;
  }
  [[nodiscard]] constexpr std::optional<std::uint64_t> asked() const noexcept {
    return get(has_asked, asked_);
  }
  [[nodiscard]] constexpr std::optional<std::uint64_t> position() const noexcept {
    return get(has_position, position_);
  }
  [[nodiscard]] constexpr std::optional<std::uint64_t> limit() const noexcept {
    return get(has_limit, limit_);
  }
  [[nodiscard]] constexpr std::optional<std::uint64_t> done() const noexcept { return get(has_done, done_); }
  [[nodiscard]] constexpr std::optional<std::uint64_t> live() const noexcept { return get(has_live, live_); }
  [[nodiscard]] constexpr std::optional<std::uint64_t> cached() const noexcept {
    return get(has_cached, cached_);
  }

  /// The sentence a person reads: "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4), asked 1048576
  /// bytes".
  [[nodiscard]] BERTH_EXPORT std::string message() const;

 private:
  enum Known : std::uint8_t {
    has_status = 1,
    has_asked = 2,
    has_position = 4,
    has_limit = 8,
    has_done = 16,
    has_live = 32,
    has_cached = 64,
  };
  constexpr Error& known(Known field) noexcept {
    known_ = static_cast<std::uint8_t>(known_ | field);
    return *this;
  }
  [[nodiscard]] constexpr std::optional<std::uint64_t> get(Known field, std::uint64_t value) const noexcept {
    return (known_ & field) != 0 ? std::optional(value) : std::nullopt;
  }

  const char* backend_;
  const char* call_ = "";
  const char* status_name_ = "";
  const char* reason_ = "";
  std::uint64_t asked_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t limit_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t live_ = 0;
  std::uint64_t cached_ = 0;
  std::int32_t status_ = 0;
  Errc code_;
  std::uint8_t known_ = 0;
};

}  // namespace berth::inline BERTH_ABI
