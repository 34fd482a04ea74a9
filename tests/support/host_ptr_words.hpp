// SPDX-License-Identifier: MIT
// What the tests of host_ptr share on whatever driver they run.
#pragma once

#include <berth/core/host_range.hpp>
#include <berth/device/registry.hpp>
#include <berth/host_ptr/host_access.hpp>
#include <berth/host_ptr/host_ptr.hpp>
#include <berth/vector/launch.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/state_table.hpp"

namespace host_ptr_test {

using berth::BigArray;
using berth::Location;
using berth::Vector;
using berth::device::Device;
using berth::device::LinkKind;
using state_table::message;

constexpr std::size_t length = 4096;
using Words = Vector<std::int32_t>;
using Array = BigArray<std::int32_t>;

inline Array zeros(std::size_t elements) {
  auto array = Array::create(elements);
  REQUIRE(message(array) == "ok");
  return *array;
}
inline Words attached(const Device& device, const Array& array, const berth::host_ptr::Options& options) {
  auto vector = berth::host_ptr::of_bigarray(device, berth::int32, array, options);
  REQUIRE(message(vector) == "ok");
  return std::move(*vector);
}
inline std::vector<std::int32_t> all(std::int32_t value, std::size_t elements = length) {
  return std::vector<std::int32_t>(elements, value);
}
inline void write(const Array& array, std::int32_t value) {
  std::ranges::fill(array.writable_elements(), value);
}
inline std::vector<std::int32_t> host_sees(const Array& array) {
  return {array.elements().begin(), array.elements().end()};
}

/// Whether a link holds the memory.
inline bool claimed(const Array& array) {
  return outcome(berth::HostRange::claim(std::as_bytes(array.elements()), "test")) == "overlap";
}
/// "ok", the cause of a refusal, or the sentence.
inline std::string cause(const berth::host_ptr::HostPtrResult<void>& result) {
  if (result) return "ok";
  const auto* const refused = std::get_if<berth::host_ptr::Refused>(&result.error());
  return refused != nullptr ? std::string(to_string(refused->reason.cause)) : message(result);
}

}  // namespace host_ptr_test
