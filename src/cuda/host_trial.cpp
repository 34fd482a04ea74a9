// SPDX-License-Identifier: MIT
#include "host_trial.hpp"

#include <berth/core/diagnostics.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "registration.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {
namespace {

constexpr std::size_t page_bytes = 4096;

}  // namespace

/// A page of the host's, one of the device's, and a stream.
class HostTrial::Memory {
 public:
  explicit Memory(std::shared_ptr<const Context> context) noexcept : context_(std::move(context)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    if (ended()) return;
    // A device that does not answer may still write to the page.
    static_cast<void>(page_.release());
    registration_.keep();
  }

  // The context must be current, here and below.
  Result<void> make() noexcept {
    const Driver& driver = context_->driver;
    page_.reset(new (std::align_val_t(page_bytes), std::nothrow) std::byte[page_bytes]());
    if (page_ == nullptr) return fail(Error(Errc::out_of_memory, "host").in("probe").asking(page_bytes));
    if (auto made =
            context_->check(driver.stream_create(&stream_, abi::stream_non_blocking), "cuStreamCreate");
        !made) {
      return made;
    }
    return context_->check(driver.mem_alloc(&beside_, page_bytes), "cuMemAlloc");
  }
  Result<void> pin() {
    auto taken =
        Registration::take(context_, {.bytes = page(), .read_only = false, .chunk_bytes = page_bytes});
    if (!taken) return fail(taken.error());
    registration_ = std::move(*taken);
    return {};
  }
  // Whether each side sees what the other wrote, once the stream is empty.
  Result<bool> shares(bool pinned) noexcept {
    const abi::DevicePtr address =
        pinned ? registration_.address() : reinterpret_cast<std::uintptr_t>(page_.get());
    constexpr std::byte from_device{0xA5};
    constexpr std::byte from_host{0x5A};
    const Driver& driver = context_->driver;
    std::array<std::byte, page_bytes> seen{};

    std::ranges::fill(page(), std::byte{0});
    if (auto filled = context_->check(
            driver.memset_d8_async(beside_, std::to_integer<unsigned char>(from_device), page_bytes, stream_),
            "cuMemsetD8Async");
        !filled) {
      return fail(filled.error());
    }
    if (auto moved = move(address, beside_); !moved) return fail(moved.error());
    if (!holds(from_device)) return false;

    std::ranges::fill(page(), from_host);
    if (auto moved = move(beside_, address); !moved) return fail(moved.error());
    if (auto copied = context_->check(driver.memcpy_dtoh_async(seen.data(), beside_, page_bytes, stream_),
                                      "cuMemcpyDtoHAsync");
        !copied) {
      return fail(copied.error());
    }
    if (auto idle = wait(); !idle) return fail(idle.error());
    return std::ranges::count(seen, from_host) == static_cast<std::ptrdiff_t>(page_bytes);
  }
  // A link's map is a wait.
  Result<std::chrono::nanoseconds> wait_cost() noexcept {
    std::array<std::chrono::nanoseconds, 9> costs{};
    for (std::chrono::nanoseconds& cost : costs) {
      const auto start = std::chrono::steady_clock::now();
      if (auto idle = wait(); !idle) return fail(idle.error());
      cost = std::chrono::steady_clock::now() - start;
    }
    std::ranges::nth_element(costs, costs.begin() + costs.size() / 2);
    return costs[costs.size() / 2];
  }

 private:
  struct Free {
    void operator()(std::byte* page) const noexcept {
      ::operator delete[](page, std::align_val_t(page_bytes));
    }
  };

  [[nodiscard]] std::span<std::byte> page() const noexcept { return {page_.get(), page_bytes}; }
  // Gives back what the context has of it; whether nothing uses the page any more.
  bool ended() noexcept {
    if (!process::may_release() || context_->lost()) return true;
    const Current current(*context_);
    if (!current.entered_or_told()) return false;
    const Driver& driver = context_->driver;
    const bool idle =
        stream_ == nullptr || context_->told(driver.stream_synchronize(stream_), "cuStreamSynchronize");
    if (beside_ != 0) context_->told(driver.mem_free(beside_), "cuMemFree");
    if (stream_ != nullptr) context_->told(driver.stream_destroy(stream_), "cuStreamDestroy");
    return idle;
  }
  Result<void> wait() noexcept {
    return context_->check(context_->driver.stream_synchronize(stream_), "cuStreamSynchronize");
  }
  Result<void> move(abi::DevicePtr to, abi::DevicePtr from) noexcept {
    if (auto queued = context_->check(context_->driver.memcpy_dtod_async(to, from, page_bytes, stream_),
                                      "cuMemcpyDtoDAsync");
        !queued) {
      return queued;
    }
    return wait();
  }
  // The device writes behind the compiler's back.
  [[nodiscard]] bool holds(std::byte value) const noexcept {
    const volatile std::byte* const bytes = page_.get();
    for (std::size_t i = 0; i < page_bytes; ++i) {
      if (bytes[i] != value) return false;
    }
    return true;
  }

  const std::shared_ptr<const Context> context_;
  std::unique_ptr<std::byte[], Free> page_;
  Registration registration_;
  abi::DevicePtr beside_ = 0;
  abi::Stream stream_ = nullptr;
};

namespace {

// What was found, by driver and device.
struct Found {
  const Driver* driver;
  DeviceKey device;
  device::LinkInfo info;
};
struct Findings {
  Mutex mutex;
  std::vector<Found> all BERTH_GUARDED_BY(mutex);
};

Findings& findings() noexcept {
  static Findings* const leaked = new Findings;
  return *leaked;
}

std::optional<device::LinkInfo> found_before(const Driver& driver, const DeviceKey& device) {
  Findings& known = findings();
  const MutexLock lock(known.mutex);
  for (const Found& each : known.all) {
    if (each.driver == &driver && each.device == device) return each.info;
  }
  return std::nullopt;
}

}  // namespace

HostTrial::HostTrial(std::shared_ptr<const Context> context, const DeviceKey& device,
                     const HostReach& reach) noexcept
    : context_(std::move(context)), device_(device), reach_(reach) {}
HostTrial::~HostTrial() = default;

bool HostTrial::pageable() const {
  if (!reach_.pageable) return false;
  const auto found = found_before(context_->driver, device_);
  return !found || found->kind == device::LinkKind::pageable;
}

Result<device::LinkInfo> HostTrial::run() {
  const HoldReports held;
  const MutexLock lock(mutex_);
  if (const auto found = found_before(context_->driver, device_)) return *found;
  const auto found = try_both();
  if (!found) return found;
  Findings& known = findings();
  const MutexLock entering(known.mutex);
  known.all.push_back({&context_->driver, device_, *found});
  return found;
}

Result<device::LinkInfo> HostTrial::try_both() {
  const Current current(*context_);
  if (!current.entered()) return fail(current.entered().error());
  std::unique_ptr<Memory> memory(new (std::nothrow) Memory(context_));
  if (memory == nullptr) return fail(Error(Errc::out_of_memory, "host").in("probe").asking(sizeof(Memory)));
  if (auto made = memory->make(); !made) return fail(made.error());
  std::optional<device::LinkKind> kind;
  // A driver may refuse the pages that its device is said to reach.
  if (reach_.pageable && memory->shares(false).value_or(false)) kind = device::LinkKind::pageable;
  if (auto usable = context_->usable("probe"); !usable) return fail(usable.error());
  if (!kind && reach_.registers) {
    if (auto pinned = memory->pin(); !pinned) return fail(pinned.error());
    const auto shared = memory->shares(true);
    if (!shared) return fail(shared.error());
    if (*shared) kind = device::LinkKind::registered;
  }
  if (!kind) {
    return fail(Error(Errc::unsupported, backend)
                    .in("probe")
                    .because("the device and the host do not see each other's bytes"));
  }
  const auto cost = memory->wait_cost();
  if (!cost) return fail(cost.error());
  kept_ = std::move(memory);
  return device::LinkInfo{*kind, *cost};
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
