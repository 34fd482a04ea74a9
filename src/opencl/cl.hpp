// SPDX-License-Identifier: MIT
#pragma once

// OpenCL's own headers, for the sources only. Entry points past 1.2 are called after a version query.
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <berth/opencl/types.hpp>
