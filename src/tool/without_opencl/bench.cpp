// SPDX-License-Identifier: MIT
#include "../bench.hpp"

namespace berth::tool {

Outcome<std::vector<BenchRow>> bench_opencl_host_ptr_sync(const BenchProgress& /*progress*/) {
  return complain("berth was built without OpenCL");
}

}  // namespace berth::tool
