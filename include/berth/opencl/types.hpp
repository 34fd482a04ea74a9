// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

// OpenCL's handles, declared as its own headers declare them, so that berth's need none and prefer no
// version.
using cl_platform_id = struct _cl_platform_id*;
using cl_device_id = struct _cl_device_id*;
using cl_context = struct _cl_context*;
using cl_command_queue = struct _cl_command_queue*;
using cl_mem = struct _cl_mem*;
using cl_event = struct _cl_event*;
