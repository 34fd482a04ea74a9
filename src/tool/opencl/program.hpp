// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <type_traits>

#include "../outcome.hpp"
#include "cl.hpp"

namespace berth::tool {

struct ReleaseProgram {
  void operator()(cl_program program) const noexcept { clReleaseProgram(program); }
};
struct ReleaseKernel {
  void operator()(cl_kernel kernel) const noexcept { clReleaseKernel(kernel); }
};
using Program = std::unique_ptr<std::remove_pointer_t<cl_program>, ReleaseProgram>;
using Kernel = std::unique_ptr<std::remove_pointer_t<cl_kernel>, ReleaseKernel>;

/// Success, or the complaint that names the call. `call` is the entry point, a literal.
[[nodiscard]] Outcome<void> check(cl_int status, const char* call);

/// Compiles a program for one device of the context; the compiler's own words are part of the complaint.
[[nodiscard]] Outcome<Program> build_program(cl_context context, cl_device_id device, const char* source);

/// A kernel of a built program, by name.
[[nodiscard]] Outcome<Kernel> make_kernel(const Program& program, const char* name);

}  // namespace berth::tool
