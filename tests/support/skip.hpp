// SPDX-License-Identifier: MIT
// What cannot run on this machine says so: a program, with the status that ctest shows as skipped, or one
// test case of it.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "support/catch.hpp"

/// Only for programs whose label may skip (cmake/testing.cmake lists them).
[[noreturn]] inline void skip_program(const char* reason) {
  std::printf("skipped: %s\n", reason);
  std::fflush(stdout);
  std::_Exit(77);
}

/// For a test case, which returns after it.
inline void left_out(const char* reason) { WARN("skipped: " << reason); }
