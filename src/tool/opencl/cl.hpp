// SPDX-License-Identifier: MIT
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <berth/opencl/types.hpp>
