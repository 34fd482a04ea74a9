// SPDX-License-Identifier: MIT
#include "../bench.hpp"

namespace berth::tool {

std::vector<BenchRow> bench_host_ptr_sync(const BenchProgress& /*progress*/) { return {}; }

}  // namespace berth::tool
