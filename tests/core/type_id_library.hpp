// SPDX-License-Identifier: MIT
// What the two copies of type_id_library.cpp share with the test that links both.
#pragma once

#include <berth/core/identity.hpp>
#include <berth/core/packed_buffer.hpp>

namespace shared_types {

/// A buffer that each library knows from this header.
struct Buffer {
  int answer = 42;
  [[nodiscard]] std::size_t nbytes() const noexcept { return 5; }
  [[nodiscard]] berth::InstanceId instance() const noexcept { return {}; }
  [[nodiscard]] bool is_view() const noexcept { return false; }
};
template <class T>
struct Template {};

}  // namespace shared_types

#define TYPE_ID_LIBRARY_FUNCTIONS(suffix)                              \
  BERTH_EXPORT berth::TypeId type_of_buffer_##suffix();                \
  BERTH_EXPORT berth::TypeId type_of_template_##suffix();              \
  BERTH_EXPORT berth::TypeId type_of_anonymous_##suffix();             \
  BERTH_EXPORT berth::TypeId type_of_template_of_anonymous_##suffix(); \
  BERTH_EXPORT berth::TypeId type_of_lambda_##suffix();                \
  BERTH_EXPORT berth::PackedBuffer packed_buffer_##suffix();

TYPE_ID_LIBRARY_FUNCTIONS(a)
TYPE_ID_LIBRARY_FUNCTIONS(b)
