// SPDX-License-Identifier: MIT
// What every OpenCL layer is made of. The loader loads the libraries that OPENCL_LAYERS names; each stands
// between the program and the driver, or the layer before it. The layer with the last name sees a call first.
#pragma once

#include <cstddef>

#include "cl.hpp"

namespace layers {

/// What lies below this layer; valid once the loader has initialised it.
[[nodiscard]] const cl_icd_dispatch& target() noexcept;

/// Each layer's own: its name, and the entry points that it replaces. `table` starts as a copy of what lies
/// below.
extern const char* const name;
void install(cl_icd_dispatch& table);

/// Answers a query of OpenCL's form: (size of the caller's room, the room, where the needed size goes).
[[nodiscard]] cl_int answer(const void* value, std::size_t nbytes, std::size_t room, void* out,
                            std::size_t* needed) noexcept;

/// For calls that return an object and a status.
template <class T>
T fail(cl_int status, cl_int* where) noexcept {
  if (where != nullptr) *where = status;
  return T{};
}

}  // namespace layers
