// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/opencl/discovery.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

/// What drivers do otherwise than OpenCL says, or than one would expect: one table, with the source of each
/// row and what berth does about it. What is right on every driver is done on every driver; where a remedy
/// has its price, the backend asks for the quirk, never for a vendor.
namespace berth::inline BERTH_ABI::opencl {

enum class Quirk : std::uint8_t {
  lazy_allocation,           ///< memory is taken at the first use of a buffer, not by clCreateBuffer
  unaligned_host_memory,     ///< copies from or to host memory not aligned to 16 bytes go wrong
  writes_past_tail,          ///< up to 64 bytes after the caller's memory may be written
  host_memory_is_copied,     ///< CL_MEM_USE_HOST_PTR is a copy; a map for writing may drop newer host bytes
  events_order_queues_only,  ///< what a blocking call on one queue wrote, another may not see without an
                             ///< event
  one_host_thread,           ///< commands from two host threads crash it
  failed_waits_succeed,      ///< clWaitForEvents says nothing of a command that failed
  racy_discovery,            ///< threads that race into the first call break it
};

[[nodiscard]] BERTH_EXPORT std::string_view to_string(Quirk quirk) noexcept;

/// A set of them.
class Quirks {
 public:
  constexpr Quirks() = default;
  constexpr Quirks(std::initializer_list<Quirk> quirks) noexcept {
    for (const Quirk quirk : quirks) add(quirk);
  }
  constexpr void add(Quirk quirk) noexcept { bits_ |= 1U << static_cast<unsigned>(quirk); }
  [[nodiscard]] constexpr bool has(Quirk quirk) const noexcept {
    return (bits_ >> static_cast<unsigned>(quirk) & 1U) != 0;
  }
  friend constexpr bool operator==(Quirks, Quirks) = default;

 private:
  std::uint32_t bits_ = 0;
};

/// One row of the table.
struct QuirkRow {
  Quirk quirk;
  std::string_view devices;                   ///< which have it, for a person
  bool (*matches)(const DeviceDescription&);  ///< which have it
  std::string_view remedy;                    ///< what berth does about it
  std::string_view source;                    ///< who saw it, where
};

[[nodiscard]] BERTH_EXPORT std::span<const QuirkRow> quirk_table() noexcept;

/// Those of a device.
[[nodiscard]] BERTH_EXPORT Quirks quirks_of(const DeviceDescription& device) noexcept;

}  // namespace berth::inline BERTH_ABI::opencl
