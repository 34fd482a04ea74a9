// SPDX-License-Identifier: MIT
// Links in forked children, and at the end of the process, on CUDA.
#include "support/host_ptr_cuda_fixture.hpp"

#include "host_ptr/process.hpp"
