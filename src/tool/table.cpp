// SPDX-License-Identifier: MIT
#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace berth::tool {

std::string Table::text(std::size_t indent) const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines.front().push_back(column.title);
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }

  std::string text;
  for (const auto& line : lines) {
    std::string shown(indent, ' ');
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool left = columns_[i].align == Align::left;
      shown +=
          left ? fmt::format("{:<{}}  ", line[i], widths[i]) : fmt::format("{:>{}}  ", line[i], widths[i]);
    }
    shown.erase(shown.find_last_not_of(' ') + 1);
    text += shown + '\n';
  }
  return text;
}

}  // namespace berth::tool
