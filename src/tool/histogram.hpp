// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/buffer.hpp>

#include <memory>
#include <string_view>

#include "byte_counts.hpp"
#include "outcome.hpp"

namespace berth::tool {

/// Counts the bytes of a device buffer where they lie.
class Histogram {
 public:
  virtual ~Histogram() = default;

  /// What does the counting, for a person: "OpenCL kernel".
  [[nodiscard]] virtual std::string_view means() const noexcept = 0;
  /// Counts all bytes of `bytes`, fewer than 2^32, and returns when that is done.
  [[nodiscard]] virtual Outcome<void> run(Buffer& bytes) = 0;
  /// What was counted since the last call.
  [[nodiscard]] virtual Outcome<ByteCounts> take() = 0;

 protected:
  Histogram() = default;
  Histogram(const Histogram&) = default;
  Histogram& operator=(const Histogram&) = default;
};

/// For memory that the host maps: a function of the host over the mapped buffer.
[[nodiscard]] std::unique_ptr<Histogram> mapped_histogram();

}  // namespace berth::tool
