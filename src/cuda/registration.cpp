// SPDX-License-Identifier: MIT
#include "registration.hpp"

#include <berth/core/diagnostics.hpp>
#include <berth/core/mutex.hpp>

#include <cstdint>
#include <map>
#include <new>

namespace berth::inline BERTH_ABI::cuda::detail {

constinit std::atomic<std::size_t> chunked_registrations{0};

/// What berth registered, and how many share it.
struct Pin {
  const std::shared_ptr<const Context> context;  // it goes with
  const std::span<std::byte> bytes;
  const bool read_only;
  const std::size_t chunk_bytes;
  std::size_t references = 1;

  [[nodiscard]] std::uintptr_t begin() const noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes.data());
  }
  [[nodiscard]] std::uintptr_t end() const noexcept { return begin() + bytes.size(); }
};

namespace {

constexpr std::size_t page_bytes = 4096;

// Chunks end where a page does: so many bytes at `address`, which is in memory that starts at `begin`, lie
// before the next one.
std::size_t left_in_chunk(std::uintptr_t begin, std::uintptr_t address, std::size_t chunk_bytes) noexcept {
  const std::uintptr_t first_page = begin / page_bytes * page_bytes;
  return chunk_bytes - (address - first_page) % chunk_bytes;
}

// Pins by where they begin. Process-wide, since a registration serves all contexts.
using Pins = std::map<std::uintptr_t, std::unique_ptr<Pin>>;

struct Registry {
  Mutex registering;  // held across calls of the driver, which registers under a lock of its own
  Pins pins BERTH_GUARDED_BY(registering);
  Mutex mutex;
  std::map<std::uintptr_t, const Pin*> chunked BERTH_GUARDED_BY(mutex);  // those with borders inside
};

// Never destroyed: registrations may end until the very end of the process.
Registry& registry() noexcept {
  static Registry* const leaked = new Registry;
  return *leaked;
}

Error about(std::span<const std::byte> bytes, Errc code) noexcept {
  return Error(code, backend)
      .in("cuMemHostRegister")
      .asking(bytes.size())
      .at(reinterpret_cast<std::uintptr_t>(bytes.data()));
}

// What the driver says of memory that it cannot register is a refusal; anything else is a failure.
Error refusal(const Error& failed, std::span<const std::byte> bytes) noexcept {
  const auto status = failed.status().value_or(abi::success);
  if (status != abi::invalid_value && status != abi::not_permitted)
    return Error(failed).asking(bytes.size()).at(reinterpret_cast<std::uintptr_t>(bytes.data()));
  return about(bytes, Errc::unsupported).caused_by(failed).because("the driver registers no such memory");
}

bool unregister(const Context& context, std::span<std::byte> bytes, std::size_t chunk_bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  bool gone = true;
  while (!bytes.empty()) {
    gone = context.told(context.driver.mem_host_unregister(bytes.data()), "cuMemHostUnregister") && gone;
    const std::size_t chunk =
        left_in_chunk(begin, reinterpret_cast<std::uintptr_t>(bytes.data()), chunk_bytes);
    bytes = bytes.subspan(std::min(chunk, bytes.size()));
  }
  return gone;
}

Result<abi::DevicePtr> seen_by_device(const Context& context, std::byte* host) noexcept {
  abi::DevicePtr address = 0;
  if (auto seen = context.check(context.driver.mem_host_get_device_pointer(&address, host, 0),
                                "cuMemHostGetDevicePointer");
      !seen) {
    return fail(seen.error());
  }
  return address;
}

// Registers one chunk after the other, or nothing. Where the device sees the first.
Result<abi::DevicePtr> register_all(const Context& context, const Registration::Request& request) noexcept {
  const unsigned flags = abi::memhostregister_portable | abi::memhostregister_devicemap |
                         (request.read_only ? abi::memhostregister_read_only : 0U);
  const std::span<std::byte> bytes = request.bytes;
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const auto give_up = [&](const Error& failed, std::size_t registered) {
    static_cast<void>(unregister(context, bytes.first(registered), request.chunk_bytes));
    return fail(failed);
  };
  abi::DevicePtr first = 0;
  for (std::size_t done = 0; done < bytes.size();) {
    const auto chunk = bytes.subspan(
        done, std::min(bytes.size() - done, left_in_chunk(begin, begin + done, request.chunk_bytes)));
    if (auto made = context.check(context.driver.mem_host_register(chunk.data(), chunk.size(), flags),
                                  "cuMemHostRegister");
        !made) {
      return give_up(refusal(made.error(), chunk), done);
    }
    const auto seen = seen_by_device(context, chunk.data());
    if (!seen) return give_up(Error(seen.error()).asking(chunk.size()), done + chunk.size());
    if (done == 0) first = *seen;
    if (*seen != first + done) {
      return give_up(about(bytes, Errc::unsupported)
                         .limited_to(done)
                         .because("the device does not see the chunks of the memory side by side"),
                     done + chunk.size());
    }
    done += chunk.size();
  }
  return first;
}

// What somebody else pinned and berth knows only through the driver: `overlap` unless it is all of it.
Result<bool> pinned_by_others(const Context& context, std::span<std::byte> bytes) noexcept {
  const Driver& driver = context.driver;
  const auto address = static_cast<abi::DevicePtr>(reinterpret_cast<std::uintptr_t>(bytes.data()));
  unsigned type = 0;
  const abi::Status known = driver.pointer_get_attribute(&type, abi::pointer_attribute_memory_type, address);
  if (known == abi::invalid_value) return false;
  if (auto asked = context.check(known, "cuPointerGetAttribute"); !asked) return fail(asked.error());
  if (type != abi::memorytype_host) return false;
  abi::DevicePtr begin = 0;
  std::size_t size = 0;
  if (auto asked = context.check(
          driver.pointer_get_attribute(&begin, abi::pointer_attribute_range_start_addr, address),
          "cuPointerGetAttribute");
      !asked) {
    return fail(asked.error());
  }
  if (auto asked =
          context.check(driver.pointer_get_attribute(&size, abi::pointer_attribute_range_size, address),
                        "cuPointerGetAttribute");
      !asked) {
    return fail(asked.error());
  }
  if (bytes.size() <= size - (address - begin)) return true;
  return fail(Error(Errc::overlap, backend)
                  .in("cuMemHostRegister")
                  .asking(bytes.size())
                  .at(begin)
                  .limited_to(size)
                  .because("somebody else pinned a part of the memory"));
}

// Berth's own pin that covers the bytes; null when none touches them.
Result<Pin*> own_pin(const Pins& pins, const Registration::Request& request) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(request.bytes.data());
  const std::uintptr_t end = begin + request.bytes.size();
  const auto next = pins.lower_bound(begin + 1);
  const auto overlap = [&](const Pin& pin, const char* reason) {
    return fail(Error(Errc::overlap, backend)
                    .in("cuMemHostRegister")
                    .asking(request.bytes.size())
                    .at(pin.begin())
                    .limited_to(pin.bytes.size())
                    .because(reason));
  };
  if (next != pins.begin()) {
    Pin& pin = *std::prev(next)->second;
    if (begin < pin.end()) {
      if (end > pin.end()) return overlap(pin, "a part of the memory is registered");
      if (pin.read_only && !request.read_only) return overlap(pin, "it is registered for reading only");
      return &pin;
    }
  }
  if (next != pins.end() && next->second->begin() < end)
    return overlap(*next->second, "a part of the memory is registered");
  return nullptr;
}

}  // namespace

Result<Registration> Registration::take(std::shared_ptr<const Context> context, const Request& request) {
  const Context& in = *context;
  const HoldReports held;
  Registry& live = registry();
  const MutexLock lock(live.registering);
  const auto shared = own_pin(live.pins, request);
  if (!shared) return fail(shared.error());
  if (*shared != nullptr) {
    const auto address = seen_by_device(in, request.bytes.data());
    if (!address) return fail(address.error());
    ++(*shared)->references;
    return Registration(*shared, *address);
  }
  const auto others = pinned_by_others(in, request.bytes);
  if (!others) return fail(others.error());
  if (*others) {
    const auto address = seen_by_device(in, request.bytes.data());
    if (address) return Registration(nullptr, *address);
    if (address.error().status() != abi::invalid_value) return fail(address.error());
    return fail(about(request.bytes, Errc::unsupported)
                    .caused_by(address.error())
                    .because("somebody else pinned the memory without mapping it"));
  }
  const auto address = register_all(in, request);
  if (!address) return fail(address.error());
  auto pin = std::unique_ptr<Pin>(
      new (std::nothrow) Pin{std::move(context), request.bytes, request.read_only, request.chunk_bytes});
  if (pin == nullptr) {
    static_cast<void>(unregister(in, request.bytes, request.chunk_bytes));
    return fail(Error(Errc::out_of_memory, "host").in("cuMemHostRegister").asking(sizeof(Pin)));
  }
  Pin* const made = pin.get();
  live.pins.emplace(made->begin(), std::move(pin));
  if (left_in_chunk(made->begin(), made->begin(), made->chunk_bytes) < made->bytes.size()) {
    const MutexLock borders(live.mutex);
    live.chunked.emplace(made->begin(), made);
    chunked_registrations.fetch_add(1, std::memory_order_release);
  }
  return Registration(made, *address);
}

bool Registration::release() noexcept {
  Pin* const pin = std::exchange(pin_, nullptr);
  if (pin == nullptr || !process::may_release()) return true;
  const HoldReports held;
  Registry& live = registry();
  const MutexLock lock(live.registering);
  if (pin->references > 1) {
    --pin->references;
    return true;
  }
  // What a driver that works does not let go of stays known, and is shared again.
  const Context& context = *pin->context;
  const bool lost = context.lost();
  if (!lost) {
    const Current current(context);
    if (!current.entered_or_told() || !unregister(context, pin->bytes, pin->chunk_bytes)) return false;
  }
  {
    const MutexLock borders(live.mutex);
    if (live.chunked.erase(pin->begin()) != 0) chunked_registrations.fetch_sub(1, std::memory_order_release);
  }
  live.pins.erase(pin->begin());
  return !lost;
}

std::size_t before_border(const void* host, std::size_t nbytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(host);
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  auto found = live.chunked.upper_bound(address);
  if (found != live.chunked.begin()) {
    const Pin& pin = *std::prev(found)->second;
    if (address < pin.end()) {
      const std::size_t chunk = left_in_chunk(pin.begin(), address, pin.chunk_bytes);
      return std::min({nbytes, chunk, static_cast<std::size_t>(pin.end() - address)});
    }
  }
  // The memory before a registration is no part of it either.
  if (found != live.chunked.end()) return std::min(nbytes, static_cast<std::size_t>(found->first - address));
  return nbytes;
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
