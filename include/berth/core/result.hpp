// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>
#include <berth/core/error.hpp>

#if BERTH_EXPECTED_STD
#include <expected>
#else
#include <tl/expected.hpp>
#endif

namespace berth::inline BERTH_ABI {

/// What every call that can fail returns: the value, or an `Error`.
///
/// `std::expected` in a C++23 build, `tl::expected` in a C++20 one; CMake chooses once (`BERTH_EXPECTED`) and
/// the inline namespace keeps the two apart at link time. berth uses, and promises, only what both have.
#if BERTH_EXPECTED_STD
template <class T>
using Result = std::expected<T, Error>;

/// The failing side of a `Result`.
using Failure = std::unexpected<Error>;
#else
template <class T>
using Result = tl::expected<T, Error>;

/// The failing side of a `Result`.
using Failure = tl::unexpected<Error>;
#endif

/// `return fail(error);` from a function that returns any `Result`.
[[nodiscard]] constexpr Failure fail(const Error& error) noexcept { return Failure(error); }

}  // namespace berth::inline BERTH_ABI
