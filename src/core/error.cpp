// SPDX-License-Identifier: MIT
#include <berth/core/error.hpp>

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace berth::inline BERTH_ABI {
namespace {

struct Entry {
  Errc code;
  std::string_view name;
  std::string_view phrase;
  std::string_view limit;  // what `Error::limit` means under this code
};

constexpr std::array<Entry, errc_count> entries{{
    {Errc::out_of_memory, "out_of_memory", "out of memory", "the limit is {} bytes"},
    {Errc::exceeds_device_maximum, "exceeds_device_maximum", "larger than the device allocates at once",
     "the maximum is {} bytes"},
    {Errc::invalid_size, "invalid_size", "invalid size", "must be {} bytes"},
    {Errc::invalid_argument, "invalid_argument", "invalid argument", "the limit is {}"},
    {Errc::out_of_range, "out_of_range", "out of range", "there are {} bytes"},
    {Errc::misaligned, "misaligned", "misaligned", "must be a multiple of {} bytes"},
    {Errc::unsupported, "unsupported", "not supported", "the limit is {}"},
    {Errc::wrong_backend, "wrong_backend", "wrong backend", "the limit is {}"},
    {Errc::wrong_allocator, "wrong_allocator", "wrong allocator", "the limit is {}"},
    {Errc::overlap, "overlap", "overlapping memory", "shares bytes with a range of {} bytes"},
    {Errc::mapped, "mapped", "mapped by the host", "the limit is {}"},
    {Errc::short_read, "short_read", "the file ended early", "there are {} bytes"},
    {Errc::io, "io", "input/output error", "the limit is {} bytes"},
    {Errc::cancelled, "cancelled", "cancelled", "of {} bytes"},
    {Errc::forked, "forked", "berth was used before fork; the child cannot use it", "the limit is {}"},
    {Errc::exiting, "exiting", "the process is exiting; no driver is called any more", "the limit is {}"},
    {Errc::library_missing, "library_missing", "the driver's library is not installed", "the limit is {}"},
    {Errc::symbol_missing, "symbol_missing", "the driver's library lacks the function", "the limit is {}"},
    {Errc::no_device, "no_device", "no device", "there are {}"},
    {Errc::device_lost, "device_lost", "the device is lost", "the limit is {}"},
    {Errc::driver, "driver", "driver error", "the limit is {}"},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (static_cast<std::size_t>(entries[i].code) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table is indexed by Errc");

const Entry& entry(Errc code) noexcept { return entries.at(static_cast<std::size_t>(code)); }

}  // namespace

std::string_view to_string(Errc code) noexcept { return entry(code).name; }

std::string Error::message() const {
  std::string text;
  const auto out = std::back_inserter(text);
  // A driver's call names its driver by itself.
  if (!status() || call().empty()) text += backend();
  if (!text.empty() && !call().empty()) text += ' ';
  text += call();
  if (!text.empty()) text += ": ";

  if (const auto native = status(); native && !status_name().empty()) {
    fmt::format_to(out, "{} ({})", status_name(), *native);
  } else if (native) {
    fmt::format_to(out, "{} (status {})", entry(code_).phrase, *native);
  } else {
    text += entry(code_).phrase;
  }
  if (!reason().empty()) fmt::format_to(out, " ({})", reason());
  if (const auto n = asked()) fmt::format_to(out, ", asked {} bytes", *n);
  if (const auto p = position()) {
    const bool address = code_ == Errc::misaligned || code_ == Errc::overlap;
    fmt::format_to(out, fmt::runtime(address ? ", at {:#x}" : ", at byte {}"), *p);
  }
  if (const auto l = limit()) {
    text += ", ";
    fmt::format_to(out, fmt::runtime(entry(code_).limit), *l);
  }
  if (const auto n = done()) fmt::format_to(out, ", {} bytes done", *n);
  if (const auto n = live()) fmt::format_to(out, ", {} bytes live", *n);
  if (const auto n = cached()) fmt::format_to(out, ", {} bytes cached", *n);
  return text;
}

}  // namespace berth::inline BERTH_ABI
