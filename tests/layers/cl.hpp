// SPDX-License-Identifier: MIT
// OpenCL as a layer sees it: every entry point, and the interface between a layer and the loader.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#pragma GCC visibility push(default)
#include <CL/cl_layer.h>
#pragma GCC visibility pop
