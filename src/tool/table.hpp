// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace berth::tool {

/// Text in columns: the first to the left, the others to the right or left as asked.
class Table {
 public:
  enum class Align : unsigned char { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell a column.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// All lines, each indented by `indent` spaces and ended by a newline.
  [[nodiscard]] std::string text(std::size_t indent) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace berth::tool
