// SPDX-License-Identifier: MIT
// Links in forked children, and at the end of the process, on OpenCL.
#include "support/host_ptr_opencl_fixture.hpp"

#include "host_ptr/process.hpp"
