// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <berth/core/packed_allocator.hpp>

#include "bench.hpp"
#include "bench_measure.hpp"
#include "bench_stub.hpp"

namespace berth::tool {
namespace {

// Many runs, each shorter than a time slice, so that most are not interrupted.
constexpr unsigned runs = 1001;
constexpr unsigned pairs = 10'000;
constexpr std::size_t nbytes = 4096;

// Nanoseconds for one call of `pair`, over many.
double time_pairs(auto pair) { return nanoseconds_for(pairs, pair); }

// One alloc and its free, through whatever has berth's interface.
double time_allocator(auto& allocator) {
  opaque(allocator);
  return time_pairs([&] {
    auto buf = allocator.alloc(nbytes, BufferSpec{});
    opaque(buf);
    if (buf) allocator.free(std::move(*buf), nbytes, BufferSpec{});
  });
}

double time_pmr(std::pmr::memory_resource& resource) {
  opaque(resource);
  return time_pairs([&] {
    void* memory = resource.allocate(nbytes);
    opaque(memory);
    resource.deallocate(memory, nbytes);
  });
}

std::string standard_library() {
#if defined(_GLIBCXX_RELEASE)
  return fmt::format("libstdc++ {}", _GLIBCXX_RELEASE);
#elif defined(_LIBCPP_VERSION)
  return fmt::format("libc++ {}", _LIBCPP_VERSION);
#else
  return "C++";
#endif
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}", __clang_major__, __clang_minor__);
#elif defined(__GNUC__)
  return fmt::format("gcc {}.{}", __GNUC__, __GNUC_MINOR__);
#else
  return "C++";
#endif
}

}  // namespace

Outcome<std::vector<BenchRow>> bench_packed_call(const BenchProgress& progress) {
  StubState state;
  StubAllocator direct(state);
  PackedAllocator packed = pack(direct);
  const auto by_virtual = make_virtual_stub(state);
  const auto by_pmr = make_pmr_stub(state);

  // Side by side in every run, so that a machine that changes its speed changes all of them.
  std::vector<double> direct_ns;
  std::vector<double> packed_ns;
  std::vector<double> added_ns;
  std::vector<double> virtual_ns;
  std::vector<double> pmr_ns;
  for (unsigned run = 0; run < runs; ++run) {
    progress(run + 1, runs);
    direct_ns.push_back(time_allocator(direct));
    packed_ns.push_back(time_allocator(packed));
    added_ns.push_back(packed_ns.back() - direct_ns.back());
    virtual_ns.push_back(time_allocator(*by_virtual));
    pmr_ns.push_back(time_pmr(*by_pmr));
  }

  const std::string own = berth_version();
  return std::vector<BenchRow>{
      {"direct", median(direct_ns), "ns", "", own},
      {"packed", median(packed_ns), "ns", "", own},
      {"packed over direct", median(added_ns), "ns", "", own},
      {"virtual call", median(virtual_ns), "ns", "C++ virtual function", compiler()},
      {"memory_resource", median(pmr_ns), "ns", "std::pmr", standard_library()},
  };
}

}  // namespace berth::tool
