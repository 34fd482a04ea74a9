// SPDX-License-Identifier: MIT
#include "support/fake_cuda.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "cuda/entries.hpp"

namespace fake_cuda {

using namespace std::chrono_literals;
using abi::DevicePtr;
using abi::Status;

namespace {

// Where the device's addresses are, seen from the host's: no host has such addresses, which lie below 2^47.
// Scattered registrations count in the bits between.
constexpr DevicePtr device_base = DevicePtr{1} << 62U;
constexpr unsigned host_address_bits = 47;
constexpr DevicePtr scatter = DevicePtr{1} << 48U;
constexpr std::size_t alignment = 256;
constexpr std::size_t large = std::size_t{1} << 20U;
constexpr std::size_t granularity = std::size_t{2} << 20U;

DevicePtr device_address(const void* host) noexcept {
  return device_base + reinterpret_cast<std::uintptr_t>(host);
}

struct Context;

struct Range {
  DevicePtr begin;
  std::size_t nbytes;
  [[nodiscard]] bool meets(DevicePtr other, std::size_t size) const noexcept {
    return begin < other + size && other < begin + nbytes;
  }
};

struct Stream;

/// A place on a stream that an event stands for.
struct Point {
  Stream* stream;
  bool passed = false;
};

/// Queued work: after a point and when `ready` says so, it runs, and passes a point.
struct Work {
  std::vector<Range> uses{};
  std::shared_ptr<Point> after{};
  std::function<bool()> ready{};
  std::function<void()> run{};
  std::shared_ptr<Point> passes{};
};

struct Stream {
  Context* context;
  std::deque<Work> work;
  unsigned flags = 0;
  bool destroyed = false;
};

struct Event {
  Context* context;
  std::shared_ptr<Point> point;
};

struct Module {
  Context* context;
  std::vector<std::unique_ptr<std::string>> functions;  // by address
};

struct Context {
  Context(int on, bool is_primary) : device(on), primary(is_primary) {}

  int device;
  bool primary;
  std::set<Context*> peers;
  Stream default_stream{this, {}};
};

struct Kernel {
  std::vector<std::size_t> arg_bytes;
  std::function<void(const Launch&)> body;
};

enum class Kind { device, pinned, registered, mapped };

struct Allocation {
  Kind kind;
  std::size_t nbytes;
  Context* context;  // null for memory that is mapped
  int device;
  std::byte* host;
  unsigned flags;
  bool writable = true;
};

struct Physical {
  int fd;
  std::size_t nbytes;
  int device;
  std::size_t mappings = 0;
};

std::byte* take_memory(std::size_t nbytes) noexcept {
  if (nbytes < large)
    return static_cast<std::byte*>(
        std::aligned_alloc(alignment, (nbytes + alignment - 1) / alignment * alignment));
  void* const memory =
      ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED ? static_cast<std::byte*>(memory) : nullptr;
}

void give_memory(std::byte* memory, std::size_t nbytes) noexcept {
  if (nbytes < large) {
    std::free(memory);
  } else {
    ::munmap(memory, nbytes);
  }
}

thread_local std::vector<Context*> current_stack;

constexpr std::array<std::pair<Status, const char*>, 27> names{{
    {0, "CUDA_SUCCESS"},
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {4, "CUDA_ERROR_DEINITIALIZED"},
    {34, "CUDA_ERROR_STUB_LIBRARY"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
    {218, "CUDA_ERROR_INVALID_PTX"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {710, "CUDA_ERROR_ASSERT"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {800, "CUDA_ERROR_NOT_PERMITTED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {999, "CUDA_ERROR_UNKNOWN"},
}};

// What works after a fault.
bool survives_a_fault(std::string_view symbol) noexcept {
  return symbol.starts_with("cuDeviceGet") || symbol == "cuDevicePrimaryCtxRelease" ||
         symbol.starts_with("cuCtxP") || symbol == "cuCtxGetCurrent" || symbol == "cuCtxSetCurrent" ||
         symbol == "cuCtxDestroy" || symbol == "cuInit" || symbol == "cuDriverGetVersion";
}

}  // namespace

struct State {
  explicit State(const Config& given)
      : config(given), used(static_cast<std::size_t>(given.devices)), primaries(used.size()) {
    current_stack.clear();
  }
  ~State() {
    for (auto& [address, allocation] : allocations) {
      if (allocation.kind == Kind::device || allocation.kind == Kind::pinned)
        give_memory(allocation.host, allocation.nbytes);
    }
    for (auto& [address, nbytes] : reservations) ::munmap(Machine::bytes(address), nbytes);
    for (auto& [handle, physical] : handles) ::close(physical->fd);
    for (const Stream* stream : streams) delete stream;
    for (const Event* event : events) delete event;
    for (const Context* context : contexts) delete context;
  }

  // Calls.

  template <class Body>
  Status enter(const char* symbol, Body body) {
    const std::unique_lock hold(mutex);
    ++call_counts[symbol];
    if (const auto status = demanded(symbol)) return status;
    if (!initialised && std::string_view(symbol) != "cuInit" &&
        std::string_view(symbol) != "cuDriverGetVersion") {
      return 3;
    }
    if (fault != abi::success && !survives_a_fault(symbol)) return fault;
    return body();
  }
  Status demanded(const char* symbol) {
    for (Failure& failure : failures) {
      if (failure.times == 0 || (!failure.symbol.empty() && failure.symbol != symbol)) continue;
      if (failure.nth > 1) {
        --failure.nth;
        continue;
      }
      --failure.times;
      ++failed;
      last_failed = symbol;
      return failure.status;
    }
    return abi::success;
  }
  void violation(const std::string& what) { wrong += what + "\n"; }

  // Lets other threads in for a moment; a machine that waits for ever ends the test.
  void wait_a_little(const char* what) {
    mutex.unlock();
    std::this_thread::sleep_for(100us);
    mutex.lock();
    if (++patience < 600'000) return;
    std::fprintf(stderr, "fake_cuda: %s waits for ever\n", what);
    std::abort();
  }

  // Handles.

  [[nodiscard]] Context* current() const { return current_stack.empty() ? nullptr : current_stack.back(); }
  [[nodiscard]] Context* find(abi::Context handle) const {
    auto* const context = reinterpret_cast<Context*>(handle);
    return contexts.contains(context) ? context : nullptr;
  }
  [[nodiscard]] Stream* find(abi::Stream handle) const {
    if (reinterpret_cast<std::uintptr_t>(handle) <= 2) {
      return current() != nullptr ? &current()->default_stream : nullptr;
    }
    auto* const stream = reinterpret_cast<Stream*>(handle);
    return streams.contains(stream) && !stream->destroyed ? stream : nullptr;
  }
  [[nodiscard]] Event* find(abi::Event handle) const {
    auto* const event = reinterpret_cast<Event*>(handle);
    return events.contains(event) ? event : nullptr;
  }
  // A stream of the current context; what is queued on another's is a fault of the caller.
  Stream* usable(abi::Stream handle, const char* symbol) {
    Stream* const stream = find(handle);
    if (stream == nullptr || stream->context != current()) {
      violation(std::string(symbol) + ": the stream is not of the current context");
      return nullptr;
    }
    return stream;
  }
  [[nodiscard]] std::vector<Stream*> all_streams(const Context* of) const {
    std::vector<Stream*> found;
    for (Context* context : contexts) {
      if (of == nullptr || context == of) found.push_back(&context->default_stream);
    }
    for (Stream* stream : streams) {
      if (of == nullptr || stream->context == of) found.push_back(stream);
    }
    return found;
  }

  // Running.

  // What the stream holds never runs; who waits for it need not.
  static void abandon(Stream& stream) {
    for (const Work& work : stream.work) {
      if (work.passes) work.passes->passed = true;
    }
    stream.work.clear();
  }
  bool step(Stream& stream) {
    if (stream.work.empty()) return false;
    if (fault != abi::success) {
      abandon(stream);
      return true;
    }
    Work& next = stream.work.front();
    if (next.after != nullptr && !next.after->passed) {
      Stream& other = *next.after->stream;
      while (!next.after->passed && fault == abi::success) {
        if (&other == &stream || !step(other)) return false;
      }
    }
    if (next.ready && !next.ready()) return false;
    const Work work = std::move(next);
    stream.work.pop_front();
    if (work.run) run(work.run);
    if (work.passes) work.passes->passed = true;
    return true;
  }
  Status finish(Stream& stream, const char* symbol) {
    patience = 0;
    while (!stream.work.empty()) {
      if (!step(stream)) wait_a_little(symbol);
    }
    return fault;
  }
  Status finish(const Point& point, const char* symbol) {
    patience = 0;
    while (!point.passed && fault == abi::success) {
      if (!step(*point.stream)) wait_a_little(symbol);
    }
    return fault;
  }
  // Work that uses what goes is a fault of the caller's, and is not run.
  void check_unused(DevicePtr address, std::size_t nbytes, const char* symbol) {
    for (Stream* stream : all_streams(nullptr)) {
      if (fault != abi::success) continue;
      for (Work& work : stream->work) {
        if (std::ranges::none_of(work.uses, [&](const Range& range) { return range.meets(address, nbytes); }))
          continue;
        violation(std::string(symbol) + ": queued work uses the memory");
        work.uses.clear();
        work.run = {};
      }
    }
  }

  // Memory.

  [[nodiscard]] auto containing(DevicePtr address) {
    auto found = allocations.upper_bound(address);
    if (found == allocations.begin()) return allocations.end();
    --found;
    return address - found->first < found->second.nbytes ? found : allocations.end();
  }
  // Whether a command of `context` may touch the bytes. One command's are of one pinned range.
  bool reachable(const Context& context, DevicePtr address, std::size_t nbytes, const char* symbol,
                 bool writes) {
    if (address < device_base && config.pageable_memory_access) return config.pageable_copies;
    std::size_t left = nbytes;
    for (DevicePtr at = address; left != 0;) {
      const auto found = containing(at);
      if (found == allocations.end()) {
        violation(std::string(symbol) + ": no memory at the address");
        return false;
      }
      const Allocation& allocation = found->second;
      const bool host = is_host(allocation);
      if (host && allocation.context != &context && (allocation.flags & abi::memhostalloc_portable) == 0) {
        violation(std::string(symbol) + ": the memory is pinned for another context alone");
        return false;
      }
      const bool peer = allocation.context != nullptr && context.peers.contains(allocation.context);
      if (!host && allocation.device != context.device && !peer) {
        violation(std::string(symbol) + ": the memory is another device's, without peer access");
        return false;
      }
      if (allocation.kind == Kind::mapped && !allocation.writable) {
        violation(std::string(symbol) + ": the memory is mapped without access");
        return false;
      }
      if (allocation.kind == Kind::registered && writes && !allocation.writable) {
        violation(std::string(symbol) + ": the memory is registered for reading only");
        return false;
      }
      const std::size_t here = found->second.nbytes - static_cast<std::size_t>(at - found->first);
      if (host && left > here) return false;
      const std::size_t now = std::min(left, here);
      at += now;
      left -= now;
    }
    return true;
  }
  [[nodiscard]] static bool is_host(const Allocation& allocation) noexcept {
    return allocation.kind == Kind::pinned || allocation.kind == Kind::registered;
  }
  // The pinned memory around an address of the host's.
  [[nodiscard]] std::map<DevicePtr, Allocation>::iterator pinned_around(const void* host) {
    if (!config.scattered_registrations) {
      const auto found = containing(device_address(host));
      return found != allocations.end() && is_host(found->second) ? found : allocations.end();
    }
    const auto* const byte = static_cast<const std::byte*>(host);
    return std::ranges::find_if(allocations, [&](const auto& entry) {
      const Allocation& a = entry.second;
      return is_host(a) && a.host <= byte && byte < a.host + a.nbytes;
    });
  }
  // Pinned memory by its address on the host.
  [[nodiscard]] const Allocation* pinned_at(const void* host, std::size_t nbytes) {
    const auto found = pinned_around(host);
    if (found == allocations.end()) return nullptr;
    const auto from = static_cast<std::size_t>(static_cast<const std::byte*>(host) - found->second.host);
    return nbytes <= found->second.nbytes - from ? &found->second : nullptr;
  }
  // Where the device sees pinned memory of the host's.
  [[nodiscard]] Range seen(const void* host, std::size_t nbytes) {
    const auto found = pinned_around(host);
    const auto from = static_cast<const std::byte*>(host) - found->second.host;
    return {found->first + static_cast<DevicePtr>(from), nbytes};
  }
  // Whether some of the host's bytes are pinned and others are not, or by another call.
  [[nodiscard]] bool crosses_pins(const void* host, std::size_t nbytes) {
    const auto around = pinned_around(host);
    if (around != allocations.end()) return pinned_at(host, nbytes) == nullptr;
    const auto* const first = static_cast<const std::byte*>(host);
    return std::ranges::any_of(allocations, [&](const auto& entry) {
      const Allocation& a = entry.second;
      return is_host(a) && first <= a.host && a.host < first + nbytes;
    });
  }
  // Pages that the host has put out of its own reach: the device's way to them is another.
  [[nodiscard]] std::vector<std::span<std::byte>> protected_pages() const {
    std::vector<std::span<std::byte>> found;
    for (const auto& [address, allocation] : allocations) {
      if (allocation.kind != Kind::registered) continue;
      std::byte byte{};
      iovec to{&byte, 1};
      iovec from{allocation.host, 1};
      if (::process_vm_readv(::getpid(), &to, 1, &from, 1, 0) == 1) continue;
      const std::size_t page = 4096;
      found.emplace_back(allocation.host, (allocation.nbytes + page - 1) / page * page);
    }
    return found;
  }
  void run(const std::function<void()>& work) const {
    const auto pages = protected_pages();
    for (const auto& each : pages) ::mprotect(each.data(), each.size(), PROT_READ | PROT_WRITE);
    work();
    for (const auto& each : pages) ::mprotect(each.data(), each.size(), PROT_NONE);
  }
  void drop(std::map<DevicePtr, Allocation>::iterator allocation) {
    const Allocation& gone = allocation->second;
    if (gone.kind == Kind::device) used[static_cast<std::size_t>(gone.device)] -= gone.nbytes;
    if (gone.kind == Kind::pinned || gone.kind == Kind::registered) pinned_bytes -= gone.nbytes;
    if (gone.kind == Kind::device || gone.kind == Kind::pinned) give_memory(gone.host, gone.nbytes);
    allocations.erase(allocation);
  }
  // Everything of a context goes with it.
  void end(Context* context) {
    std::size_t left = 0;
    for (auto it = allocations.begin(); it != allocations.end();) {
      const auto next = std::next(it);
      if (it->second.context == context) {
        check_unused(it->first, it->second.nbytes, "the end of a context");
        drop(it);
        ++left;
      }
      it = next;
    }
    left += static_cast<std::size_t>(std::erase_if(
        streams, [&](Stream* stream) { return stream->context == context && release(stream); }));
    left += static_cast<std::size_t>(
        std::erase_if(events, [&](Event* event) { return event->context == context && release(event); }));
    if (left != 0 && fault == abi::success)
      violation("a context ends with " + std::to_string(left) + " objects of its own");
    abandon(context->default_stream);
    contexts.erase(context);
    for (Context* other : contexts) other->peers.erase(context);
    std::erase(current_stack, context);
    delete context;
  }
  static bool release(Stream* stream) {
    abandon(*stream);
    delete stream;
    return true;
  }
  static bool release(Event* event) {
    delete event;
    return true;
  }

  // The driver and its devices.

  Status init(unsigned) {
    initialised = true;
    return config.devices == 0 ? abi::no_device : abi::success;
  }
  Status driver_get_version(int* version) {
    *version = 13000;
    return abi::success;
  }
  Status get_error_name(Status, const char**) { return abi::success; }
  Status device_get_count(int* count) {
    *count = config.devices;
    return abi::success;
  }
  Status device_get(abi::Device* device, int ordinal) {
    if (ordinal < 0 || ordinal >= config.devices) return abi::invalid_device;
    *device = ordinal;
    return abi::success;
  }
  Status device_get_name(char* name, int nbytes, abi::Device device) {
    std::snprintf(name, static_cast<std::size_t>(nbytes), "Fake GPU %d", device);
    return abi::success;
  }
  Status device_get_uuid(abi::Uuid* uuid, abi::Device device) {
    *uuid = {};
    uuid->bytes[0] = 'f';
    uuid->bytes[15] = static_cast<char>(device + 1);
    return abi::success;
  }
  Status device_total_mem(std::size_t* nbytes, abi::Device) {
    *nbytes = config.total_bytes;
    return abi::success;
  }
  Status device_get_attribute(int* value, int attribute, abi::Device) {
    switch (attribute) {
      case abi::device_attribute_multiprocessor_count:
        *value = 4;
        break;
      case abi::device_attribute_compute_capability_major:
        *value = 9;
        break;
      case abi::device_attribute_integrated:
        *value = config.integrated ? 1 : 0;
        break;
      case abi::device_attribute_pageable_memory_access:
        *value = config.pageable_memory_access ? 1 : 0;
        break;
      case abi::device_attribute_host_register_supported:
        *value = config.host_register ? 1 : 0;
        break;
      case abi::device_attribute_read_only_host_register_supported:
        *value = config.read_only_host_register ? 1 : 0;
        break;
      case abi::device_attribute_virtual_memory_management_supported:
        *value = 1;
        break;
      default:
        *value = 0;
    }
    return abi::success;
  }
  Status device_can_access_peer(int* can, abi::Device device, abi::Device peer) {
    *can = config.peers && device != peer ? 1 : 0;
    return abi::success;
  }

  // Contexts.

  Status device_primary_ctx_retain(abi::Context* context, abi::Device device) {
    auto& [primary, references] = primaries.at(static_cast<std::size_t>(device));
    if (references++ == 0) contexts.insert(primary = new Context(device, true));
    *context = reinterpret_cast<abi::Context>(primary);
    return abi::success;
  }
  Status device_primary_ctx_release(abi::Device device) {
    auto& [primary, references] = primaries.at(static_cast<std::size_t>(device));
    if (references == 0) return abi::invalid_context;
    if (--references == 0) end(std::exchange(primary, nullptr));
    return abi::success;
  }
  Status ctx_create(abi::Context* context, unsigned, abi::Device device) {
    auto* const made = new Context(device, false);
    contexts.insert(made);
    current_stack.push_back(made);
    *context = reinterpret_cast<abi::Context>(made);
    return abi::success;
  }
  Status ctx_destroy(abi::Context handle) {
    Context* const context = find(handle);
    if (context == nullptr || context->primary) return abi::invalid_context;
    end(context);
    return abi::success;
  }
  Status ctx_push_current(abi::Context handle) {
    Context* const context = find(handle);
    if (context == nullptr) return abi::invalid_context;
    current_stack.push_back(context);
    return abi::success;
  }
  Status ctx_pop_current(abi::Context* context) {
    if (current_stack.empty()) return abi::invalid_context;
    *context = reinterpret_cast<abi::Context>(current_stack.back());
    current_stack.pop_back();
    return abi::success;
  }
  Status ctx_get_current(abi::Context* context) {
    *context = reinterpret_cast<abi::Context>(current());
    return abi::success;
  }
  Status ctx_set_current(abi::Context handle) {
    if (handle != nullptr && find(handle) == nullptr) return abi::invalid_context;
    if (!current_stack.empty()) current_stack.pop_back();
    if (handle != nullptr) current_stack.push_back(find(handle));
    return abi::success;
  }
  Status ctx_get_device(abi::Device* device) {
    if (current() == nullptr) return abi::invalid_context;
    *device = current()->device;
    return abi::success;
  }
  Status ctx_synchronize() {
    if (current() == nullptr) return abi::invalid_context;
    Context& context = *current();
    for (Stream* stream : all_streams(&context)) finish(*stream, "cuCtxSynchronize");
    return fault;
  }
  Status ctx_enable_peer_access(abi::Context handle, unsigned flags) {
    Context* const peer = find(handle);
    if (current() == nullptr || peer == nullptr || peer == current()) return abi::invalid_context;
    if (flags != 0) return abi::invalid_value;
    if (!config.peers || peer->device == current()->device) return abi::peer_access_unsupported;
    return current()->peers.insert(peer).second ? abi::success : abi::peer_access_already_enabled;
  }

  // Streams and events.

  Status stream_create(abi::Stream* stream, unsigned flags) {
    if (current() == nullptr) return abi::invalid_context;
    auto* const made = new Stream{current(), {}, flags};
    streams.insert(made);
    *stream = reinterpret_cast<abi::Stream>(made);
    return abi::success;
  }
  Status stream_destroy(abi::Stream handle) {
    auto* const stream = reinterpret_cast<Stream*>(handle);
    if (!streams.contains(stream) || stream->destroyed) return abi::invalid_handle;
    // What it holds still runs.
    stream->destroyed = true;
    while (step(*stream)) {
    }
    if (!stream->work.empty()) return abi::success;
    streams.erase(stream);
    delete stream;
    return abi::success;
  }
  Status stream_get_ctx(abi::Stream handle, abi::Context* context) {
    const Stream* const stream = find(handle);
    if (stream == nullptr) return abi::invalid_handle;
    *context = reinterpret_cast<abi::Context>(stream->context);
    return abi::success;
  }
  Status stream_query(abi::Stream handle) {
    Stream* const stream = find(handle);
    if (stream == nullptr) return abi::invalid_handle;
    if (fault != abi::success) return fault;
    if (stream->work.empty()) return abi::success;
    step(*stream);
    return abi::not_ready;
  }
  Status stream_synchronize(abi::Stream handle) {
    Stream* const stream = find(handle);
    if (stream == nullptr) return abi::invalid_handle;
    return finish(*stream, "cuStreamSynchronize");
  }
  Status stream_wait_event(abi::Stream handle, abi::Event event_handle, unsigned) {
    Stream* const stream = find(handle);
    const Event* const event = find(event_handle);
    if (stream == nullptr || event == nullptr) return abi::invalid_handle;
    if (event->point != nullptr && !event->point->passed && event->point->stream != stream)
      stream->work.push_back({.after = event->point});
    return abi::success;
  }
  Status stream_wait_value32(abi::Stream handle, DevicePtr address, std::uint32_t value, unsigned) {
    Stream* const stream = usable(handle, "cuStreamWaitValue32");
    if (stream == nullptr) return abi::invalid_handle;
    if (!reachable(*stream->context, address, sizeof value, "cuStreamWaitValue32", false))
      return abi::invalid_value;
    auto* const word = reinterpret_cast<std::uint32_t*>(Machine::bytes(address));
    stream->work.push_back({.uses = {{address, sizeof value}}, .ready = [word, value] {
                              return static_cast<std::int32_t>(
                                         std::atomic_ref(*word).load(std::memory_order_acquire) - value) >= 0;
                            }});
    return abi::success;
  }
  Status event_create(abi::Event* event, unsigned) {
    if (current() == nullptr) return abi::invalid_context;
    auto* const made = new Event{current(), nullptr};
    events.insert(made);
    *event = reinterpret_cast<abi::Event>(made);
    return abi::success;
  }
  Status event_destroy(abi::Event handle) {
    Event* const event = find(handle);
    if (event == nullptr) return abi::invalid_handle;
    events.erase(event);
    delete event;
    return abi::success;
  }
  Status event_record(abi::Event event_handle, abi::Stream handle) {
    Event* const event = find(event_handle);
    Stream* const stream = find(handle);
    if (event == nullptr || stream == nullptr) return abi::invalid_handle;
    if (event->context != stream->context) {
      violation("cuEventRecord: event and stream are of two contexts");
      return abi::invalid_handle;
    }
    event->point = std::make_shared<Point>(stream);
    stream->work.push_back({.passes = event->point});
    return abi::success;
  }
  Status event_query(abi::Event handle) {
    const Event* const event = find(handle);
    if (event == nullptr) return abi::invalid_handle;
    if (fault != abi::success) return fault;
    if (event->point == nullptr || event->point->passed) return abi::success;
    step(*event->point->stream);
    return abi::not_ready;
  }
  Status event_synchronize(abi::Event handle) {
    const Event* const event = find(handle);
    if (event == nullptr) return abi::invalid_handle;
    if (event->point == nullptr) return abi::success;
    const auto point = event->point;
    return finish(*point, "cuEventSynchronize");
  }

  // Memory.

  Status mem_get_info(std::size_t* free, std::size_t* total) {
    if (current() == nullptr) return abi::invalid_context;
    *total = config.total_bytes;
    *free = config.total_bytes - used[static_cast<std::size_t>(current()->device)];
    return abi::success;
  }
  Status mem_alloc(DevicePtr* address, std::size_t nbytes) {
    if (current() == nullptr) return abi::invalid_context;
    if (nbytes == 0) return abi::invalid_value;
    std::size_t& taken = used[static_cast<std::size_t>(current()->device)];
    if (nbytes > config.total_bytes - taken) return abi::out_of_memory;
    std::byte* const memory = take_memory(nbytes);
    if (memory == nullptr) return abi::out_of_memory;
    if (nbytes < large) std::memset(memory, 0xA5, nbytes);
    taken += nbytes;
    *address = device_address(memory);
    allocations[*address] = {Kind::device, nbytes, current(), current()->device, memory, 0};
    return abi::success;
  }
  Status mem_free(DevicePtr address) {
    const auto found = allocations.find(address);
    if (found == allocations.end() || found->second.kind != Kind::device) return abi::invalid_value;
    if (found->second.context != current()) violation("cuMemFree: the memory is of another context");
    check_unused(address, found->second.nbytes, "cuMemFree");
    drop(found);
    return abi::success;
  }
  Status mem_get_address_range(DevicePtr* base, std::size_t* nbytes, DevicePtr address) {
    const auto found = containing(address);
    if (found == allocations.end()) return abi::not_found;
    if (base != nullptr) *base = found->first;
    if (nbytes != nullptr) *nbytes = found->second.nbytes;
    return abi::success;
  }
  Status pointer_get_attribute(void* value, int attribute, DevicePtr address) {
    const bool by_host = address < device_base;
    const auto found = by_host ? pinned_around(Machine::bytes(address)) : containing(address);
    if (found == allocations.end()) return abi::invalid_value;
    const Allocation& allocation = found->second;
    switch (attribute) {
      case abi::pointer_attribute_context:
        *static_cast<abi::Context*>(value) = reinterpret_cast<abi::Context>(allocation.context);
        return abi::success;
      case abi::pointer_attribute_memory_type:
        *static_cast<unsigned*>(value) = is_host(allocation) ? abi::memorytype_host : 2;
        return abi::success;
      case abi::pointer_attribute_range_start_addr:
        *static_cast<DevicePtr*>(value) =
            by_host ? reinterpret_cast<std::uintptr_t>(allocation.host) : found->first;
        return abi::success;
      case abi::pointer_attribute_range_size:
        *static_cast<std::size_t*>(value) = allocation.nbytes;
        return abi::success;
      default:
        return abi::invalid_value;
    }
  }
  Status mem_host_alloc(void** memory, std::size_t nbytes, unsigned flags) {
    if (current() == nullptr) return abi::invalid_context;
    if (nbytes == 0) return abi::invalid_value;
    if (nbytes > config.pinned_bytes - pinned_bytes) return abi::out_of_memory;
    std::byte* const made = take_memory(nbytes);
    if (made == nullptr) return abi::out_of_memory;
    pinned_bytes += nbytes;
    allocations[device_address(made)] = {Kind::pinned, nbytes, current(), current()->device, made, flags};
    *memory = made;
    return abi::success;
  }
  Status mem_free_host(void* memory) {
    const auto found = allocations.find(device_address(memory));
    if (found == allocations.end() || found->second.kind != Kind::pinned) return abi::invalid_value;
    check_unused(found->first, found->second.nbytes, "cuMemFreeHost");
    drop(found);
    return abi::success;
  }
  Status mem_host_register(void* memory, std::size_t nbytes, unsigned flags) {
    if (current() == nullptr) return abi::invalid_context;
    if (!config.host_register) return abi::not_supported;
    if (memory == nullptr || nbytes == 0 || nbytes > config.max_registration_bytes) return abi::invalid_value;
    const bool read_only = (flags & abi::memhostregister_read_only) != 0;
    if (read_only && !config.read_only_host_register) return abi::not_supported;
    auto* const host = static_cast<std::byte*>(memory);
    for (const auto& [other, allocation] : allocations) {
      if (is_host(allocation) && allocation.host < host + nbytes &&
          host < allocation.host + allocation.nbytes) {
        return allocation.kind == Kind::registered ? abi::host_memory_already_registered : abi::invalid_value;
      }
    }
    if (nbytes > config.pinned_bytes - pinned_bytes) return abi::out_of_memory;
    pinned_bytes += nbytes;
    const DevicePtr address =
        device_address(memory) + (config.scattered_registrations ? scatter * (++registrations % 100) : 0);
    allocations[address] = {Kind::registered, nbytes, current(), current()->device, host, flags, !read_only};
    return abi::success;
  }
  Status mem_host_unregister(void* memory) {
    const auto found = pinned_around(memory);
    if (found == allocations.end() || found->second.kind != Kind::registered || found->second.host != memory)
      return abi::host_memory_not_registered;
    check_unused(found->first, found->second.nbytes, "cuMemHostUnregister");
    drop(found);
    return abi::success;
  }
  Status mem_host_get_device_pointer(DevicePtr* address, void* memory, unsigned flags) {
    const auto found = pinned_around(memory);
    if (found == allocations.end() || flags != 0 ||
        (found->second.flags & abi::memhostalloc_devicemap) == 0) {
      return abi::invalid_value;
    }
    *address = found->first + static_cast<DevicePtr>(static_cast<std::byte*>(memory) - found->second.host);
    return abi::success;
  }

  // Copies.

  Status memcpy_htod_async(DevicePtr dest, const void* src, std::size_t nbytes, abi::Stream handle) {
    Stream* const stream = usable(handle, "cuMemcpyHtoDAsync");
    if (stream == nullptr) return abi::invalid_handle;
    if (!reachable(*stream->context, dest, nbytes, "cuMemcpyHtoDAsync", true) || crosses_pins(src, nbytes))
      return abi::invalid_value;
    std::byte* const to = Machine::bytes(dest);
    if (pinned_at(src, nbytes) != nullptr) {
      stream->work.push_back(
          {.uses = {{dest, nbytes}, seen(src, nbytes)}, .run = [=] { std::memmove(to, src, nbytes); }});
      return abi::success;
    }
    const auto* const from = static_cast<const std::byte*>(src);
    auto staged = std::make_shared<std::vector<std::byte>>(from, from + nbytes);
    stream->work.push_back(
        {.uses = {{dest, nbytes}}, .run = [=] { std::memcpy(to, staged->data(), nbytes); }});
    return abi::success;
  }
  Status memcpy_dtoh_async(void* dest, DevicePtr src, std::size_t nbytes, abi::Stream handle) {
    Stream* const stream = usable(handle, "cuMemcpyDtoHAsync");
    if (stream == nullptr) return abi::invalid_handle;
    if (!reachable(*stream->context, src, nbytes, "cuMemcpyDtoHAsync", false) || crosses_pins(dest, nbytes))
      return abi::invalid_value;
    const std::byte* const from = Machine::bytes(src);
    const bool pinned = pinned_at(dest, nbytes) != nullptr;
    stream->work.push_back({.uses = pinned ? std::vector<Range>{{src, nbytes}, seen(dest, nbytes)}
                                           : std::vector<Range>{{src, nbytes}},
                            .run = [=] { std::memmove(dest, from, nbytes); }});
    return pinned ? abi::success : finish(*stream, "cuMemcpyDtoHAsync");
  }
  Status copy_on_device(DevicePtr dest, DevicePtr src, std::size_t nbytes, Stream& stream,
                        const char* symbol) {
    if (Range{dest, nbytes}.meets(src, nbytes)) violation(std::string(symbol) + ": the ranges overlap");
    stream.work.push_back({.uses = {{dest, nbytes}, {src, nbytes}},
                           .run = [=] { std::memmove(Machine::bytes(dest), Machine::bytes(src), nbytes); }});
    return abi::success;
  }
  Status memcpy_dtod_async(DevicePtr dest, DevicePtr src, std::size_t nbytes, abi::Stream handle) {
    Stream* const stream = usable(handle, "cuMemcpyDtoDAsync");
    if (stream == nullptr) return abi::invalid_handle;
    if (!reachable(*stream->context, dest, nbytes, "cuMemcpyDtoDAsync", true) ||
        !reachable(*stream->context, src, nbytes, "cuMemcpyDtoDAsync", false)) {
      return abi::invalid_value;
    }
    return copy_on_device(dest, src, nbytes, *stream, "cuMemcpyDtoDAsync");
  }
  Status memcpy_peer_async(DevicePtr dest, abi::Context dest_handle, DevicePtr src, abi::Context src_handle,
                           std::size_t nbytes, abi::Stream handle) {
    Stream* const stream = usable(handle, "cuMemcpyPeerAsync");
    Context* const to = find(dest_handle);
    Context* const from = find(src_handle);
    if (stream == nullptr || to == nullptr || from == nullptr) return abi::invalid_handle;
    if (!reachable(*to, dest, nbytes, "cuMemcpyPeerAsync", true) ||
        !reachable(*from, src, nbytes, "cuMemcpyPeerAsync", false)) {
      return abi::invalid_value;
    }
    const bool direct = to->device == from->device || stream->context->peers.contains(from) ||
                        stream->context->peers.contains(to);
    ++(direct ? peer_copies : staged_copies);
    return copy_on_device(dest, src, nbytes, *stream, "cuMemcpyPeerAsync");
  }
  Status memset_d8_async(DevicePtr dest, unsigned char value, std::size_t nbytes, abi::Stream handle) {
    Stream* const stream = usable(handle, "cuMemsetD8Async");
    if (stream == nullptr) return abi::invalid_handle;
    if (!reachable(*stream->context, dest, nbytes, "cuMemsetD8Async", true)) return abi::invalid_value;
    stream->work.push_back(
        {.uses = {{dest, nbytes}}, .run = [=] { std::memset(Machine::bytes(dest), value, nbytes); }});
    return abi::success;
  }

  // Kernels.

  Status module_load_data(abi::Module* module, const void* image) {
    if (current() == nullptr) return abi::invalid_context;
    if (!std::string_view(static_cast<const char*>(image)).starts_with("//") &&
        !std::string_view(static_cast<const char*>(image)).starts_with(".version")) {
      return 218;  // CUDA_ERROR_INVALID_PTX
    }
    auto made = std::make_unique<Module>(current());
    *module = reinterpret_cast<abi::Module>(made.get());
    modules.push_back(std::move(made));
    return abi::success;
  }
  Status module_unload(abi::Module handle) {
    return std::erase_if(
               modules,
               [&](const auto& module) { return reinterpret_cast<abi::Module>(module.get()) == handle; }) != 0
               ? abi::success
               : abi::invalid_handle;
  }
  Status module_get_function(abi::Function* function, abi::Module handle, const char* name) {
    if (!kernels.contains(name)) return abi::not_found;
    for (auto& module : modules) {
      if (reinterpret_cast<abi::Module>(module.get()) != handle) continue;
      module->functions.push_back(std::make_unique<std::string>(name));
      *function = reinterpret_cast<abi::Function>(module->functions.back().get());
      return abi::success;
    }
    return abi::invalid_handle;
  }
  Status launch_kernel(abi::Function function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, abi::Stream handle, void** params, void**) {
    Stream* const stream = usable(handle, "cuLaunchKernel");
    if (stream == nullptr) return abi::invalid_handle;
    const Kernel& kernel = kernels.at(*reinterpret_cast<const std::string*>(function));
    Launch launch;
    for (std::size_t i = 0; i < kernel.arg_bytes.size(); ++i) {
      const auto* const value = static_cast<const std::byte*>(params[i]);
      launch.args.emplace_back(value, value + kernel.arg_bytes[i]);
    }
    std::vector<Range> uses;
    for (const auto& arg : launch.args) {
      DevicePtr address = 0;
      if (arg.size() == sizeof address) std::memcpy(&address, arg.data(), sizeof address);
      const auto found = containing(address);
      if (found != allocations.end()) uses.push_back({found->first, found->second.nbytes});
    }
    stream->work.push_back(
        {.uses = std::move(uses), .run = [&kernel, launch = std::move(launch)] { kernel.body(launch); }});
    return abi::success;
  }

  // Virtual memory.

  Status mem_address_reserve(DevicePtr* address, std::size_t nbytes, std::size_t, DevicePtr,
                             unsigned long long) {
    if (nbytes == 0 || nbytes % granularity != 0) return abi::invalid_value;
    void* const memory =
        ::mmap(nullptr, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return abi::out_of_memory;
    *address = device_address(memory);
    reservations[*address] = nbytes;
    return abi::success;
  }
  Status mem_address_free(DevicePtr address, std::size_t nbytes) {
    const auto found = reservations.find(address);
    if (found == reservations.end() || found->second != nbytes) return abi::invalid_value;
    for (const auto& [other, allocation] : allocations) {
      if (Range{other, allocation.nbytes}.meets(address, nbytes)) return abi::invalid_value;
    }
    ::munmap(Machine::bytes(address), nbytes);
    reservations.erase(found);
    return abi::success;
  }
  Status mem_create(abi::MemHandle* handle, std::size_t nbytes, const abi::MemAllocationProp* properties,
                    unsigned long long) {
    if (nbytes == 0 || nbytes % granularity != 0) return abi::invalid_value;
    std::size_t& taken = used.at(static_cast<std::size_t>(properties->location.id));
    if (nbytes > config.total_bytes - taken) return abi::out_of_memory;
    const int fd = ::memfd_create("fake_cuda", 0);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(nbytes)) != 0) return abi::out_of_memory;
    taken += nbytes;
    handles[++last_handle] = std::make_shared<Physical>(fd, nbytes, properties->location.id);
    *handle = last_handle;
    return abi::success;
  }
  // The memory goes with its last mapping.
  void settle(const std::shared_ptr<Physical>& physical, bool held) {
    if (held || physical->mappings != 0) return;
    used[static_cast<std::size_t>(physical->device)] -= physical->nbytes;
    ::close(physical->fd);
  }
  Status mem_release(abi::MemHandle handle) {
    const auto found = handles.find(handle);
    if (found == handles.end()) return abi::invalid_value;
    const auto physical = found->second;
    handles.erase(found);
    settle(physical, false);
    return abi::success;
  }
  Status mem_map(DevicePtr address, std::size_t nbytes, std::size_t byte_offset, abi::MemHandle handle,
                 unsigned long long) {
    const auto found = handles.find(handle);
    if (found == handles.end() || byte_offset != 0 || nbytes != found->second->nbytes) {
      return abi::invalid_value;
    }
    const bool reserved = std::ranges::any_of(reservations, [&](const auto& entry) {
      return entry.first <= address && address + nbytes <= entry.first + entry.second;
    });
    const auto next = allocations.lower_bound(address);
    if (!reserved || containing(address) != allocations.end() ||
        (next != allocations.end() && next->first < address + nbytes)) {
      return abi::invalid_value;
    }
    std::byte* const host = Machine::bytes(address);
    if (::mmap(host, nbytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second->fd, 0) == MAP_FAILED)
      return abi::out_of_memory;
    ++found->second->mappings;
    mapped[address] = found->second;
    allocations[address] = {Kind::mapped, nbytes, nullptr, found->second->device, host, 0, false};
    return abi::success;
  }
  Status mem_unmap(DevicePtr address, std::size_t nbytes) {
    std::vector<DevicePtr> gone;
    for (DevicePtr at = address; at < address + nbytes;) {
      const auto found = allocations.find(at);
      if (found == allocations.end() || found->second.kind != Kind::mapped ||
          at + found->second.nbytes > address + nbytes) {
        return abi::invalid_value;
      }
      gone.push_back(at);
      at += found->second.nbytes;
    }
    check_unused(address, nbytes, "cuMemUnmap");
    for (const DevicePtr at : gone) {
      const std::size_t size = allocations.at(at).nbytes;
      ::mmap(Machine::bytes(at), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
      const auto physical = mapped.at(at);
      mapped.erase(at);
      allocations.erase(at);
      --physical->mappings;
      settle(physical, std::ranges::any_of(handles, [&](const auto& h) { return h.second == physical; }));
    }
    return abi::success;
  }
  Status mem_set_access(DevicePtr address, std::size_t nbytes, const abi::MemAccessDesc* access,
                        std::size_t count) {
    if (count == 0) return abi::invalid_value;
    for (DevicePtr at = address; at < address + nbytes;) {
      const auto found = allocations.find(at);
      if (found == allocations.end() || found->second.kind != Kind::mapped) return abi::invalid_value;
      ::mprotect(found->second.host, found->second.nbytes, PROT_READ | PROT_WRITE);
      found->second.writable = access[0].flags == abi::mem_access_flags_prot_readwrite;
      at += found->second.nbytes;
    }
    return abi::success;
  }
  Status mem_get_allocation_granularity(std::size_t* bytes, const abi::MemAllocationProp*, int) {
    *bytes = granularity;
    return abi::success;
  }

  const Config config;
  mutable std::mutex mutex;
  bool initialised = false;
  std::uint64_t patience = 0;

  std::vector<Failure> failures;
  Status fault = abi::success;
  std::uint64_t failed = 0;
  std::string last_failed;
  std::map<std::string, std::uint64_t> call_counts;
  std::string wrong;
  std::size_t peer_copies = 0;
  std::size_t staged_copies = 0;

  std::vector<std::size_t> used;  // bytes, by device
  std::size_t pinned_bytes = 0;
  DevicePtr registrations = 0;
  std::vector<std::pair<Context*, std::size_t>> primaries;  // and their references, by device
  std::set<Context*> contexts;
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::map<DevicePtr, Allocation> allocations;
  std::map<std::string, Kernel> kernels;
  std::vector<std::unique_ptr<Module>> modules;
  std::map<DevicePtr, std::size_t> reservations;
  std::map<abi::MemHandle, std::shared_ptr<Physical>> handles;
  std::map<DevicePtr, std::shared_ptr<Physical>> mapped;
  abi::MemHandle last_handle = 0;
};

namespace {

State* live = nullptr;

template <auto Method>
struct Wrap;
template <class... Args, Status (State::*Method)(Args...)>
struct Wrap<Method> {
  static inline const char* symbol = nullptr;
  static Status call(Args... args) {
    return live->enter(symbol, [&] { return (live->*Method)(args...); });
  }
};

Status error_name(Status status, const char** name) {
  const auto found = std::ranges::find(names, status, &std::pair<Status, const char*>::first);
  *name = found != names.end() ? found->second : nullptr;
  return found != names.end() ? abi::success : abi::invalid_value;
}

template <auto Method>
auto wrapped(const char* symbol) {
  Wrap<Method>::symbol = symbol;
  return &Wrap<Method>::call;
}

berth::cuda::Driver make_table() {
  berth::cuda::Driver table;
#define FAKE_CUDA_ENTRY(member, symbol, version, need) table.member = wrapped<&State::member>(#symbol);
  BERTH_CUDA_ENTRIES(FAKE_CUDA_ENTRY)
#undef FAKE_CUDA_ENTRY
  table.get_error_name = &error_name;  // asks after no machine, and is no call that a test counts
  return table;
}

// Never destroyed, like drivers.
std::deque<berth::cuda::Driver>& tables() {
  static auto* const made = new std::deque<berth::cuda::Driver>;
  return *made;
}

template <class Count>
auto counted(const State& state, Count count) {
  const std::lock_guard hold(state.mutex);
  return count();
}

}  // namespace

Machine::Machine(const Config& config) : state_(std::make_unique<State>(config)) {
  if (std::exchange(live, state_.get()) != nullptr) std::abort();
  tables().push_back(make_table());
}
Machine::~Machine() { live = nullptr; }

const berth::cuda::Driver& Machine::driver() {
  if (tables().empty()) tables().push_back(make_table());
  return tables().back();
}

void Machine::fail(const Failure& failure) {
  const std::lock_guard hold(state_->mutex);
  state_->failures = {failure};
}
void Machine::also_fail(const Failure& failure) {
  const std::lock_guard hold(state_->mutex);
  state_->failures.push_back(failure);
}
void Machine::disarm() {
  const std::lock_guard hold(state_->mutex);
  state_->failures.clear();
}

std::uint64_t Machine::calls() const {
  return counted(*state_, [this] {
    std::uint64_t all = 0;
    for (const auto& [symbol, count] : state_->call_counts) all += count;
    return all;
  });
}
std::uint64_t Machine::calls(const std::string& symbol) const {
  return counted(*state_, [&] {
    const auto found = state_->call_counts.find(symbol);
    return found != state_->call_counts.end() ? found->second : 0;
  });
}
std::uint64_t Machine::failed() const {
  return counted(*state_, [this] { return state_->failed; });
}
std::string Machine::last_failed() const {
  return counted(*state_, [this] { return state_->last_failed; });
}
void Machine::reset() {
  const std::lock_guard hold(state_->mutex);
  state_->call_counts.clear();
  state_->failed = 0;
  state_->last_failed.clear();
  state_->wrong.clear();
}

void Machine::fault(abi::Stream handle, abi::Status status) {
  const std::lock_guard hold(state_->mutex);
  auto* const stream = reinterpret_cast<Stream*>(handle);
  stream->work.push_back({.run = [state = state_.get(), status] { state->fault = status; }});
}

void Machine::forget_pinned() {
  const std::lock_guard hold(state_->mutex);
  for (auto it = state_->allocations.begin(); it != state_->allocations.end();) {
    const auto next = std::next(it);
    if (it->second.kind == Kind::pinned) state_->drop(it);
    it = next;
  }
}

Balance Machine::balance() const {
  return counted(*state_, [this] {
    Balance now;
    for (const auto& [primary, references] : state_->primaries) now.primary_references += references;
    now.contexts = static_cast<std::size_t>(
        std::ranges::count_if(state_->contexts, [](const Context* context) { return !context->primary; }));
    now.streams = state_->streams.size();
    now.events = state_->events.size();
    for (const auto& [address, allocation] : state_->allocations) {
      now.allocations += allocation.kind == Kind::device ? 1 : 0;
      now.pinned += allocation.kind == Kind::pinned ? 1 : 0;
      now.registered += allocation.kind == Kind::registered ? 1 : 0;
    }
    now.modules = state_->modules.size();
    now.reservations = state_->reservations.size();
    now.handles = state_->handles.size();
    now.mappings = state_->mapped.size();
    return now;
  });
}
std::string Machine::violations() const {
  return counted(*state_, [this] { return state_->wrong; });
}
std::size_t Machine::peer_copies() const {
  return counted(*state_, [this] { return state_->peer_copies; });
}
std::size_t Machine::staged_copies() const {
  return counted(*state_, [this] { return state_->staged_copies; });
}
unsigned Machine::host_flags(const void* memory) const {
  return counted(*state_, [&] {
    const Allocation* const found = state_->pinned_at(memory, 0);
    return found != nullptr ? found->flags : 0U;
  });
}
std::size_t Machine::free_bytes(int device) const {
  return counted(*state_, [&] {
    return state_->config.total_bytes - state_->used.at(static_cast<std::size_t>(device));
  });
}
unsigned Machine::stream_flags(abi::Stream stream) const {
  return counted(*state_, [&] { return reinterpret_cast<const Stream*>(stream)->flags; });
}
bool Machine::busy(abi::Stream stream) const {
  return counted(*state_, [&] { return !reinterpret_cast<const Stream*>(stream)->work.empty(); });
}

std::byte* Machine::bytes(abi::DevicePtr address) {
  return reinterpret_cast<std::byte*>(address & ((DevicePtr{1} << host_address_bits) - 1));
}

void Machine::add_kernel(const std::string& name, std::vector<std::size_t> arg_bytes,
                         std::function<void(const Launch&)> body) {
  const std::lock_guard hold(state_->mutex);
  state_->kernels[name] = {std::move(arg_bytes), std::move(body)};
}

}  // namespace fake_cuda
