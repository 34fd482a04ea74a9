// SPDX-License-Identifier: MIT
// The entry point of a test program under Catch2 v2; version 3 brings its own.
#define CATCH_CONFIG_MAIN
#include "catch.hpp"
