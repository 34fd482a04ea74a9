// SPDX-License-Identifier: MIT
#pragma once

#include <berth/testing/context.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>

/// Laws of what sizes an allocator serves, and how it refuses the others.
namespace berth::inline BERTH_ABI::testing::laws {

inline constexpr std::array<std::size_t, 19> ordinary_sizes{
    1, 2, 3, 7, 31, 63, 64, 65, 127, 255, 256, 257, 1000, 4095, 4096, 4097, 65537, 1 << 20, (1 << 20) + 1};

template <Allocator A>
void empty_buffers(Context<A>& t) {
  A& a = t.allocator();
  const auto empty = t.alloc(0);
  const auto also_empty = t.alloc(0, {.zero = true});
  if (!empty || !also_empty) return;
  t.expect(empty->buf().nbytes() == 0 && !empty->buf().is_view(), "alloc(0) is an empty root");
  t.expect(empty->buf().instance() == a.info().instance, "an empty buffer names its instance");
  t.expect(a.copyin(empty->buf(), {}), "copyin of 0 bytes");
  t.expect(a.copyout({}, empty->buf()), "copyout of 0 bytes");
  std::byte byte{};
  t.expect_error(a.copyin(empty->buf(), {&byte, 1}), Errc::out_of_range,
                 "copyin of a byte to an empty buffer");
  t.expect_error(a.copyout({&byte, 1}, empty->buf()), Errc::out_of_range,
                 "copyout of a byte from an empty buffer");
  const auto address = a.addr(empty->buf());
  if (t.expect(address, "addr of an empty buffer"))
    t.expect(*address == 0, "the address of an empty buffer is 0");
  if constexpr (OffsetAllocator<A>) {
    if (a.supports_offset()) {
      t.expect(a.offset(empty->buf(), 0, 0), "an empty view of an empty buffer");
      t.expect_error(a.offset(empty->buf(), 1, 0), Errc::out_of_range, "a byte of an empty buffer");
    }
  }
  if constexpr (FillAllocator<A>) {
    if (a.supports_fill()) t.expect(a.fill(empty->buf(), std::byte{1}), "fill of an empty buffer");
  }
  if constexpr (TransferAllocator<A>) {
    if (a.supports_transfer())
      t.expect(a.transfer(empty->buf(), also_empty->buf(), 0), "transfer of 0 bytes");
  }
  if constexpr (MappableAllocator<A>) {
    if (a.supports_map()) t.expect(a.map(empty->buf(), Access::write, 0, 0), "map of an empty buffer");
  }
}

template <Allocator A>
void round_trip(Context<A>& t) {
  for (const std::size_t nbytes : ordinary_sizes) {
    const auto bytes = pattern(nbytes, static_cast<std::uint32_t>(nbytes));
    const auto lease = t.alloc_with(bytes);
    if (!lease) return;
    t.expect(lease->buf().nbytes() == nbytes, "a buffer has the size asked for");
    t.expect(!lease->buf().is_view(), "an allocation is no view");
    t.expect_holds(lease->buf(), bytes, "what was copied in comes out");
  }
}

template <Allocator A>
void sizes_near_the_end(Context<A>& t) {
  A& a = t.allocator();
  const std::size_t last = std::min<std::size_t>(a.info().granularity, 4096) + 1;
  for (std::size_t k = 0; k <= last; ++k) {
    for (const std::size_t nbytes :
         {std::numeric_limits<std::size_t>::max() - k,
          static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) + 1 + k}) {
      for (const BufferSpec spec : {BufferSpec{}, BufferSpec{.zero = true}}) {
        auto buf = a.alloc(nbytes, spec);
        if (buf) {
          a.free(std::move(*buf), nbytes, spec);
          t.failed("alloc of " + std::to_string(nbytes) + " bytes succeeds");
          return;
        }
        const Errc code = buf.error().code();
        t.expect(code == Errc::exceeds_device_maximum || code == Errc::out_of_memory ||
                     code == Errc::invalid_size || code == Errc::unsupported,
                 "a size that no device has is refused as one: " + buf.error().message());
      }
    }
  }
  const auto bytes = pattern(100, 1);
  if (const auto lease = t.alloc_with(bytes)) t.expect_holds(lease->buf(), bytes, "usable after refusals");
}

template <Allocator A>
void above_the_device_maximum(Context<A>& t) {
  A& a = t.allocator();
  const std::uint64_t maximum = a.info().max_bytes;
  if (maximum >= std::numeric_limits<std::size_t>::max()) return t.skipped("the device names no maximum");
  const std::size_t nbytes = static_cast<std::size_t>(maximum) + 1;
  const auto refused = a.alloc(nbytes, BufferSpec{});
  // A budget below the device's maximum answers first.
  if (!refused && refused.error().code() == Errc::out_of_memory && refused.error().limit() &&
      *refused.error().limit() < maximum) {
    return t.skipped("a budget of " + std::to_string(*refused.error().limit()) +
                     " bytes stands before the device");
  }
  if (!t.expect_error(refused, Errc::exceeds_device_maximum, "one byte above the maximum")) return;
  t.expect(refused.error().asked() == nbytes, "the error names the bytes asked");
  t.expect(refused.error().limit() == maximum, "the error names the maximum");
}

/// Bytes of memory that the machine could give now; 0 when it does not say.
[[nodiscard]] inline std::uint64_t available_host_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (meminfo >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(meminfo, unit);
  }
  return 0;
}

template <Allocator A>
void above_4_gib(Context<A>& t) {
  A& a = t.allocator();
  constexpr std::uint64_t nbytes = (std::uint64_t{4} << 30U) + 4097;
  if constexpr (!OffsetAllocator<A>) {
    return t.skipped("needs views to reach the end without 4 GiB of host memory");
  } else {
    if (!a.supports_offset()) return t.skipped("needs views to reach the end without 4 GiB of host memory");
    if (a.info().max_bytes < nbytes) {
      return t.skipped("the device allocates at most " + std::to_string(a.info().max_bytes) +
                       " bytes at once");
    }
    if (available_host_bytes() < 2 * nbytes) return t.skipped("less than 8 GiB of memory are available");
    auto buf = a.alloc(nbytes, BufferSpec{});
    if (!buf && buf.error().code() == Errc::out_of_memory) {
      return t.skipped("no memory for 4 GiB: " + buf.error().message());
    }
    if (!t.expect(buf, "alloc above 4 GiB")) return;
    const Lease<A> lease(a, std::move(*buf), nbytes, {});
    const auto low = pattern(4097, 1);
    const auto high = pattern(4097, 2);
    const auto last = a.offset(lease.buf(), high.size(), nbytes - high.size());
    if (!t.expect(last, "a view past 4 GiB")) return;
    t.expect(a.copyin(lease.buf(), low), "copyin at the start");
    t.expect(a.copyin(*last, high), "copyin past 4 GiB");
    t.expect_holds(lease.buf(), low, "the start does not alias the end");
    t.expect_holds(*last, high, "the end past 4 GiB");
  }
}

template <Allocator A>
void alignment(Context<A>& t) {
  A& a = t.allocator();
  const AllocatorInfo info = a.info();
  t.expect(info.alignment != 0 && (info.alignment & (info.alignment - 1)) == 0,
           "alignment is a power of two");
  t.expect(info.granularity != 0, "granularity is not 0");
  t.expect(info.max_bytes != 0, "the device allocates something");
  for (const std::size_t nbytes : ordinary_sizes) {
    const auto lease = t.alloc(nbytes);
    if (!lease) return;
    const auto address = a.addr(lease->buf());
    if (!address && address.error().code() == Errc::unsupported)
      return t.skipped("the device has no addresses");
    if (!t.expect(address, "addr")) return;
    t.expect(*address != 0 && *address % info.alignment == 0, "an address is aligned as info() says");
  }
}

}  // namespace berth::inline BERTH_ABI::testing::laws
