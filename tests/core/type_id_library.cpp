// SPDX-License-Identifier: MIT
// Built twice, with TYPE_ID_FUNCTION_SUFFIX a and b, as two shared libraries with hidden visibility.
#include "type_id_library.hpp"

namespace {
struct Anonymous {};
using Lambda = decltype([] {});
}  // namespace

#define JOINED(name, suffix) name##suffix
#define NAMED(name, suffix) JOINED(name, suffix)
#define FUNCTION(name) NAMED(name##_, TYPE_ID_FUNCTION_SUFFIX)()

berth::TypeId FUNCTION(type_of_buffer) { return berth::TypeId::of<shared_types::Buffer>(); }
berth::TypeId FUNCTION(type_of_template) {
  return berth::TypeId::of<shared_types::Template<shared_types::Buffer>>();
}
berth::TypeId FUNCTION(type_of_anonymous) { return berth::TypeId::of<Anonymous>(); }
berth::TypeId FUNCTION(type_of_template_of_anonymous) {
  return berth::TypeId::of<shared_types::Template<Anonymous>>();
}
berth::TypeId FUNCTION(type_of_lambda) { return berth::TypeId::of<Lambda>(); }
berth::PackedBuffer FUNCTION(packed_buffer) { return berth::PackedBuffer(shared_types::Buffer{}); }
