// SPDX-License-Identifier: MIT
#include "bench.hpp"

#include <fmt/format.h>
#include <berth/core/config.hpp>

#include <array>
#include <cstdio>

#include "json.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace berth::tool {
namespace {

// On whatever is there; without either, why OpenCL is not.
Outcome<std::vector<BenchRow>> bench_host_ptr_sync(const BenchProgress& progress) {
  auto rows = bench_opencl_host_ptr_sync(progress);
  auto more = bench_cuda_host_ptr_sync(progress);
  if (!rows) return more ? more : rows;
  if (more) rows->insert(rows->end(), more->begin(), more->end());
  return rows;
}

constexpr std::array benches{
    Bench{"packed_call",
          "What does a PackedAllocator add to a call of the typed allocator? (one alloc with its free)",
          bench_packed_call},
    Bench{"cuda_call", "How long is berth's own part of a call on CUDA? (over a driver that does nothing)",
          bench_cuda_call},
    Bench{"alloc_free", "What does an alloc with its free cost on CUDA?", bench_cuda_alloc_free},
    Bench{"copyin", "How fast do bytes get to a CUDA device?", bench_cuda_copyin},
    Bench{"copyout", "How fast do bytes come back from a CUDA device?", bench_cuda_copyout},
    Bench{"transfer", "How fast do bytes move on a CUDA device, and between two?", bench_cuda_transfer},
    Bench{"register", "What does it cost to let a CUDA device use memory of the host's? (with its end)",
          bench_cuda_register},
    Bench{"host_ptr_sync",
          "What does it cost to publish a host array to a device and to acquire it again? (medians)",
          bench_host_ptr_sync},
};

Outcome<std::vector<BenchRow>> measure(const Bench& bench) {
  Progress progress(stderr_is_terminal());
  return bench.run([&](unsigned run, unsigned runs) {
    progress.show(fmt::format("{}: run {} of {}", bench.name, run, runs));
  });
}

void print_json(const Bench& bench, const std::vector<BenchRow>& rows) {
  for (const BenchRow& row : rows) {
    print_json_line({{"bench", bench.name},
                     {"case", row.what},
                     {"value", row.value},
                     {"unit", row.unit},
                     {"peer", text_or_null(row.peer)},
                     {"version", row.version}});
  }
}

void print_text(const Bench& bench, const std::vector<BenchRow>& rows) {
  Table table({{"case"}, {"value", Table::Align::right}, {"unit"}, {"whose"}, {"version"}});
  for (const BenchRow& row : rows) {
    table.row({row.what, fmt::format("{:.2f}", row.value), row.unit, row.peer.empty() ? "berth" : row.peer,
               row.version});
  }
  fmt::print("{}: {}\n{}", bench.name, bench.question, table.text(2));
}

}  // namespace

std::string berth_version() {
  return fmt::format("{}.{}.{}", BERTH_VERSION_MAJOR, BERTH_VERSION_MINOR, BERTH_VERSION_PATCH);
}

ExitStatus run_bench(const BenchOptions& options) {
  bool any = false;
  for (const Bench& bench : benches) {
    if (bench.name.find(options.filter) == std::string_view::npos) continue;
    any = true;
    const auto rows = measure(bench);
    if (!rows) {
      fmt::print(options.json ? stderr : stdout, "{}: not measured: {}\n", bench.name, rows.error());
      continue;
    }
    options.json ? print_json(bench, *rows) : print_text(bench, *rows);
    std::fflush(stdout);
  }
  if (any) return ExitStatus::success;
  fmt::print(stderr, "berth bench: no bench's name contains '{}'; there are:\n", options.filter);
  for (const Bench& bench : benches) fmt::print(stderr, "  {}\n", bench.name);
  return ExitStatus::error;
}

}  // namespace berth::tool
