// SPDX-License-Identifier: MIT
#include <berth/cuda/allocator.hpp>

#include <array>

#include "../bench.hpp"
#include "../bench_measure.hpp"
#include "stub_driver.hpp"

namespace berth::tool {
namespace {

// Many runs, each shorter than a time slice, so that most are not interrupted.
constexpr unsigned runs = 501;
constexpr unsigned calls = 2'000;
constexpr std::size_t nbytes = 4096;

/// What is measured of one call, over the runs.
struct Case {
  const char* what;
  std::vector<double> ns{};
};

}  // namespace

Outcome<std::vector<BenchRow>> bench_cuda_call(const BenchProgress& progress) {
  auto opened = cuda::Allocator::open(0, {.driver = &stub_driver()});
  if (!opened) return complain(opened.error());
  cuda::Allocator& allocator = *opened;
  auto first = allocator.alloc(nbytes);
  auto second = allocator.alloc(nbytes);
  if (!first || !second) return complain("the stub driver has no memory");
  // The stub gives everything one address: a part of it, so that source and destination differ.
  const auto source = allocator.offset(*second, nbytes / 2, nbytes / 2);
  if (!source) return complain(source.error());
  std::array<std::byte, nbytes> bytes{};
  const auto event = allocator.record();
  if (!event) return complain(event.error());

  Case pair{"alloc with its free"};
  Case copyin{"copyin"};
  Case copyout{"copyout"};
  Case fill{"fill"};
  Case transfer{"transfer"};
  Case offset{"offset"};
  Case record{"record, with the event's end"};
  Case wait{"wait"};
  Case synchronize{"synchronize"};
  bool right = true;
  const auto measure = [&](Case& into, auto&& work) {
    into.ns.push_back(nanoseconds_for(calls, [&] {
      auto result = work();
      opaque(result);
      right = right && result.has_value();
    }));
  };
  for (unsigned run = 0; run < runs; ++run) {
    progress(run + 1, runs);
    measure(pair, [&] {
      auto buf = allocator.alloc(nbytes);
      if (buf) allocator.free(*buf, nbytes);
      return buf;
    });
    measure(copyin, [&] { return allocator.copyin(*first, bytes); });
    measure(copyout, [&] { return allocator.copyout(bytes, *first); });
    measure(fill, [&] { return allocator.fill(*first, std::byte{1}); });
    measure(transfer, [&] { return allocator.transfer(*first, *source, nbytes / 2); });
    measure(offset, [&] { return allocator.offset(*first, 1, 1); });
    measure(record, [&] { return allocator.record(); });
    measure(wait, [&] { return allocator.wait(*event); });
    measure(synchronize, [&] { return allocator.synchronize(); });
  }
  allocator.free(*first, nbytes);
  allocator.free(*second, nbytes);
  if (!right) return complain("a call over the stub driver failed");

  std::vector<BenchRow> rows;
  for (const Case* measured :
       {&pair, &copyin, &copyout, &fill, &transfer, &offset, &record, &wait, &synchronize}) {
    rows.push_back({measured->what, median(measured->ns), "ns", "", berth_version()});
  }
  return rows;
}

}  // namespace berth::tool
