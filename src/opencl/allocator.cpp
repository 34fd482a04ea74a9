// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/discovery.hpp>

#include <algorithm>
#include <new>
#include <span>
#include <vector>

#include "address.hpp"
#include "block.hpp"
#include "fill.hpp"
#include "query.hpp"
#include "stream.hpp"
#include "wait.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

Result<Handle<cl_command_queue>> make_queue(cl_context context, cl_device_id device) {
  cl_int status = CL_SUCCESS;
  auto queue = Handle<cl_command_queue>::adopt(clCreateCommandQueue(context, device, 0, &status));
  if (status != CL_SUCCESS) return fail(error(status, "clCreateCommandQueue"));
  return queue;
}

Result<Handle<cl_context>> make_context(std::span<const cl_device_id> devices) {
  cl_int status = CL_SUCCESS;
  auto context = Handle<cl_context>::adopt(clCreateContext(nullptr, static_cast<cl_uint>(devices.size()),
                                                           devices.data(), nullptr, nullptr, &status));
  if (status != CL_SUCCESS) return fail(error(status, "clCreateContext"));
  return context;
}

DeviceKey device_key(cl_device_id device) noexcept {
  return {.backend = backend, .high = 0, .low = reinterpret_cast<std::uintptr_t>(device)};
}

// Where the device is among those of its context.
Result<void> place_in_context(detail::Instance& instance) {
  std::size_t nbytes = 0;
  const auto get = [&](std::size_t room, cl_device_id* out) {
    return check(
        clGetContextInfo(instance.context.get(), CL_CONTEXT_DEVICES, room, static_cast<void*>(out), &nbytes),
        "clGetContextInfo");
  };
  if (auto asked = get(0, nullptr); !asked) return asked;
  std::vector<cl_device_id> devices(nbytes / sizeof(cl_device_id));
  if (auto got = get(nbytes, devices.data()); !got) return got;
  const auto place = std::ranges::find(devices, instance.device);
  // A queue may be on a part of a device (clCreateSubDevices), for which the driver tells no address.
  if (place == devices.end()) instance.device_addresses = false;
  instance.context_devices = devices.size();
  instance.device_index = static_cast<std::size_t>(place - devices.begin());
  return {};
}

Result<std::shared_ptr<detail::Instance>> make_instance(Handle<cl_context> context, cl_command_queue native,
                                                        const Options& options) {
  const auto device = query<cl_device_id>(native, CL_QUEUE_DEVICE);
  if (!device) return fail(device.error());
  auto queue = retained_queue(native);
  if (!queue) return fail(queue.error());
  const auto description = describe(*device);
  if (!description) return fail(description.error());

  auto instance = std::make_shared<detail::Instance>();
  instance->quirks = options.quirks.value_or(quirks_of(*description));
  if (options.commit == Commit::always ||
      (options.commit == Commit::automatic && instance->quirks.has(Quirk::lazy_allocation))) {
    auto commit_queue = make_queue(context.get(), *device);
    if (!commit_queue) return fail(commit_queue.error());
    instance->commit_queue = std::move(*commit_queue);
  }
  instance->context = std::move(context);
  instance->device = *device;
  instance->queue = std::move(*queue);
  instance->id = next_instance_id();
  instance->base_alignment = description->base_alignment;
  instance->max_bytes = description->max_alloc_bytes;
  instance->total_bytes = description->global_bytes;
  instance->unified_memory = description->unified_memory;
  instance->stage_disk_copies = options.stage_disk_copies;
  instance->device_addresses = offers_device_addresses(*description);
  instance->shared_virtual_memory =
      description->version >= Version{2, 0} && (description->svm_coarse || description->svm_fine);
  if (auto placed = place_in_context(*instance); !placed) return fail(placed.error());
  instance->staging = std::make_shared<detail::StagingShelf>(description->unified_memory);
  reclaim::announce(device_key(instance->device), instance->staging, reclaim::Holds::staging);
  hook_exit();
  return instance;
}

// Writes one byte and waits, on a queue of its own: on the user's it would wait for every kernel before it.
Result<void> commit(cl_command_queue queue, cl_mem mem, std::size_t nbytes) {
  constexpr unsigned char byte = 0;
  cl_event raw = nullptr;
  if (auto filled = check(clEnqueueFillBuffer(queue, mem, &byte, 1, nbytes - 1, 1, 0, nullptr, &raw),
                          "clEnqueueFillBuffer", Doing::allocating);
      !filled) {
    return filled;
  }
  const auto event = Handle<cl_event>::adopt(raw);
  return wait_for(event.get(), Doing::allocating);
}

Result<void> check_spec(const BufferSpec& spec, std::size_t nbytes, std::size_t alignment, Quirks quirks) {
  if (spec.external_ptr == nullptr) return {};
  if (spec.zero) {
    return fail(Error(Errc::invalid_argument, backend)
                    .in("alloc")
                    .asking(nbytes)
                    .because("zero and external_ptr contradict each other"));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(spec.external_ptr);
  if (alignment != 0 && address % alignment != 0) {
    return fail(
        Error(Errc::misaligned, backend).in("alloc").asking(nbytes).at(address).limited_to(alignment));
  }
  // A cache line, to which such a driver rounds.
  constexpr std::size_t line = 64;
  if (quirks.has(Quirk::writes_past_tail) && nbytes % line != 0) {
    return fail(Error(Errc::invalid_size, backend)
                    .in("alloc")
                    .asking(nbytes)
                    .limited_to(line)
                    .because("this driver writes past memory that ends inside 64 bytes"));
  }
  return {};
}

cl_mem_flags flags_for(const BufferSpec& spec, const WrapOptions& wrap, bool unified_memory) noexcept {
  if (spec.external_ptr != nullptr) {
    return CL_MEM_USE_HOST_PTR | (wrap.read_only ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE);
  }
  if (spec.host || (spec.cpu_access && unified_memory)) return CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
  return CL_MEM_READ_WRITE;
}

using SharedExternal = std::shared_ptr<detail::External>;

void CL_CALLBACK on_deleted(cl_mem, void* shared) noexcept {
  const std::unique_ptr<SharedExternal> external(static_cast<SharedExternal*>(shared));
  (*external)->tell_deleted();
}

}  // namespace

cl_mem ClBuffer::root() const noexcept { return block_ != nullptr ? block_->root.get() : nullptr; }

Allocator::Allocator(std::shared_ptr<detail::Instance> instance, Queue queue) noexcept
    : instance_(std::move(instance)), queue_(std::move(queue)) {}

Result<Allocator> Allocator::open(cl_device_id device, const Options& options) {
  auto opened = open(std::span(&device, 1), options);
  if (!opened) return fail(opened.error());
  return std::move(opened->front());
}

Result<std::vector<Allocator>> Allocator::open(std::span<const cl_device_id> devices,
                                               const Options& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const Error invalid = Error(Errc::invalid_argument, backend).in("open");
  if (devices.empty()) return fail(Error(invalid).because("there are no devices"));
  if (std::ranges::find(devices, nullptr) != devices.end())
    return fail(Error(invalid).because("a device is null"));
  const auto context = make_context(devices);
  if (!context) return fail(context.error());
  std::vector<Allocator> allocators;
  for (const cl_device_id device : devices) {
    auto queue = make_queue(context->get(), device);
    if (!queue) return fail(queue.error());
    auto allocator = borrow(context->get(), queue->get(), options);
    if (!allocator) return fail(allocator.error());
    allocators.push_back(std::move(*allocator));
  }
  return allocators;
}

Result<Allocator> Allocator::borrow(cl_context context, cl_command_queue queue, const Options& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto right = check_queue(context, queue, "borrow"); !right) return fail(right.error());
  auto own_queue = retained_queue(queue);
  if (!own_queue) return fail(own_queue.error());
  auto own_context = Handle<cl_context>::borrow(context);
  if (!own_context) return fail(own_context.error());
  auto instance = make_instance(std::move(*own_context), queue, options);
  if (!instance) return fail(instance.error());
  return Allocator(std::move(*instance), std::move(*own_queue));
}

Result<Allocator> Allocator::adopt(cl_context context, cl_command_queue queue, const Options& options) {
  auto allocator = borrow(context, queue, options);
  if (allocator) {
    release(queue);
    release(context);
  }
  return allocator;
}

AllocatorInfo Allocator::info() const {
  return {.backend = backend,
          .instance = instance_->id,
          .device = device_key(instance_->device),
          .alignment = instance_->base_alignment,
          .granularity = instance_->base_alignment,
          .max_bytes = instance_->max_bytes,
          .total_bytes = instance_->total_bytes,
          .shares_host_memory = instance_->unified_memory};
}

Result<ClBuffer> Allocator::alloc(std::size_t nbytes, const BufferSpec& spec) {
  return make(nbytes, spec, {});
}

Result<ClBuffer> Allocator::wrap(std::span<std::byte> bytes, const WrapOptions& options) {
  if (bytes.data() == nullptr && !bytes.empty()) {
    return fail(Error(Errc::invalid_argument, backend)
                    .in("wrap")
                    .asking(bytes.size())
                    .because("the address is null"));
  }
  return make(bytes.size(), {.external_ptr = bytes.data()}, options);
}

Result<ClBuffer> Allocator::make(std::size_t nbytes, const BufferSpec& spec, const WrapOptions& wrap) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (nbytes == 0) return ClBuffer(nullptr, 0, 0, instance_->id, false, false);
  if (auto right = check_spec(spec, nbytes, wrap.alignment, instance_->quirks); !right)
    return fail(right.error());
  if (nbytes > instance_->max_bytes) {
    return fail(Error(Errc::exceeds_device_maximum, backend)
                    .in("alloc")
                    .asking(nbytes)
                    .limited_to(instance_->max_bytes));
  }

  SharedExternal external;
  if (spec.external_ptr != nullptr) {
    auto claim =
        HostRange::claim(std::span(static_cast<const std::byte*>(spec.external_ptr), nbytes), backend);
    if (!claim) return fail(claim.error());
    external = std::make_shared<detail::External>();
    external->claim = std::move(*claim);
  }

  auto mem =
      make_buffer(*instance_, flags_for(spec, wrap, instance_->unified_memory), nbytes, spec.external_ptr);
  if (!mem) return fail(mem.error());

  if (external != nullptr) {
    auto shared = std::make_unique<SharedExternal>(external);
    if (auto told = check(clSetMemObjectDestructorCallback(mem->get(), &on_deleted, shared.get()),
                          "clSetMemObjectDestructorCallback", Doing::allocating);
        !told) {
      return fail(told.error());
    }
    static_cast<void>(shared.release());  // the callback's
  } else if (instance_->commit_queue) {
    if (auto done = commit(instance_->commit_queue.get(), mem->get(), nbytes); !done) {
      return fail(Error(done.error()).asking(nbytes));
    }
  }
  if (spec.zero) {
    if (auto filled = enqueue_fill(queue(), mem->get(), std::byte{0}, 0, nbytes, Doing::allocating);
        !filled) {
      return fail(Error(filled.error()).asking(nbytes));
    }
  }
  auto* block = new (std::nothrow) detail::Block(*instance_, std::move(*mem), nbytes, std::move(external));
  if (block == nullptr) {
    return fail(Error(Errc::out_of_memory, "host").in("alloc").asking(sizeof(detail::Block)));
  }
  return ClBuffer(block, 0, nbytes, instance_->id, false, spec.external_ptr != nullptr);
}

void Allocator::free(ClBuffer buf, std::size_t /*nbytes*/, const BufferSpec& /*spec*/) noexcept {
  if (!process::may_release() || !checks::freeable(buf, info()) || buf.block_ == nullptr) return;
  if (detail::External* external = buf.block_->external.get()) {
    if (buf.block_->has_maps()) report(Error(Errc::mapped, backend).in("free").asking(buf.nbytes()));
    // The block's end waits until the driver has deleted the object; nothing that uses it may stay
    // unsubmitted.
    const auto finish = [external](cl_command_queue queue) {
      const auto done = check(clFinish(queue), "clFinish", Doing::moving);
      if (done) return;
      report(done.error());
      if (clFinish(queue) != CL_SUCCESS) external->lost = true;
    };
    finish(queue());
    if (queue() != native_queue(instance_->queue)) finish(native_queue(instance_->queue));
    // Let go of here, not by the driver's thread that tells of the deletion and shares `external`: it may
    // release no queue (OpenCL 3.0, clSetMemObjectDestructorCallback).
    std::vector<Queue> queues;
    {
      const MutexLock lock(external->mutex);
      queues.swap(external->queues);
    }
    for (const Queue& used : queues) finish(native_queue(used));
  }
  buf.block_->release();
}

Result<ClBuffer> Allocator::offset(const ClBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "offset"); !inside)
    return fail(inside.error());
  return ClBuffer(buf.block_, buf.byte_offset() + byte_offset, nbytes, instance_->id, true, buf.shared_);
}

cl_context Allocator::context() const noexcept { return instance_->context.get(); }
cl_device_id Allocator::device() const noexcept { return instance_->device; }
cl_command_queue Allocator::queue() const noexcept { return native_queue(queue_); }

}  // namespace berth::inline BERTH_ABI::opencl
