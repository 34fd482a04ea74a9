// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/discovery.hpp>

#include <new>

#include "block.hpp"
#include "query.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

// What every OpenCL vector type and every driver's vector loads are content with, and the tail that drivers
// were seen to write past.
constexpr std::size_t host_pointer_alignment = 64;

struct Stream {
  Handle<cl_context> context;
  Handle<cl_command_queue> queue;
};

Result<Handle<cl_command_queue>> make_queue(cl_context context, cl_device_id device) {
  cl_int status = CL_SUCCESS;
  auto queue = Handle<cl_command_queue>::adopt(clCreateCommandQueue(context, device, 0, &status));
  if (status != CL_SUCCESS) return fail(error(status, "clCreateCommandQueue"));
  return queue;
}

Result<Stream> make_stream(cl_device_id device) {
  cl_int status = CL_SUCCESS;
  auto context = Handle<cl_context>::adopt(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
  if (status != CL_SUCCESS) return fail(error(status, "clCreateContext"));
  auto queue = make_queue(context.get(), device);
  if (!queue) return fail(queue.error());
  return Stream{std::move(context), std::move(*queue)};
}

// `invalid_argument` unless the queue is of the context and runs its commands in order.
Result<void> check_queue(cl_context context, cl_command_queue queue, const char* call) {
  const Error invalid = Error(Errc::invalid_argument, backend).in(call);
  if (context == nullptr || queue == nullptr)
    return fail(Error(invalid).because("the context or queue is null"));
  const auto own = query<cl_context>(queue, CL_QUEUE_CONTEXT);
  if (!own) return fail(own.error());
  if (*own != context) return fail(Error(invalid).because("the queue is of another context"));
  const auto properties = query<cl_command_queue_properties>(queue, CL_QUEUE_PROPERTIES);
  if (!properties) return fail(properties.error());
  if ((*properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
    return fail(Error(invalid).because("the queue runs out of order"));
  }
  return {};
}

// A reference of berth's own.
Result<Queue> retained_queue(cl_command_queue queue) {
  auto handle = Handle<cl_command_queue>::borrow(queue);
  if (!handle) return fail(handle.error());
  return adopt_queue(handle->release());
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
  const bool lazy_device = description->type != DeviceType::cpu;
  if (options.commit == Commit::always || (options.commit == Commit::automatic && lazy_device)) {
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
  process::register_exit_hook();
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
  const cl_int waited = clWaitForEvents(1, &raw);
  if (waited == CL_SUCCESS) return {};
  const auto status = query<cl_int>(raw, CL_EVENT_COMMAND_EXECUTION_STATUS);
  return check(status.value_or(CL_SUCCESS) < 0 ? *status : waited, "clWaitForEvents", Doing::allocating);
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
  if (address % host_pointer_alignment != 0) {
    return fail(Error(Errc::misaligned, backend)
                    .in("alloc")
                    .asking(nbytes)
                    .at(address)
                    .limited_to(host_pointer_alignment));
  }
  return {};
}

cl_mem_flags flags_for(const BufferSpec& spec, bool unified_memory) noexcept {
  if (spec.external_ptr != nullptr) return CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
  if (spec.host || (spec.cpu_access && unified_memory)) return CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
  return CL_MEM_READ_WRITE;
}

using SharedExternal = std::shared_ptr<detail::External>;

void CL_CALLBACK on_deleted(cl_mem, void* shared) noexcept {
  const std::unique_ptr<SharedExternal> external(static_cast<SharedExternal*>(shared));
  (*external)->deleted.store(true, std::memory_order_release);
  (*external)->deleted.notify_all();
}

cl_map_flags map_flags(Access access) noexcept {
  switch (access) {
    case Access::read:
      return CL_MAP_READ;
    case Access::write:
      return CL_MAP_WRITE;
    case Access::overwrite:
      return CL_MAP_WRITE_INVALIDATE_REGION;
  }
  return 0;
}

}  // namespace

cl_mem ClBuffer::root() const noexcept { return block_ != nullptr ? block_->root.get() : nullptr; }

Allocator::Allocator(std::shared_ptr<detail::Instance> instance, Queue queue) noexcept
    : instance_(std::move(instance)), queue_(std::move(queue)) {}

Result<Allocator> Allocator::open(cl_device_id device, const Options& options) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (device == nullptr) {
    return fail(Error(Errc::invalid_argument, backend).in("open").because("the device is null"));
  }
  auto stream = make_stream(device);
  if (!stream) return fail(stream.error());
  Queue queue = adopt_queue(stream->queue.release());
  auto instance = make_instance(std::move(stream->context), native_queue(queue), options);
  if (!instance) return fail(instance.error());
  return Allocator(std::move(*instance), std::move(queue));
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
  return {
      .backend = backend,
      .instance = instance_->id,
      .device = {.backend = backend, .high = 0, .low = reinterpret_cast<std::uintptr_t>(instance_->device)},
      .alignment = instance_->base_alignment,
      .granularity = instance_->base_alignment,
      .max_bytes = instance_->max_bytes,
      .total_bytes = instance_->total_bytes,
      .shares_host_memory = instance_->unified_memory};
}

Result<ClBuffer> Allocator::alloc(std::size_t nbytes, const BufferSpec& spec) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (nbytes == 0) return ClBuffer(nullptr, 0, 0, instance_->id, false);
  if (auto right = check_spec(spec, nbytes); !right) return fail(right.error());
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

  cl_int status = CL_SUCCESS;
  auto mem = Handle<cl_mem>::adopt(clCreateBuffer(instance_->context.get(),
                                                  flags_for(spec, instance_->unified_memory), nbytes,
                                                  spec.external_ptr, &status));
  if (status != CL_SUCCESS) return fail(error(status, "clCreateBuffer", Doing::allocating).asking(nbytes));

  if (external != nullptr) {
    auto shared = std::make_unique<SharedExternal>(external);
    if (auto told = check(clSetMemObjectDestructorCallback(mem.get(), &on_deleted, shared.get()),
                          "clSetMemObjectDestructorCallback", Doing::allocating);
        !told) {
      return fail(told.error());
    }
    static_cast<void>(shared.release());  // the callback's
  } else if (instance_->commit_queue) {
    if (auto done = commit(instance_->commit_queue.get(), mem.get(), nbytes); !done) {
      return fail(Error(done.error()).asking(nbytes));
    }
  }
  if (spec.zero) {
    constexpr unsigned char zero = 0;
    if (auto filled = check(clEnqueueFillBuffer(queue(), mem.get(), &zero, 1, 0, nbytes, 0, nullptr, nullptr),
                            "clEnqueueFillBuffer", Doing::allocating);
        !filled) {
      return fail(Error(filled.error()).asking(nbytes));
    }
  }
  auto* block = new (std::nothrow) detail::Block(*instance_, std::move(mem), nbytes, std::move(external));
  if (block == nullptr) {
    return fail(Error(Errc::out_of_memory, "host").in("alloc").asking(sizeof(detail::Block)));
  }
  return ClBuffer(block, 0, nbytes, instance_->id, false);
}

void Allocator::free(ClBuffer buf, std::size_t /*nbytes*/, const BufferSpec& /*spec*/) noexcept {
  if (!process::may_release() || !checks::freeable(buf, info()) || buf.block_ == nullptr) return;
  if (detail::External* external = buf.block_->external.get()) {
    if (buf.block_->has_maps()) report(Error(Errc::mapped, backend).in("free").asking(buf.nbytes()));
    // The block's end waits until the driver has deleted the object; nothing that uses it may stay
    // unsubmitted.
    const auto finish = [](cl_command_queue queue) {
      if (auto done = check(clFinish(queue), "clFinish", Doing::moving); !done) report(done.error());
    };
    finish(queue());
    if (queue() != native_queue(instance_->queue)) finish(native_queue(instance_->queue));
    const MutexLock lock(external->mutex);
    for (const Queue& used : external->queues) finish(native_queue(used));
  }
  buf.block_->release();
}

Result<void> Allocator::copyin(const ClBuffer& buf, std::span<const std::byte> src) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto inside = checks::access(buf, src.size(), 0, info(), "copyin"); !inside) return inside;
  if (src.empty()) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.byte_offset(), src.size(), true, "copyin"); !unmapped) {
    return unmapped;
  }
  return check(clEnqueueWriteBuffer(queue(), buf.root(), CL_TRUE, buf.byte_offset(), src.size(), src.data(),
                                    0, nullptr, nullptr),
               "clEnqueueWriteBuffer", Doing::moving);
}

Result<void> Allocator::copyout(std::span<std::byte> dst, const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto inside = checks::access(buf, dst.size(), 0, info(), "copyout"); !inside) return inside;
  if (dst.empty()) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.byte_offset(), dst.size(), false, "copyout");
      !unmapped) {
    return unmapped;
  }
  return check(clEnqueueReadBuffer(queue(), buf.root(), CL_TRUE, buf.byte_offset(), dst.size(), dst.data(), 0,
                                   nullptr, nullptr),
               "clEnqueueReadBuffer", Doing::moving);
}

Result<std::uintptr_t> Allocator::addr(const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "addr"); !owned) return fail(owned.error());
  if (buf.nbytes() == 0) return 0;
  return fail(Error(Errc::unsupported, backend).in("addr").because("core OpenCL has no device addresses"));
}

Result<void> Allocator::synchronize() {
  if (auto usable = process::usable(backend); !usable) return usable;
  return check(clFinish(queue()), "clFinish", Doing::moving);
}

Result<ClBuffer> Allocator::offset(const ClBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "offset"); !inside)
    return fail(inside.error());
  return ClBuffer(buf.block_, buf.byte_offset() + byte_offset, nbytes, instance_->id, true);
}

Result<void> Allocator::transfer(const ClBuffer& dest, const ClBuffer& src, std::size_t nbytes) {
  constexpr const char* call = "transfer";
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto inside = checks::access(dest, nbytes, 0, info(), call); !inside) return inside;
  if (auto inside = checks::range(nbytes, 0, src.nbytes(), backend, call); !inside) return inside;
  if (nbytes == 0) return {};
  const detail::Instance& from = src.block_->instance;
  if (from.context.get() != instance_->context.get()) {
    return fail(Error(Errc::wrong_allocator, backend)
                    .in(call)
                    .asking(nbytes)
                    .because("the source is of another context"));
  }
  if (dest.root() == src.root() && checks::overlapping(dest.byte_offset(), src.byte_offset(), nbytes)) {
    return fail(
        Error(Errc::overlap, backend).in(call).asking(nbytes).at(src.byte_offset()).limited_to(nbytes));
  }
  if (auto unmapped = src.block_->check_unmapped(src.byte_offset(), nbytes, false, call); !unmapped)
    return unmapped;
  if (auto unmapped = dest.block_->check_unmapped(dest.byte_offset(), nbytes, true, call); !unmapped)
    return unmapped;

  // Ordered on the queue of the source's instance too: the copy waits for a marker there, and later work
  // there for the copy. Handles of one instance are ordered by whoever made them, with record and wait.
  const cl_command_queue source_queue = native_queue(from.queue);
  const bool two_queues = &from != instance_.get() && source_queue != queue();
  cl_event before = nullptr;
  if (two_queues) {
    if (auto marked = check(clEnqueueMarkerWithWaitList(source_queue, 0, nullptr, &before),
                            "clEnqueueMarkerWithWaitList", Doing::moving);
        !marked) {
      return marked;
    }
  }
  const auto ready = Handle<cl_event>::adopt(before);
  if (two_queues) {
    if (auto flushed = check(clFlush(source_queue), "clFlush", Doing::moving); !flushed) return flushed;
  }
  cl_event after = nullptr;
  if (auto copied = check(clEnqueueCopyBuffer(queue(), src.root(), dest.root(), src.byte_offset(),
                                              dest.byte_offset(), nbytes, two_queues ? 1 : 0,
                                              two_queues ? &before : nullptr, two_queues ? &after : nullptr),
                          "clEnqueueCopyBuffer", Doing::moving);
      !copied) {
    return copied;
  }
  if (!two_queues) return {};
  const auto copied = Handle<cl_event>::adopt(after);
  if (auto flushed = check(clFlush(queue()), "clFlush", Doing::moving); !flushed) return flushed;
  return check(clEnqueueBarrierWithWaitList(source_queue, 1, &after, nullptr), "clEnqueueBarrierWithWaitList",
               Doing::moving);
}

Result<void> Allocator::fill(const ClBuffer& buf, std::byte value) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto owned = checks::own(buf, info(), "fill"); !owned) return owned;
  if (buf.nbytes() == 0) return {};
  if (auto unmapped = buf.block_->check_unmapped(buf.byte_offset(), buf.nbytes(), true, "fill"); !unmapped) {
    return unmapped;
  }
  return check(clEnqueueFillBuffer(queue(), buf.root(), &value, 1, buf.byte_offset(), buf.nbytes(), 0,
                                   nullptr, nullptr),
               "clEnqueueFillBuffer", Doing::moving);
}

Result<Mapping> Allocator::map(const ClBuffer& buf, Access access, std::size_t nbytes,
                               std::size_t byte_offset) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "map"); !inside)
    return fail(inside.error());
  if (nbytes == 0) return Mapping();

  const std::size_t from_root = buf.byte_offset() + byte_offset;
  if (auto begun = buf.block_->begin_map(from_root, nbytes, access != Access::read); !begun) {
    return fail(begun.error());
  }
  cl_int status = CL_SUCCESS;
  void* address = clEnqueueMapBuffer(queue(), buf.root(), CL_TRUE, map_flags(access), from_root, nbytes, 0,
                                     nullptr, nullptr, &status);
  if (status != CL_SUCCESS) {
    buf.block_->end_map(from_root, nbytes, true);
    return fail(error(status, "clEnqueueMapBuffer", Doing::moving).asking(nbytes).at(from_root));
  }

  struct Live {
    detail::Block* block;
    cl_command_queue queue;
    std::size_t byte_offset;
  };
  return Mapping(
      std::span(static_cast<std::byte*>(address), nbytes), Live{buf.block_, queue(), from_root},
      +[](const Live& live, std::span<std::byte> bytes) noexcept -> Result<void> {
        if (!process::may_release()) return {};
        auto unmapped = check(
            clEnqueueUnmapMemObject(live.queue, live.block->root.get(), bytes.data(), 0, nullptr, nullptr),
            "clEnqueueUnmapMemObject", Doing::moving);
        live.block->end_map(live.byte_offset, bytes.size(), unmapped.has_value());
        if (unmapped) unmapped = check(clFlush(live.queue), "clFlush", Doing::moving);
        return unmapped;
      });
}

Result<cl_command_queue> Allocator::same_context(const Queue& queue, const char* call) const {
  const cl_command_queue native = native_queue(queue);
  if (native == nullptr) {
    return fail(Error(queue ? Errc::wrong_backend : Errc::invalid_argument, backend)
                    .in(call)
                    .because(queue ? "the queue is of another backend" : "the queue is empty"));
  }
  if (auto right = check_queue(context(), native, call); !right) return fail(right.error());
  return native;
}

Result<Allocator> Allocator::on(const Queue& queue) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const auto native = same_context(queue, "on");
  if (!native) return fail(native.error());
  const auto device = query<cl_device_id>(*native, CL_QUEUE_DEVICE);
  if (!device) return fail(device.error());
  if (*device != instance_->device) {
    return fail(Error(Errc::invalid_argument, backend).in("on").because("the queue is of another device"));
  }
  auto own = retained_queue(*native);
  if (!own) return fail(own.error());
  return Allocator(instance_, std::move(*own));
}

Result<void> Allocator::record_use(const ClBuffer& buf, const Queue& queue) {
  if (auto usable = process::usable(backend); !usable) return usable;
  if (auto owned = checks::own(buf, info(), "record_use"); !owned) return owned;
  const auto native = same_context(queue, "record_use");
  if (!native) return fail(native.error());
  // The driver itself keeps an object until the commands that use it are done, on whatever queue (OpenCL 3.0,
  // clReleaseMemObject). Only memory of the caller's, which free has to wait for, needs the queues by name.
  if (buf.block_ != nullptr && buf.block_->external != nullptr) {
    auto own = retained_queue(*native);
    if (!own) return fail(own.error());
    const MutexLock lock(buf.block_->external->mutex);
    buf.block_->external->queues.push_back(std::move(*own));
  }
  return {};
}

Result<Event> Allocator::record() {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  cl_event event = nullptr;
  if (auto marked = check(clEnqueueMarkerWithWaitList(queue(), 0, nullptr, &event),
                          "clEnqueueMarkerWithWaitList", Doing::moving);
      !marked) {
    return fail(marked.error());
  }
  Event recorded = adopt_event(event);
  // Unsubmitted, it would never complete for a queue that waits on it.
  if (auto flushed = check(clFlush(queue()), "clFlush", Doing::moving); !flushed)
    return fail(flushed.error());
  return recorded;
}

Result<void> Allocator::wait(const Event& event) {
  if (auto usable = process::usable(backend); !usable) return usable;
  const cl_event native = native_event(event);
  if (native == nullptr) {
    return fail(Error(event ? Errc::wrong_backend : Errc::invalid_argument, backend)
                    .in("wait")
                    .because(event ? "the event is of another backend" : "the event is empty"));
  }
  const auto own = query<cl_context>(native, CL_EVENT_CONTEXT);
  if (!own) return fail(own.error());
  if (*own != context()) {
    return fail(Error(Errc::invalid_argument, backend).in("wait").because("the event is of another context"));
  }
  return check(clEnqueueBarrierWithWaitList(queue(), 1, &native, nullptr), "clEnqueueBarrierWithWaitList",
               Doing::moving);
}

Result<ClBuffer> Allocator::take(cl_mem mem, bool retain) {
  const char* const call = retain ? "borrow" : "adopt";
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const Error invalid = Error(Errc::invalid_argument, backend).in(call);
  if (mem == nullptr) return fail(Error(invalid).because("the cl_mem is null"));
  const auto type = query<cl_mem_object_type>(mem, CL_MEM_TYPE);
  if (!type) return fail(type.error());
  if (*type != CL_MEM_OBJECT_BUFFER) return fail(Error(invalid).because("the cl_mem is not a buffer"));
  const auto own = query<cl_context>(mem, CL_MEM_CONTEXT);
  if (!own) return fail(own.error());
  if (*own != context()) return fail(Error(invalid).because("the cl_mem is of another context"));
  const auto nbytes = query<std::size_t>(mem, CL_MEM_SIZE);
  if (!nbytes) return fail(nbytes.error());
  const auto parent = query<cl_mem>(mem, CL_MEM_ASSOCIATED_MEMOBJECT);
  if (!parent) return fail(parent.error());

  std::size_t origin = 0;
  std::size_t root_bytes = *nbytes;
  if (*parent != nullptr) {
    const auto offset = query<std::size_t>(mem, CL_MEM_OFFSET);
    if (!offset) return fail(offset.error());
    const auto size = query<std::size_t>(*parent, CL_MEM_SIZE);
    if (!size) return fail(size.error());
    origin = *offset;
    root_bytes = *size;
  }
  auto root = Handle<cl_mem>::borrow(*parent != nullptr ? *parent : mem);
  if (!root) return fail(root.error());
  Handle<cl_mem> sub_buffer;
  if (*parent != nullptr) {
    auto own = Handle<cl_mem>::borrow(mem);
    if (!own) return fail(own.error());
    sub_buffer = std::move(*own);
  }
  auto* block = new (std::nothrow) detail::Block(*instance_, std::move(*root), root_bytes, nullptr);
  if (block == nullptr)
    return fail(Error(Errc::out_of_memory, "host").in(call).asking(sizeof(detail::Block)));
  if (sub_buffer) block->keep(origin, *nbytes, std::move(sub_buffer));
  if (!retain) release(mem);
  return ClBuffer(block, origin, *nbytes, instance_->id, false);
}

Result<ClBuffer> Allocator::adopt(cl_mem mem) { return take(mem, false); }
Result<ClBuffer> Allocator::borrow(cl_mem mem) { return take(mem, true); }

Result<cl_mem> Allocator::sub_buffer(const ClBuffer& buf, std::size_t origin, std::size_t nbytes) {
  if (origin == 0 && nbytes == buf.block_->nbytes) return buf.root();
  return buf.block_->sub_buffer(origin, nbytes);
}

Result<KernelArg> Allocator::kernel_arg(const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "kernel_arg"); !owned) return fail(owned.error());
  if (buf.nbytes() == 0) return KernelArg{};
  if (buf.byte_offset() == 0) return KernelArg{buf.root(), 0};
  const std::size_t residual = buf.byte_offset() % instance_->base_alignment;
  const auto mem = sub_buffer(buf, buf.byte_offset() - residual, residual + buf.nbytes());
  if (!mem) return fail(mem.error());
  return KernelArg{*mem, residual};
}

Result<cl_mem> Allocator::exact_arg(const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "exact_arg"); !owned) return fail(owned.error());
  if (buf.nbytes() == 0) return cl_mem{nullptr};
  if (buf.byte_offset() % instance_->base_alignment != 0) {
    return fail(Error(Errc::misaligned, backend)
                    .in("exact_arg")
                    .asking(buf.nbytes())
                    .at(buf.byte_offset())
                    .limited_to(instance_->base_alignment));
  }
  return sub_buffer(buf, buf.byte_offset(), buf.nbytes());
}

cl_context Allocator::context() const noexcept { return instance_->context.get(); }
cl_device_id Allocator::device() const noexcept { return instance_->device; }
cl_command_queue Allocator::queue() const noexcept { return native_queue(queue_); }

}  // namespace berth::inline BERTH_ABI::opencl
