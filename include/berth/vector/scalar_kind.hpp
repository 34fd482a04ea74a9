// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <complex>
#include <cstdint>
#include <string_view>

namespace berth::inline BERTH_ABI {

/// An IEEE 754 half as its bits. berth moves it and computes nothing with it.
struct Float16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(Float16, Float16) = default;
};

/// The element types that a host array can share with a device. Found in the type: specialised for the
/// scalars below, and for nothing else.
template <class T>
struct ScalarKind;

template <>
struct ScalarKind<Float16> {
  static constexpr std::string_view name = "float16";
};
template <>
struct ScalarKind<float> {
  static constexpr std::string_view name = "float32";
};
template <>
struct ScalarKind<double> {
  static constexpr std::string_view name = "float64";
};
template <>
struct ScalarKind<std::int8_t> {
  static constexpr std::string_view name = "int8";
};
template <>
struct ScalarKind<std::uint8_t> {
  static constexpr std::string_view name = "uint8";
};
template <>
struct ScalarKind<std::int32_t> {
  static constexpr std::string_view name = "int32";
};
template <>
struct ScalarKind<std::int64_t> {
  static constexpr std::string_view name = "int64";
};
template <>
struct ScalarKind<std::complex<float>> {
  static constexpr std::string_view name = "complex32";
};
template <>
struct ScalarKind<std::complex<double>> {
  static constexpr std::string_view name = "complex64";
};

/// A type with a scalar kind.
template <class T>
concept Scalar = requires { ScalarKind<T>::name; };

inline constexpr ScalarKind<Float16> float16{};
inline constexpr ScalarKind<float> float32{};
inline constexpr ScalarKind<double> float64{};
inline constexpr ScalarKind<std::int8_t> int8{};
inline constexpr ScalarKind<std::uint8_t> uint8{};
inline constexpr ScalarKind<std::int32_t> int32{};
inline constexpr ScalarKind<std::int64_t> int64{};
inline constexpr ScalarKind<std::complex<float>> complex32{};   ///< of two float32
inline constexpr ScalarKind<std::complex<double>> complex64{};  ///< of two float64

}  // namespace berth::inline BERTH_ABI
