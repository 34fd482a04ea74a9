// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/result.hpp>

#include <string>
#include <utility>

namespace berth::tool {

/// What the program's own steps return: the value, or the sentence that tells a person why there is none.
#if BERTH_EXPECTED_STD
template <class T>
using Outcome = std::expected<T, std::string>;
using Complaint = std::unexpected<std::string>;
#else
template <class T>
using Outcome = tl::expected<T, std::string>;
using Complaint = tl::unexpected<std::string>;
#endif

[[nodiscard]] inline Complaint complain(std::string sentence) { return Complaint(std::move(sentence)); }
[[nodiscard]] inline Complaint complain(const Error& error) { return Complaint(error.message()); }

}  // namespace berth::tool
