// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/core/reclaim.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>

#include <limits>
#include <new>

#include "address.hpp"
#include "block.hpp"
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
// What it rounds sizes up to; seen with driver 580 on an H200.
constexpr std::size_t granularity = 512;
constexpr std::size_t page_bytes = 4096;
constexpr std::uint64_t max_host_bytes = std::numeric_limits<std::ptrdiff_t>::max();

std::shared_ptr<Instance> make_instance(std::shared_ptr<const Context> context, abi::Stream stream,
                                        bool owns_stream, const DeviceDescription& description,
                                        const Options& options) {
  const AllocatorInfo info{.backend = backend,
                           .instance = next_instance_id(),
                           .device = description.key,
                           .alignment = alignment,
                           .granularity = granularity,
                           .max_bytes = description.total_bytes,
                           .total_bytes = description.total_bytes,
                           .shares_host_memory = false};
  const detail::HostReach reach{
      .pageable = description.pageable_memory_access,
      .registers = description.host_register,
      .registers_read_only = description.host_register && description.read_only_host_register};
  auto staging = std::make_shared<detail::StagingShelf>(description.integrated);
  reclaim::announce(description.key, staging, reclaim::Holds::staging);
  auto instance = std::make_shared<Instance>(std::move(context), stream, owns_stream, info, reach,
                                             options.registration_chunk_bytes, std::move(staging));
  detail::announce(instance);
  return instance;
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

// Memory of the device's that is the caller's.
Result<Memory> external(const Context& context, std::size_t nbytes, void* address) {
  Memory memory;
  memory.address = reinterpret_cast<std::uintptr_t>(address);
  if (auto right = detail::check_memory(context, memory.address, nbytes, "alloc"); !right)
    return fail(right.error());
  return memory;
}

// `invalid_argument` unless the chunks are whole pages.
Result<void> check_options(const Options& options, const char* call) {
  if (options.registration_chunk_bytes != 0 && options.registration_chunk_bytes % page_bytes == 0) return {};
  return fail(Error(Errc::invalid_argument, backend)
                  .in(call)
                  .asking(options.registration_chunk_bytes)
                  .limited_to(page_bytes)
                  .because("registration_chunk_bytes is not of whole pages"));
}

}  // namespace

std::byte* CudaBuffer::host_data() const noexcept {
  if (block_ == nullptr || block_->memory.host == nullptr) return nullptr;
  return block_->memory.host + (address_ - block_->memory.address);
}

Allocator::Allocator(std::shared_ptr<detail::Instance> instance, abi::Stream stream) noexcept
    : instance_(std::move(instance)), stream_(stream) {}

Result<Allocator> Allocator::open(int ordinal, const Options& options) {
  if (auto right = check_options(options, "open"); !right) return fail(right.error());
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
  return Allocator(make_instance(context, stream, true, *description, options), stream);
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
  if (auto right = check_options(options, call); !right) return fail(right.error());
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
  if (auto right = detail::check_stream(asked, stream, call); !right) return fail(right.error());
  const auto description = describe_device(**table, device);
  if (!description) return fail(description.error());

  const auto ownership = adopts ? Context::Ownership::adopted : Context::Ownership::borrowed;
  auto context = std::make_shared<const Context>(**table, native, device, ownership);
  return Allocator(
      make_instance(std::move(context), stream, adopts && !detail::is_default(stream), *description, options),
      stream);
}

AllocatorInfo Allocator::info() const { return instance_->info; }

Result<CudaBuffer> Allocator::alloc(std::size_t nbytes, const BufferSpec& spec) {
  const Context& context = *instance_->context;
  if (auto usable = context.usable("alloc"); !usable) return fail(usable.error());
  if (nbytes == 0) return CudaBuffer(nullptr, 0, 0, instance_->info.instance, false, false);
  if (spec.external_ptr != nullptr && spec.zero) {
    return fail(Error(Errc::invalid_argument, backend)
                    .in("alloc")
                    .asking(nbytes)
                    .because("zero and external_ptr contradict each other"));
  }
  if (spec.external_ptr != nullptr && spec.host)
    return wrap({static_cast<std::byte*>(spec.external_ptr), nbytes});
  const std::uint64_t maximum = spec.host ? max_host_bytes : instance_->info.total_bytes;
  if (nbytes > maximum) {
    return fail(Error(Errc::exceeds_device_maximum, backend).in("alloc").asking(nbytes).limited_to(maximum));
  }
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());

  const auto memory = spec.external_ptr == nullptr ? allocate(context, nbytes, spec)
                                                   : external(context, nbytes, spec.external_ptr);
  if (!memory) return fail(memory.error());
  auto* const block = new (std::nothrow) Block(*instance_, *memory, nbytes);
  if (block == nullptr) {
    memory->release(context);
    return fail(Error(Errc::out_of_memory, "host").in("alloc").asking(sizeof(Block)));
  }
  if (spec.zero) {
    if (auto zeroed = context.check(context.driver.memset_d8_async(memory->address, 0, nbytes, stream_),
                                    "cuMemsetD8Async");
        !zeroed) {
      block->release();
      return fail(Error(zeroed.error()).asking(nbytes));
    }
  }
  return CudaBuffer(block, memory->address, nbytes, instance_->info.instance, false,
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
  block.release(current);
}

Result<std::uintptr_t> Allocator::addr(const CudaBuffer& buf) {
  if (auto usable = instance_->context->usable("addr"); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, instance_->info, "addr"); !owned) return fail(owned.error());
  return buf.nbytes() == 0 ? 0 : static_cast<std::uintptr_t>(buf.address());
}

Result<CudaBuffer> Allocator::offset(const CudaBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
  if (auto usable = instance_->context->usable("offset"); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, instance_->info, "offset"); !inside)
    return fail(inside.error());
  return CudaBuffer(buf.block_, buf.address() + byte_offset, nbytes, instance_->info.instance, true,
                    buf.shared_);
}

abi::Context Allocator::context() const noexcept { return instance_->context->handle; }
abi::Device Allocator::device() const noexcept { return instance_->context->device; }
const Driver& Allocator::driver() const noexcept { return instance_->context->driver; }

}  // namespace berth::inline BERTH_ABI::cuda
