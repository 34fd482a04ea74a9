// SPDX-License-Identifier: MIT
// clang-format off: the order is the test
#include <cuda.h>
#include <cudaTypedefs.h>
#include <berth/cuda/driver.hpp>
// clang-format on

#include "cuda/toolkit.hpp"
