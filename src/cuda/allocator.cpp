// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>

#include <limits>
#include <new>

#include "block.hpp"
#include "copy.hpp"
#include "map_copy.hpp"
#include "resolve.hpp"
#include "stream.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

using detail::Block;
using detail::Context;
using detail::Current;
using detail::Instance;
using detail::Memory;

// What cuMemAlloc aligns to (CUDA C++ Programming Guide, "Device Memory Accesses": at least 256 bytes).
constexpr std::size_t alignment = 256;
// As on OpenCL: what every vector type of a kernel is content with.
constexpr std::size_t host_pointer_alignment = 64;
constexpr std::uint64_t max_host_bytes = std::numeric_limits<std::ptrdiff_t>::max();

std::shared_ptr<Instance> make_instance(std::shared_ptr<const Context> context, abi::Stream stream,
                                        bool owns_stream, const DeviceDescription& description) {
  const AllocatorInfo info{.backend = backend,
                           .instance = next_instance_id(),
                           .device = description.key,
                           .alignment = alignment,
                           .granularity = alignment,
                           .max_bytes = description.total_bytes,
                           .total_bytes = description.total_bytes,
                           .shares_host_memory = false};
  return std::make_shared<Instance>(std::move(context), stream, owns_stream, info);
}

// `invalid_argument` unless the stream is one of the context's, which is current.
Result<void> check_stream(const Context& context, abi::Stream stream, const char* call) {
  const Error invalid = Error(Errc::invalid_argument, backend).in(call);
  if (detail::is_per_thread(stream)) {
    return fail(Error(invalid).because("the per-thread default stream is another queue on each host thread"));
  }
  if (detail::is_default(stream)) return {};
  abi::Context own = nullptr;
  if (auto asked = context.check(context.driver.stream_get_ctx(stream, &own), "cuStreamGetCtx"); !asked) {
    return asked;
  }
  if (own != context.handle) return fail(Error(invalid).because("the stream is of another context"));
  return {};
}

Result<void> check_spec(const BufferSpec& spec, std::size_t nbytes) {
  if (spec.external_ptr == nullptr) return {};
  if (spec.zero) {
    return fail(Error(Errc::invalid_argument, backend)
                    .in("alloc")
                    .asking(nbytes)
                    .because("zero and external_ptr contradict each other"));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(spec.external_ptr);
  if (spec.host && address % host_pointer_alignment != 0) {
    return fail(Error(Errc::misaligned, backend)
                    .in("alloc")
                    .asking(nbytes)
                    .at(address)
                    .limited_to(host_pointer_alignment));
  }
  return {};
}

// The address at which the device sees memory of the host's; else gives the memory back.
Result<Memory> seen_by_device(const Context& context, Memory memory, std::size_t nbytes) {
  if (auto seen = context.check(context.driver.mem_host_get_device_pointer(&memory.address, memory.host, 0),
                                "cuMemHostGetDevicePointer");
      !seen) {
    memory.release(context);
    return fail(Error(seen.error()).asking(nbytes));
  }
  return memory;
}

Result<Memory> allocate(const Context& context, std::size_t nbytes, const BufferSpec& spec) {
  Memory memory;
  if (!spec.host) {
    memory.kind = Memory::Kind::device;
    if (auto made = context.check(context.driver.mem_alloc(&memory.address, nbytes), "cuMemAlloc"); !made)
      return fail(Error(made.error()).asking(nbytes));
    return memory;
  }
  memory.kind = Memory::Kind::pinned;
  const unsigned flags = abi::memhostalloc_portable | abi::memhostalloc_devicemap |
                         (spec.uncached ? abi::memhostalloc_writecombined : 0U);
  void* host = nullptr;
  if (auto made = context.check(context.driver.mem_host_alloc(&host, nbytes, flags), "cuMemHostAlloc");
      !made) {
    return fail(Error(made.error()).asking(nbytes));
  }
  memory.host = static_cast<std::byte*>(host);
  return seen_by_device(context, memory, nbytes);
}

Result<Memory> register_host(const Context& context, void* host, std::size_t nbytes) {
  constexpr unsigned flags = abi::memhostregister_portable | abi::memhostregister_devicemap;
  if (auto made = context.check(context.driver.mem_host_register(host, nbytes, flags), "cuMemHostRegister");
      !made) {
    return fail(Error(made.error()).asking(nbytes).at(reinterpret_cast<std::uintptr_t>(host)));
  }
  const Memory memory{.kind = Memory::Kind::registered, .host = static_cast<std::byte*>(host)};
  return seen_by_device(context, memory, nbytes);
}

// `invalid_argument` unless this context can use the address. Memory of no context (mapped by the virtual
// memory calls, or of a pool) is for its owner to make accessible.
Result<void> check_address(const Context& context, abi::DevicePtr address, const char* call) {
  const Error invalid = Error(Errc::invalid_argument, backend).in(call).at(address);
  abi::Context own = nullptr;
  const abi::Status status =
      context.driver.pointer_get_attribute(&own, abi::pointer_attribute_context, address);
  if (status == abi::invalid_value) {
    return fail(Error(invalid).because("this is no address of the device's"));
  }
  if (auto asked = context.check(status, "cuPointerGetAttribute"); !asked) return asked;
  if (own != nullptr && own != context.handle) {
    return fail(Error(invalid).because("the memory is of another context"));
  }
  return {};
}

Result<Block*> make_block(const Instance& instance, const Memory& memory, std::size_t nbytes,
                          HostRange claim) {
  auto* const block = new (std::nothrow) Block(instance, memory, nbytes, std::move(claim));
  if (block != nullptr) return block;
  memory.release(*instance.context);
  return fail(Error(Errc::out_of_memory, "host").in("alloc").asking(sizeof(Block)));
}

}  // namespace

std::byte* CudaBuffer::host_data() const noexcept {
  if (block_ == nullptr || block_->memory.host == nullptr) return nullptr;
  return block_->memory.host + (address_ - block_->memory.address);
}

Allocator::Allocator(std::shared_ptr<detail::Instance> instance, abi::Stream stream) noexcept
    : instance_(std::move(instance)), stream_(stream) {}

Result<Allocator> Allocator::open(int ordinal, const Options& options) {
  const auto table = resolve(options.driver);
  if (!table) return fail(table.error());
  const Driver& driver = **table;
  abi::Device device = 0;
  if (auto got = check(driver, driver.device_get(&device, ordinal), "cuDeviceGet"); !got)
    return fail(got.error());
  const auto description = describe_device(driver, device);
  if (!description) return fail(description.error());
  abi::Context primary = nullptr;
  if (auto got =
          check(driver, driver.device_primary_ctx_retain(&primary, device), "cuDevicePrimaryCtxRetain");
      !got) {
    return fail(got.error());
  }
  auto context = std::make_shared<const Context>(driver, primary, device, Context::Ownership::primary);
  const Current current(*context);
  if (!current.entered()) return fail(current.entered().error());
  abi::Stream stream = nullptr;
  if (auto made = context->check(driver.stream_create(&stream, abi::stream_non_blocking), "cuStreamCreate");
      !made) {
    return fail(made.error());
  }
  return Allocator(make_instance(context, stream, true, *description), stream);
}

Result<Allocator> Allocator::borrow(abi::Context context, abi::Stream stream, const Options& options) {
  return use(context, stream, options, false);
}
Result<Allocator> Allocator::adopt(abi::Context context, abi::Stream stream, const Options& options) {
  return use(context, stream, options, true);
}

Result<Allocator> Allocator::use(abi::Context native, abi::Stream stream, const Options& options,
                                 bool adopts) {
  const char* const call = adopts ? "adopt" : "borrow";
  const auto table = resolve(options.driver);
  if (!table) return fail(table.error());
  if (native == nullptr) {
    return fail(Error(Errc::invalid_argument, backend).in(call).because("the context is null"));
  }
  stream = detail::named(stream);

  // Only asks questions: what it answers is the caller's until the end.
  const Context asked(**table, native, 0, Context::Ownership::borrowed);
  const Current current(asked);
  if (!current.entered()) return fail(current.entered().error());
  abi::Device device = 0;
  if (auto got = asked.check(asked.driver.ctx_get_device(&device), "cuCtxGetDevice"); !got)
    return fail(got.error());
  if (auto right = check_stream(asked, stream, call); !right) return fail(right.error());
  const auto description = describe_device(**table, device);
  if (!description) return fail(description.error());

  const auto ownership = adopts ? Context::Ownership::adopted : Context::Ownership::borrowed;
  auto context = std::make_shared<const Context>(**table, native, device, ownership);
  return Allocator(
      make_instance(std::move(context), stream, adopts && !detail::is_default(stream), *description), stream);
}

AllocatorInfo Allocator::info() const { return instance_->info; }

Result<CudaBuffer> Allocator::alloc(std::size_t nbytes, const BufferSpec& spec) {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("alloc"); !usable) return fail(usable.error());
  if (nbytes == 0) return CudaBuffer(nullptr, 0, 0, instance_->info.instance, false, false);
  if (auto right = check_spec(spec, nbytes); !right) return fail(right.error());
  const std::uint64_t maximum = spec.host ? max_host_bytes : instance_->info.total_bytes;
  if (nbytes > maximum) {
    return fail(Error(Errc::exceeds_device_maximum, backend).in("alloc").asking(nbytes).limited_to(maximum));
  }
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());

  HostRange claim;
  Result<Memory> memory;
  if (spec.external_ptr == nullptr) {
    memory = allocate(context, nbytes, spec);
  } else if (spec.host) {
    auto claimed =
        HostRange::claim(std::span(static_cast<const std::byte*>(spec.external_ptr), nbytes), backend);
    if (!claimed) return fail(claimed.error());
    claim = std::move(*claimed);
    memory = register_host(context, spec.external_ptr, nbytes);
  } else {
    const abi::DevicePtr address = reinterpret_cast<std::uintptr_t>(spec.external_ptr);
    if (auto right = check_address(context, address, "alloc"); !right) return fail(right.error());
    memory = Memory{.address = address};
  }
  if (!memory) return fail(memory.error());
  const auto block = make_block(*instance_, *memory, nbytes, std::move(claim));
  if (!block) return fail(block.error());
  if (spec.zero) {
    if (auto zeroed = context.check(context.driver.memset_d8_async(memory->address, 0, nbytes, stream_),
                                    "cuMemsetD8Async");
        !zeroed) {
      (*block)->release();
      return fail(Error(zeroed.error()).asking(nbytes));
    }
  }
  return CudaBuffer(*block, memory->address, nbytes, instance_->info.instance, false,
                    spec.external_ptr != nullptr);
}

void Allocator::free(CudaBuffer buf, std::size_t /*nbytes*/, const BufferSpec& /*spec*/) noexcept {
  if (!process::may_release() || !checks::freeable(buf, instance_->info) || buf.block_ == nullptr) return;
  Block& block = *buf.block_;
  if (!block.maps.empty()) report(Error(Errc::mapped, backend).in("free").asking(buf.nbytes()));
  const Context& context = *instance_->context;
  if (context.lost()) return block.release();
  const Current current(context);
  if (current.entered_or_told()) {
    block.settle(stream_);
  } else {
    block.keep();
  }
  block.release();
}

Result<void> Allocator::copyin(const CudaBuffer& buf, std::span<const std::byte> src) {
  constexpr const char* call = "copyin";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return usable;
  if (auto inside = checks::access(buf, src.size(), 0, instance_->info, call); !inside) return inside;
  if (src.empty()) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.address(), src.size(), true, call); !unmapped)
    return unmapped;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return detail::copy_in(context, stream_, buf.address(), src);
}

Result<void> Allocator::copyout(std::span<std::byte> dst, const CudaBuffer& buf) {
  constexpr const char* call = "copyout";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return usable;
  if (auto inside = checks::access(buf, dst.size(), 0, instance_->info, call); !inside) return inside;
  if (dst.empty()) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.address(), dst.size(), false, call); !unmapped)
    return unmapped;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return detail::copy_out(context, stream_, dst, buf.address());
}

Result<std::uintptr_t> Allocator::addr(const CudaBuffer& buf) {
  if (auto usable = instance_->context->usable("addr"); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, instance_->info, "addr"); !owned) return fail(owned.error());
  return buf.nbytes() == 0 ? 0 : static_cast<std::uintptr_t>(buf.address());
}

Result<void> Allocator::synchronize() {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("synchronize"); !usable) return usable;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return context.check(context.driver.stream_synchronize(stream_), "cuStreamSynchronize");
}

Result<CudaBuffer> Allocator::offset(const CudaBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
  if (auto usable = instance_->context->usable("offset"); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, instance_->info, "offset"); !inside)
    return fail(inside.error());
  return CudaBuffer(buf.block_, buf.address() + byte_offset, nbytes, instance_->info.instance, true,
                    buf.shared_);
}

Result<void> Allocator::fill(const CudaBuffer& buf, std::byte value) {
  constexpr const char* call = "fill";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return usable;
  if (auto owned = checks::own(buf, instance_->info, call); !owned) return owned;
  if (buf.nbytes() == 0) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.address(), buf.nbytes(), true, call); !unmapped)
    return unmapped;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return context.check(context.driver.memset_d8_async(buf.address(), std::to_integer<unsigned char>(value),
                                                      buf.nbytes(), stream_),
                       "cuMemsetD8Async");
}

Result<Mapping> Allocator::map(const CudaBuffer& buf, Access access, std::size_t nbytes,
                               std::size_t byte_offset) {
  constexpr const char* call = "map";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, instance_->info, call); !inside)
    return fail(inside.error());
  if (nbytes == 0) return Mapping();
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  if (std::byte* const host = buf.host_data()) {
    if (auto idle = context.check(context.driver.stream_synchronize(stream_), "cuStreamSynchronize"); !idle)
      return fail(idle.error());
    return Mapping(std::span(host + byte_offset, nbytes));
  }
  return detail::map_copy(*buf.block_, stream_, buf.address() + byte_offset, nbytes, access);
}

Result<abi::Stream> Allocator::same_context(const Queue& queue, const char* call) const {
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  const abi::Stream stream = native_queue(queue);
  if (stream == nullptr) {
    return fail(Error(queue ? Errc::wrong_backend : Errc::invalid_argument, backend)
                    .in(call)
                    .because(queue ? "the queue is of another backend" : "the queue is empty"));
  }
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  if (auto right = check_stream(context, stream, call); !right) return fail(right.error());
  return stream;
}

Result<Allocator> Allocator::on(const Queue& queue) {
  const auto stream = same_context(queue, "on");
  if (!stream) return fail(stream.error());
  return Allocator(instance_, *stream);
}

Result<void> Allocator::record_use(const CudaBuffer& buf, const Queue& queue) {
  if (auto owned = checks::own(buf, instance_->info, "record_use"); !owned) return owned;
  const auto stream = same_context(queue, "record_use");
  if (!stream) return fail(stream.error());
  if (buf.block_ != nullptr) buf.block_->used_on(*stream);
  return {};
}

Result<Event> Allocator::record() {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("record"); !usable) return fail(usable.error());
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  auto event = detail::OwnedEvent::make(context);
  if (!event) return fail(event.error());
  if (auto recorded = context.check(context.driver.event_record(event->get(), stream_), "cuEventRecord");
      !recorded) {
    return fail(recorded.error());
  }
  return detail::shared_event(instance_->context, std::move(*event));
}

Result<void> Allocator::wait(const Event& event) {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("wait"); !usable) return usable;
  const Error invalid = Error(event ? Errc::wrong_backend : Errc::invalid_argument, backend).in("wait");
  const Driver* const driver = detail::driver_of(event);
  if (driver == nullptr) {
    return fail(Error(invalid).because(event ? "the event is of another backend" : "the event is empty"));
  }
  if (driver != &context.driver) {
    return fail(Error(Errc::invalid_argument, backend).in("wait").because("the event is of another driver"));
  }
  const Current current(context);
  if (!current.entered()) return current.entered();
  return context.check(context.driver.stream_wait_event(stream_, native_event(event), 0),
                       "cuStreamWaitEvent");
}

Result<CudaBuffer> Allocator::take(abi::DevicePtr address, std::size_t nbytes, bool adopts) {
  const char* const call = adopts ? "adopt" : "borrow";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  const Error invalid = Error(Errc::invalid_argument, backend).in(call).asking(nbytes).at(address);
  if (nbytes == 0) return fail(Error(invalid).because("an allocation has bytes"));
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  if (auto right = check_address(context, address, call); !right) return fail(right.error());
  abi::DevicePtr base = 0;
  std::size_t size = 0;
  if (auto asked =
          context.check(context.driver.mem_get_address_range(&base, &size, address), "cuMemGetAddressRange");
      !asked) {
    return fail(asked.error());
  }
  if (adopts && base != address) return fail(Error(invalid).because("an allocation does not start here"));
  if (auto inside = checks::range(nbytes, address - base, size, backend, call); !inside)
    return fail(inside.error());
  const Memory memory{.kind = adopts ? Memory::Kind::device : Memory::Kind::external, .address = address};
  auto* const block = new (std::nothrow) Block(*instance_, memory, nbytes, HostRange());
  if (block == nullptr) return fail(Error(Errc::out_of_memory, "host").in(call).asking(sizeof(Block)));
  return CudaBuffer(block, address, nbytes, instance_->info.instance, false, true);
}

Result<CudaBuffer> Allocator::adopt(abi::DevicePtr address, std::size_t nbytes) {
  return take(address, nbytes, true);
}
Result<CudaBuffer> Allocator::borrow(abi::DevicePtr address, std::size_t nbytes) {
  return take(address, nbytes, false);
}

abi::Context Allocator::context() const noexcept { return instance_->context->handle; }
abi::Device Allocator::device() const noexcept { return instance_->context->device; }
const Driver& Allocator::driver() const noexcept { return instance_->context->driver; }

}  // namespace berth::inline BERTH_ABI::cuda
