// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::inline BERTH_ABI::testing {

/// A skipped law is one that could not be tried here; it never counts as passed.
enum class Verdict : std::uint8_t { pass, fail, skip };

/// What came of one law. `reason` says what failed, or why it was skipped; empty for a pass.
struct LawResult {
  std::string_view law;
  Verdict verdict = Verdict::pass;
  std::string reason;
};

/// What came of all of them.
struct Report {
  std::vector<LawResult> results;

  [[nodiscard]] std::size_t passed() const { return count(Verdict::pass); }
  [[nodiscard]] std::size_t failed() const { return count(Verdict::fail); }
  [[nodiscard]] std::size_t skipped() const { return count(Verdict::skip); }
  /// No law failed, and at least one passed.
  [[nodiscard]] bool ok() const { return failed() == 0 && passed() != 0; }

 private:
  [[nodiscard]] std::size_t count(Verdict verdict) const {
    return static_cast<std::size_t>(std::ranges::count(results, verdict, &LawResult::verdict));
  }
};

/// How the suite runs.
struct CheckOptions {
  std::string law;                                  ///< only this law; empty for all
  bool threads = true;                              ///< false for a driver that cannot stand host threads
  double scale = 1.0;                               ///< of the number of repetitions in the longer laws
  std::uint32_t seed = 1;                           ///< of the random ones; a failure names it
  std::function<void(const LawResult&)> on_result;  ///< called after each law
};

}  // namespace berth::inline BERTH_ABI::testing
