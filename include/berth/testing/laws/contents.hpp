// SPDX-License-Identifier: MIT
#pragma once

#include <berth/testing/context.hpp>

#include <cstdlib>
#include <memory>

/// Laws of what is in the buffers.
namespace berth::inline BERTH_ABI::testing::laws {

template <Allocator A>
void distinct_blocks(Context<A>& t) {
  constexpr std::size_t count = 48;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<Lease<A>> leases;
  leases.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes.push_back(pattern(1 + i * 2371 % 5000, static_cast<std::uint32_t>(i)));
    auto lease = t.alloc_with(bytes.back());
    if (!lease) return;
    leases.push_back(std::move(*lease));
  }
  for (std::size_t i = 0; i < count; ++i)
    t.expect_holds(leases[i].buf(), bytes[i], "live buffers share no byte");
}

template <Allocator A>
void zeroed(Context<A>& t) {
  for (const std::size_t nbytes :
       {std::size_t{1}, std::size_t{777}, std::size_t{65536}, std::size_t{1000003}}) {
    // Leaves dirty memory of the same size behind, which a fresh allocation may get.
    if (const auto dirty = t.alloc_with(std::vector<std::byte>(nbytes, std::byte{0xFF})); !dirty) return;
    auto buf = t.allocator().alloc(nbytes, BufferSpec{.zero = true});
    if (!buf && buf.error().code() == Errc::unsupported) return t.skipped("zero is not supported");
    if (!t.expect(buf, "alloc with zero")) return;
    const Lease<A> lease(t.allocator(), std::move(*buf), nbytes, {.zero = true});
    t.expect_holds(lease.buf(), std::vector<std::byte>(nbytes), "zeroed memory is zero");
  }
}

template <Allocator A>
void every_spec(Context<A>& t) {
  A& a = t.allocator();
  const auto bytes = pattern(1234, 5);
  for (unsigned flags = 0; flags < 32; ++flags) {
    const BufferSpec spec{.uncached = (flags & 1U) != 0,
                          .cpu_access = (flags & 2U) != 0,
                          .host = (flags & 4U) != 0,
                          .nolru = (flags & 8U) != 0,
                          .zero = (flags & 16U) != 0};
    auto buf = a.alloc(bytes.size(), spec);
    if (!buf && buf.error().code() == Errc::unsupported && (spec.host || spec.zero)) continue;
    if (!t.expect(buf, "alloc with flags " + std::to_string(flags))) return;
    const Lease<A> lease(a, std::move(*buf), bytes.size(), spec);
    if (!t.expect(a.copyin(lease.buf(), bytes), "copyin")) return;
    t.expect_holds(lease.buf(), bytes, "round trip with flags " + std::to_string(flags));
  }
}

template <Allocator A>
void external_memory(Context<A>& t) {
  constexpr std::size_t nbytes = 8192;
  A& a = t.allocator();
  const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, nbytes), &std::free);
  const std::span<std::byte> host(static_cast<std::byte*>(memory.get()), nbytes);
  const auto before = pattern(nbytes, 1);
  const auto after = pattern(nbytes, 2);
  std::ranges::copy(before, host.begin());
  const BufferSpec spec{.host = true, .external_ptr = host.data()};
  for (int round = 0; round < 2; ++round) {
    auto buf = a.alloc(nbytes, spec);
    if (!buf && buf.error().code() == Errc::unsupported) return t.skipped("host memory cannot be wrapped");
    if (!t.expect(buf, "alloc over the caller's memory")) return;
    const Lease<A> lease(a, std::move(*buf), nbytes, spec);
    t.expect(lease.buf().nbytes() == nbytes, "the wrapped size");
    t.expect_holds(lease.buf(), before, "wrapped memory holds the host's bytes");
    t.expect(a.copyin(lease.buf(), after), "copyin");
    t.expect_holds(lease.buf(), after, "wrapped memory is written");
    t.expect(a.copyin(lease.buf(), before), "copyin");
  }
  t.expect_error(a.alloc(nbytes, {.zero = true, .external_ptr = host.data()}), Errc::invalid_argument,
                 "zero with external_ptr");
  std::ranges::fill(host, std::byte{7});  // the memory is the caller's again
}

}  // namespace berth::inline BERTH_ABI::testing::laws
