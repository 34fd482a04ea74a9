// SPDX-License-Identifier: MIT
// A test program that cannot run on this machine says so and ends with the status that ctest shows as
// skipped.
#pragma once

#include <cstdio>
#include <cstdlib>

/// Only for programs whose label may skip (cmake/testing.cmake lists them).
[[noreturn]] inline void skip_program(const char* reason) {
  std::printf("skipped: %s\n", reason);
  std::fflush(stdout);
  std::_Exit(77);
}
