// SPDX-License-Identifier: MIT
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace berth::tool {
namespace {

char lower(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

}  // namespace

std::string binary_size(std::uint64_t nbytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (nbytes < 1024) return counted(nbytes, "byte");
  double value = static_cast<double>(nbytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, units.at(unit));
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string counted(std::uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || number == 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (unit.empty()) return number;

  constexpr std::string_view letters = "KMGT";
  const std::size_t power = letters.find(unit.front());
  if (power == std::string_view::npos || (unit.size() > 1 && unit.substr(1) != "iB")) return std::nullopt;
  const std::size_t shift = 10 * (power + 1);
  if (number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) { return lower(a) == lower(b); };
  return std::ranges::search(text, part, same).begin() != text.end() || part.empty();
}

std::string printable(std::string_view text) {
  std::string shown(text);
  std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return shown;
}

}  // namespace berth::tool
