// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exit_status.hpp"
#include "outcome.hpp"

namespace berth::tool {

struct BenchOptions {
  std::string filter;  ///< a part of a bench's name; empty for all
  bool json = false;   ///< one object a line: a row
};

/// `berth bench`: measures, beside what others offer.
[[nodiscard]] ExitStatus run_bench(const BenchOptions& options);

/// One number of a bench.
struct BenchRow {
  std::string what;  ///< the case
  double value = 0;
  std::string unit;
  std::string peer;     ///< whose number it is; empty for berth's own
  std::string version;  ///< of the peer, or of berth
};

/// Says that run `run` of `runs` begins.
using BenchProgress = std::function<void(unsigned run, unsigned runs)>;

/// A set of cases that are measured together.
struct Bench {
  std::string_view name;
  std::string_view question;  ///< what it answers, for a person
  /// Its rows, or why it cannot be measured here.
  Outcome<std::vector<BenchRow>> (*run)(const BenchProgress& progress);
};

/// What a type-erased allocator adds to a call.
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_packed_call(const BenchProgress& progress);

/// berth's own time in a call of the CUDA backend, over a driver that does nothing.
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_cuda_call(const BenchProgress& progress);
/// On the first CUDA device, beside the driver's own calls.
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_cuda_alloc_free(const BenchProgress& progress);
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_cuda_copyin(const BenchProgress& progress);
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_cuda_copyout(const BenchProgress& progress);
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_cuda_transfer(const BenchProgress& progress);
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_cuda_register(const BenchProgress& progress);

/// What it costs to keep a host array and a device that has it without a copy in step, beside copies and
/// beside a program that does it by hand. On the first device.
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_opencl_host_ptr_sync(const BenchProgress& progress);
[[nodiscard]] Outcome<std::vector<BenchRow>> bench_cuda_host_ptr_sync(const BenchProgress& progress);

/// "0.1.0"
[[nodiscard]] std::string berth_version();

}  // namespace berth::tool
