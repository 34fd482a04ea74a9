// SPDX-License-Identifier: MIT
// clang-format off: the order is the test
#include <berth/cuda/driver.hpp>
#include <cuda.h>
#include <cudaTypedefs.h>
// clang-format on

#include "cuda/toolkit.hpp"
