// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <berth/adaptors/lru.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>
#include <berth/cuda/framework.hpp>
#include <berth/device/registry.hpp>
#include <berth/host_ptr/host_ptr.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "../bench.hpp"
#include "../bench_measure.hpp"
#include "../text.hpp"
#include "native.hpp"

namespace berth::tool {
namespace {

using cuda::CudaBuffer;
using cuda::abi::DevicePtr;

constexpr unsigned runs = 15;
constexpr std::size_t page_bytes = 4096;
constexpr std::size_t kib = std::size_t{1} << 10U;
constexpr std::size_t mib = std::size_t{1} << 20U;

/// The first device, used through berth and natively, on one stream.
struct Opened {
  cuda::Allocator allocator;
  std::string version;

  [[nodiscard]] const cuda::Driver& driver() const noexcept { return allocator.driver(); }
};

Outcome<Opened> open(int ordinal = 0) {
  const auto version = cuda::driver_version();
  if (!version) return complain(version.error());
  auto allocator = cuda::Allocator::open(ordinal);
  if (!allocator) return complain(allocator.error());
  return Opened{std::move(*allocator), fmt::format("CUDA {}.{}", version->major, version->minor)};
}

struct Freed {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using Pages = std::unique_ptr<std::byte, Freed>;

// Memory of the host, touched already. Null when there is none to spare.
Pages pages(std::size_t nbytes) {
  Pages memory(static_cast<std::byte*>(std::aligned_alloc(page_bytes, nbytes)));
  if (memory != nullptr) std::fill_n(memory.get(), nbytes, std::byte{1});
  return memory;
}

// How often a call that moves `nbytes` is made in a run.
unsigned times_for(std::size_t nbytes) noexcept {
  return static_cast<unsigned>(std::max<std::size_t>(1, std::min<std::size_t>(200, 16 * mib / nbytes)));
}

/// One call, berth's and the driver's own, measured in turns.
class Rows {
 public:
  /// The time is told up to `timed_bytes`, above it the rate.
  Rows(const BenchProgress& progress, std::string version, std::size_t timed_bytes = mib)
      : progress_(progress), version_(std::move(version)), timed_bytes_(timed_bytes) {}

  /// A row for each; `peer` names the driver's calls. False when a call failed.
  bool add(const std::string& what, std::size_t nbytes, const char* peer, auto&& own, auto&& native) {
    const unsigned times = times_for(nbytes);
    std::vector<double> own_ns;
    std::vector<double> native_ns;
    bool right = own() && native();  // what the driver does at the first use is not measured
    for (unsigned run = 0; right && run < runs; ++run) {
      progress_(run + 1, runs);
      own_ns.push_back(nanoseconds_for(times, [&] { right = own() && right; }));
      native_ns.push_back(nanoseconds_for(times, [&] { right = native() && right; }));
    }
    if (!right) return false;
    row(what, nbytes, median(own_ns), "", berth_version());
    row(what, nbytes, median(native_ns), peer, version_);
    return true;
  }
  /// A time alone.
  void time(const std::string& what, double ns) {
    rows_.push_back({what, ns / 1000, "us", "", berth_version()});
  }
  [[nodiscard]] std::vector<BenchRow> take() { return std::move(rows_); }

 private:
  void row(const std::string& what, std::size_t nbytes, double ns, const char* peer, std::string version) {
    const bool rate = nbytes > timed_bytes_;
    rows_.push_back({what, rate ? static_cast<double>(nbytes) / ns : ns / 1000, rate ? "GB/s" : "us", peer,
                     std::move(version)});
  }

  const BenchProgress& progress_;
  std::string version_;
  std::size_t timed_bytes_;
  std::vector<BenchRow> rows_;
};

bool succeeded(cuda::abi::Status status) noexcept { return status == cuda::abi::success; }

constexpr std::size_t copy_sizes[] = {4 * kib, 64 * kib, mib, 64 * mib, 1024 * mib};
constexpr const char* failed = "a call failed";

// `copyin` or `copyout`, from and to pageable and pinned memory.
Outcome<std::vector<BenchRow>> bench_copies(const BenchProgress& progress, bool in) {
  auto opened = open();
  if (!opened) return complain(opened.error());
  cuda::Allocator& allocator = opened->allocator;
  const cuda::Driver& driver = opened->driver();
  Rows rows(progress, opened->version);
  const char* const peer =
      in ? "cuMemcpyHtoDAsync, cuStreamSynchronize" : "cuMemcpyDtoHAsync, cuStreamSynchronize";

  const auto measure = [&](const char* kind, const CudaBuffer& buf, std::span<std::byte> bytes) {
    const auto own = [&] {
      return (in ? allocator.copyin(buf, bytes) : allocator.copyout(bytes, buf)).has_value();
    };
    const auto native = [&] {
      const auto queued =
          in ? driver.memcpy_htod_async(buf.address(), bytes.data(), bytes.size(), allocator.queue())
             : driver.memcpy_dtoh_async(bytes.data(), buf.address(), bytes.size(), allocator.queue());
      return succeeded(queued) && succeeded(driver.stream_synchronize(allocator.queue()));
    };
    const InContext current(allocator);
    return rows.add(fmt::format("{} {}", binary_size(bytes.size()), kind), bytes.size(), peer, own, native);
  };
  for (const std::size_t nbytes : copy_sizes) {
    auto buf = allocator.alloc(nbytes);
    if (!buf) break;
    const Pages pageable = pages(nbytes);
    auto pinned = allocator.alloc(nbytes, {.host = true});
    bool right = pageable == nullptr || measure("pageable", *buf, {pageable.get(), nbytes});
    if (pinned) right = right && measure("pinned", *buf, {pinned->host_data(), nbytes});
    if (pinned) allocator.free(*pinned, nbytes, {.host = true});
    allocator.free(*buf, nbytes);
    if (!right) return complain(failed);
  }
  return rows.take();
}

}  // namespace

Outcome<std::vector<BenchRow>> bench_cuda_copyin(const BenchProgress& progress) {
  return bench_copies(progress, true);
}
Outcome<std::vector<BenchRow>> bench_cuda_copyout(const BenchProgress& progress) {
  return bench_copies(progress, false);
}

Outcome<std::vector<BenchRow>> bench_cuda_alloc_free(const BenchProgress& progress) {
  auto opened = open();
  if (!opened) return complain(opened.error());
  cuda::Allocator& allocator = opened->allocator;
  const cuda::Driver& driver = opened->driver();
  auto lru = LruAllocator<cuda::Allocator>::create(allocator);
  if (!lru) return complain(lru.error());
  Rows rows(progress, opened->version);
  const InContext current(allocator);
  constexpr unsigned hits = 10'000;
  for (const std::size_t nbytes : {4 * kib, mib}) {
    const auto native = [&] {
      DevicePtr address = 0;
      return succeeded(driver.mem_alloc(&address, nbytes)) && succeeded(driver.mem_free(address));
    };
    const auto own = [&](auto& from, const BufferSpec& spec) {
      return [&from, spec, nbytes] {
        auto buf = from.alloc(nbytes, spec);
        if (buf) from.free(*buf, nbytes, spec);
        return buf.has_value();
      };
    };
    if (!rows.add(binary_size(nbytes), nbytes, "cuMemAlloc, cuMemFree", own(allocator, {}), native))
      return complain(failed);
    const auto native_pinned = [&] {
      void* memory = nullptr;
      return succeeded(driver.mem_host_alloc(&memory, nbytes, cuda::abi::memhostalloc_portable)) &&
             succeeded(driver.mem_free_host(memory));
    };
    if (!rows.add(binary_size(nbytes) + " pinned", nbytes, "cuMemHostAlloc, cuMemFreeHost",
                  own(allocator, {.host = true}), native_pinned)) {
      return complain(failed);
    }
    const auto hit = own(*lru, {});
    if (!hit()) return complain(failed);
    std::vector<double> ns;
    for (unsigned run = 0; run < runs; ++run) ns.push_back(nanoseconds_for(hits, hit));
    rows.time(binary_size(nbytes) + " under LruAllocator, a hit", median(ns));
  }
  return rows.take();
}

Outcome<std::vector<BenchRow>> bench_cuda_transfer(const BenchProgress& progress) {
  auto opened = open();
  if (!opened) return complain(opened.error());
  const cuda::Driver& driver = opened->driver();
  Rows rows(progress, opened->version);
  auto second = open(1);  // where there is one
  for (const std::size_t nbytes : {4 * kib, mib, 64 * mib, 1024 * mib}) {
    const auto measure = [&](const char* kind, const char* peer, cuda::Allocator& to, cuda::Allocator& from) {
      auto dest = to.alloc(nbytes);
      auto src = from.alloc(nbytes);
      bool right = dest && src;
      if (right) {
        const auto own = [&] {
          return to.transfer(*dest, *src, nbytes).has_value() && to.synchronize().has_value();
        };
        const auto native = [&] {
          const auto queued =
              to.context() == from.context()
                  ? driver.memcpy_dtod_async(dest->address(), src->address(), nbytes, to.queue())
                  : driver.memcpy_peer_async(dest->address(), to.context(), src->address(), from.context(),
                                             nbytes, to.queue());
          return succeeded(queued) && succeeded(driver.stream_synchronize(to.queue()));
        };
        const InContext current(to);
        right = rows.add(binary_size(nbytes) + kind, nbytes, peer, own, native);
      }
      if (dest) to.free(*dest, nbytes);
      if (src) from.free(*src, nbytes);
      return right;
    };
    if (!measure("", "cuMemcpyDtoDAsync, cuStreamSynchronize", opened->allocator, opened->allocator))
      return complain(failed);
    if (second && !measure(" to another device", "cuMemcpyPeerAsync, cuStreamSynchronize", second->allocator,
                           opened->allocator)) {
      return complain(failed);
    }
  }
  return rows.take();
}

Outcome<std::vector<BenchRow>> bench_cuda_register(const BenchProgress& progress) {
  auto opened = open();
  if (!opened) return complain(opened.error());
  cuda::Allocator& allocator = opened->allocator;
  const cuda::Driver& driver = opened->driver();
  if (auto known = device::register_framework(cuda::framework()); !known) return complain(known.error());
  Rows rows(progress, opened->version, SIZE_MAX);
  const InContext current(allocator);
  for (const std::size_t nbytes : {4 * kib, mib, 64 * mib, 1024 * mib}) {
    const Pages memory = pages(nbytes);
    if (memory == nullptr) break;
    const BufferSpec spec{.host = true, .external_ptr = memory.get()};
    const auto own = [&] {
      auto buf = allocator.alloc(nbytes, spec);
      if (buf) allocator.free(*buf, nbytes, spec);
      return buf.has_value();
    };
    const auto native = [&] {
      return succeeded(driver.mem_host_register(
                 memory.get(), nbytes,
                 cuda::abi::memhostregister_portable | cuda::abi::memhostregister_devicemap)) &&
             succeeded(driver.mem_host_unregister(memory.get()));
    };
    constexpr const char* peer = "cuMemHostRegister, cuMemHostUnregister";
    if (!rows.add(binary_size(nbytes), nbytes, peer, own, native)) return complain(failed);

    const device::Device device("CUDA", 0, "bench", pack(allocator));
    const auto array = BigArray<std::uint8_t>::over({reinterpret_cast<std::uint8_t*>(memory.get()), nbytes});
    auto vector = Vector<std::uint8_t>::over(array);
    const auto attach = [&] {
      return host_ptr::attach(vector, device).has_value() && host_ptr::detach(vector, device).has_value();
    };
    if (!rows.add(fmt::format("attach, detach, {}", binary_size(nbytes)), nbytes, peer, attach, native))
      return complain(failed);
    const auto registered = allocator.register_host({memory.get(), nbytes});
    if (!registered) return complain(registered.error());
    std::vector<double> ns;
    for (unsigned run = 0; run < runs; ++run) {
      bool right = true;
      ns.push_back(nanoseconds_for(times_for(nbytes), [&] { right = attach() && right; }));
      if (!right) return complain(failed);
    }
    rows.time(fmt::format("attach, detach, {}, registered before", binary_size(nbytes)), median(ns));
  }
  return rows.take();
}

}  // namespace berth::tool
