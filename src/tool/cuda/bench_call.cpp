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
  const BufferSpec host{.host = true};
  auto third = allocator.alloc(nbytes, host);
  auto other = cuda::Allocator::open(0, {.driver = &stub_driver()});
  auto away = cuda::Allocator::open(0, {.driver = &stub_driver_elsewhere()});
  if (!third || !other || !away) return complain("the stub driver does not open");
  auto far = other->alloc(nbytes);
  auto fourth = away->alloc(nbytes);
  if (!far || !fourth) return complain("the stub driver has no memory");
  const auto far_part = other->offset(*far, nbytes / 2, nbytes / 2);
  if (!far_part) return complain(far_part.error());

  Case pair{"alloc with its free"};
  Case copyin{"copyin"};
  Case copyout{"copyout"};
  Case fill{"fill"};
  Case transfer{"transfer"};
  Case offset{"offset"};
  Case record{"record, with the event's end"};
  Case wait{"wait"};
  Case synchronize{"synchronize"};
  Case pinned{"alloc with its free, pinned"};
  Case map{"map with its end, pinned"};
  Case between{"transfer between two instances"};
  Case elsewhere{"copyin, another context current"};
  Case elsewhere_pair{"alloc with its free, another context current"};
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
    measure(pinned, [&] {
      auto buf = allocator.alloc(nbytes, host);
      if (buf) allocator.free(*buf, nbytes, host);
      return buf;
    });
    measure(map, [&] { return allocator.map(*third, Access::read, nbytes); });
    measure(between, [&] { return allocator.transfer(*first, *far_part, nbytes / 2); });
    measure(elsewhere, [&] { return away->copyin(*fourth, bytes); });
    measure(elsewhere_pair, [&] {
      auto buf = away->alloc(nbytes);
      if (buf) away->free(*buf, nbytes);
      return buf;
    });
  }
  allocator.free(*third, nbytes, host);
  other->free(*far, nbytes);
  away->free(*fourth, nbytes);
  allocator.free(*first, nbytes);
  allocator.free(*second, nbytes);
  if (!right) return complain("a call over the stub driver failed");

  std::vector<BenchRow> rows;
  for (const Case* measured : {&pair, &copyin, &copyout, &fill, &transfer, &offset, &record, &wait,
                               &synchronize, &pinned, &map, &between, &elsewhere, &elsewhere_pair}) {
    rows.push_back({measured->what, median(measured->ns), "ns", "", berth_version()});
  }
  return rows;
}

}  // namespace berth::tool
