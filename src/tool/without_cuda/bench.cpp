// SPDX-License-Identifier: MIT
#include "../bench.hpp"

namespace berth::tool {
namespace {

Complaint without() { return complain("this program was built without the CUDA backend"); }

}  // namespace

Outcome<std::vector<BenchRow>> bench_cuda_call(const BenchProgress&) { return without(); }
Outcome<std::vector<BenchRow>> bench_cuda_alloc_free(const BenchProgress&) { return without(); }
Outcome<std::vector<BenchRow>> bench_cuda_copyin(const BenchProgress&) { return without(); }
Outcome<std::vector<BenchRow>> bench_cuda_copyout(const BenchProgress&) { return without(); }
Outcome<std::vector<BenchRow>> bench_cuda_transfer(const BenchProgress&) { return without(); }
Outcome<std::vector<BenchRow>> bench_cuda_register(const BenchProgress&) { return without(); }
Outcome<std::vector<BenchRow>> bench_cuda_host_ptr_sync(const BenchProgress&) { return without(); }

}  // namespace berth::tool
