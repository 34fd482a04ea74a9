// SPDX-License-Identifier: MIT
// Catch2, version 3 or 2: whichever CMake found, since headers of both may be installed.
#pragma once

#if BERTH_CATCH2_VERSION >= 3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
