// SPDX-License-Identifier: MIT
#include "registration.hpp"

#include <berth/core/diagnostics.hpp>
#include <berth/core/mutex.hpp>

#include <cstdint>
#include <map>
#include <new>

namespace berth::inline BERTH_ABI::cuda::detail {

constinit std::atomic<std::size_t> live_registrations{0};

/// What berth registers, and how many share it. With none left it is what the driver did not let go of.
struct Pin {
  const std::shared_ptr<const Context> context;  // it goes with
  const std::span<std::byte> bytes;
  const bool read_only;
  const std::size_t chunk_bytes;
  std::size_t references = 0;
  std::size_t registered = 0;  // bytes, from the first on

  [[nodiscard]] std::uintptr_t begin() const noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes.data());
  }
  [[nodiscard]] std::uintptr_t end() const noexcept { return begin() + bytes.size(); }
  /// From `byte_offset` to the end of its chunk. Chunks end where a page does.
  [[nodiscard]] std::size_t chunk_at(std::size_t byte_offset) const noexcept {
    const std::size_t left = chunk_bytes - (begin() % page_bytes + byte_offset) % chunk_bytes;
    return std::min(left, bytes.size() - byte_offset);
  }
  /// Where the last chunk starts that is registered.
  [[nodiscard]] std::size_t last_chunk() const noexcept {
    const std::size_t before = begin() % page_bytes;
    const std::size_t start = (before + registered - 1) / chunk_bytes * chunk_bytes;
    return start > before ? start - before : 0;
  }

 private:
  static constexpr std::size_t page_bytes = 4096;
};

namespace {

// Pins by where they begin. Process-wide, since a registration serves all contexts.
using Pins = std::map<std::uintptr_t, std::unique_ptr<Pin>>;

struct Registry {
  Mutex registering;  // held across calls of the driver, which registers under a lock of its own
  std::size_t refused BERTH_GUARDED_BY(registering) = 0;  // pins that nobody uses and the driver keeps
  Mutex mutex;  // held to change `pins`, and to read them without the other
  Pins pins;
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
  if (status == abi::host_memory_already_registered) {
    return Error(Errc::overlap, backend)
        .caused_by(failed)
        .asking(bytes.size())
        .because("somebody else pinned a part of the memory");
  }
  if (status != abi::invalid_value && status != abi::not_permitted)
    return Error(failed).asking(bytes.size()).at(reinterpret_cast<std::uintptr_t>(bytes.data()));
  return about(bytes, Errc::unsupported).caused_by(failed).because("the driver registers no such memory");
}

// From the last chunk on; whether nothing is registered any more. The context must be current.
bool unregister(Pin& pin) noexcept {
  const Context& context = *pin.context;
  while (pin.registered != 0) {
    const std::size_t chunk = pin.last_chunk();
    const abi::Status status = context.driver.mem_host_unregister(pin.bytes.data() + chunk);
    const bool gone = status == abi::host_memory_not_registered;  // somebody else's doing
    if (!gone && !context.told(status, "cuMemHostUnregister")) return false;
    pin.registered = chunk;
  }
  return true;
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

// Where the device sees a part of the memory, of which each chunk is registered: `unsupported` unless it sees
// them side by side.
Result<abi::DevicePtr> seen_whole(const Context& context, const Pin& pin,
                                  std::span<std::byte> part) noexcept {
  const auto first = seen_by_device(context, part.data());
  if (!first) return first;
  const auto from = static_cast<std::size_t>(part.data() - pin.bytes.data());
  for (std::size_t done = pin.chunk_at(from); done < part.size(); done += pin.chunk_at(from + done)) {
    const auto seen = seen_by_device(context, part.data() + done);
    if (!seen) return seen;
    if (*seen == *first + done) continue;
    return fail(about(part, Errc::unsupported)
                    .limited_to(done)
                    .because("the device does not see the chunks of the memory side by side"));
  }
  return first;
}

// Registers one chunk after the other.
Result<void> register_all(Pin& pin) noexcept {
  const Context& context = *pin.context;
  const unsigned flags = abi::memhostregister_portable | abi::memhostregister_devicemap |
                         (pin.read_only ? abi::memhostregister_read_only : 0U);
  while (pin.registered < pin.bytes.size()) {
    const auto chunk = pin.bytes.subspan(pin.registered, pin.chunk_at(pin.registered));
    if (auto made = context.check(context.driver.mem_host_register(chunk.data(), chunk.size(), flags),
                                  "cuMemHostRegister");
        !made) {
      return fail(refusal(made.error(), chunk));
    }
    pin.registered += chunk.size();
  }
  return {};
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

// Unregisters a pin that nobody uses; whether the memory is the host's alone again. What the driver keeps is
// tried again by who wants the memory next.
bool end(Registry& live, Pin& pin) BERTH_REQUIRES(live.registering) {
  const Context& context = *pin.context;
  const bool lost = context.lost();
  bool gone = false;
  if (!lost) {
    const Current current(context);
    const auto status = current.entered() ? abi::success : current.entered().error().status();
    // A context that was destroyed took its registrations along.
    gone = status == abi::invalid_context || status == abi::context_is_destroyed ||
           (current.entered_or_told() && unregister(pin));
  }
  if (!lost && !gone) {
    ++live.refused;
    return false;
  }
  std::unique_ptr<Pin> last;  // its context may end with it: outside of the lock
  const MutexLock lock(live.mutex);
  const auto found = live.pins.find(pin.begin());
  last = std::move(found->second);
  live.pins.erase(found);
  live_registrations.fetch_sub(1, std::memory_order_release);
  return gone;
}

// Tries the ends again that the driver refused, of pins that touch the memory.
Result<void> end_refused(Registry& live, std::span<const std::byte> bytes) BERTH_REQUIRES(live.registering) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (auto next = live.pins.begin(); live.refused != 0 && next != live.pins.end();) {
    Pin& pin = *next->second;
    ++next;
    if (pin.references != 0 || pin.begin() >= begin + bytes.size() || pin.end() <= begin) continue;
    --live.refused;
    const Error refused = Error(Errc::overlap, backend)
                              .in("cuMemHostUnregister")
                              .asking(bytes.size())
                              .at(pin.begin())
                              .limited_to(pin.bytes.size())
                              .because("the driver has not let go of a part of the memory");
    if (!end(live, pin)) return fail(refused);
  }
  return {};
}

// Berth's own pin that covers the bytes; null when none touches them.
Result<Pin*> own_pin(Registry& live, const Registration::Request& request) BERTH_REQUIRES(live.registering) {
  if (auto ended = end_refused(live, request.bytes); !ended) return fail(ended.error());
  const auto begin = reinterpret_cast<std::uintptr_t>(request.bytes.data());
  const std::uintptr_t end = begin + request.bytes.size();
  const auto next = live.pins.lower_bound(begin + 1);
  const auto overlap = [&](const Pin& pin, const char* reason) {
    return fail(Error(Errc::overlap, backend)
                    .in("cuMemHostRegister")
                    .asking(request.bytes.size())
                    .at(pin.begin())
                    .limited_to(pin.bytes.size())
                    .because(reason));
  };
  if (next != live.pins.begin()) {
    Pin& pin = *std::prev(next)->second;
    if (begin < pin.end()) {
      if (end > pin.end()) return overlap(pin, "a part of the memory is registered");
      if (pin.read_only && !request.read_only) return overlap(pin, "it is registered for reading only");
      return &pin;
    }
  }
  if (next != live.pins.end() && next->second->begin() < end)
    return overlap(*next->second, "a part of the memory is registered");
  return nullptr;
}

}  // namespace

Result<Registration> Registration::take(std::shared_ptr<const Context> context, const Request& request) {
  const Context& in = *context;
  const HoldReports held;
  Registry& live = registry();
  const MutexLock lock(live.registering);
  const auto shared = own_pin(live, request);
  if (!shared) return fail(shared.error());
  if (*shared != nullptr) {
    const auto address = seen_whole(in, **shared, request.bytes);
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
  std::unique_ptr<Pin> made(
      new (std::nothrow) Pin{std::move(context), request.bytes, request.read_only, request.chunk_bytes});
  if (made == nullptr)
    return fail(Error(Errc::out_of_memory, "host").in("cuMemHostRegister").asking(sizeof(Pin)));
  Pin& pin = *made;
  {
    // Before the driver: a copy of some other thread heeds the borders as soon as there are any.
    const MutexLock entering(live.mutex);
    live.pins.emplace(pin.begin(), std::move(made));
    live_registrations.fetch_add(1, std::memory_order_release);
  }
  Result<abi::DevicePtr> address;
  if (auto registered = register_all(pin); registered) {
    address = seen_whole(*pin.context, pin, pin.bytes);
  } else {
    address = fail(registered.error());
  }
  if (!address) {
    static_cast<void>(end(live, pin));
    return fail(address.error());
  }
  pin.references = 1;
  return Registration(&pin, *address);
}

bool Registration::release() noexcept {
  Pin* const pin = std::exchange(pin_, nullptr);
  if (pin == nullptr || !process::may_release()) return true;
  const HoldReports held;
  Registry& live = registry();
  const MutexLock lock(live.registering);
  --pin->references;
  return pin->references != 0 || end(live, *pin);
}

std::size_t before_border(const void* host, std::size_t nbytes) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(host);
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  const auto next = live.pins.upper_bound(address);
  if (next != live.pins.begin()) {
    const Pin& pin = *std::prev(next)->second;
    if (address < pin.end()) return std::min(nbytes, pin.chunk_at(address - pin.begin()));
  }
  // The memory before a registration is no part of it either.
  if (next != live.pins.end()) return std::min(nbytes, static_cast<std::size_t>(next->first - address));
  return nbytes;
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
