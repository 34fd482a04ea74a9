// SPDX-License-Identifier: MIT
// Whose references are whose: each count is exact before and after.
#include <berth/adaptors/lru.hpp>
#include <berth/core/buffer.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/queue.hpp>

#include <optional>

#include "support/opencl_fixture.hpp"

using namespace berth;
using native::property;
using native::references;
using native::retained;
using native::settled;
using opencl::ClBuffer;
using opencl::Commit;

namespace {

/// Some work of each kind, which leaves nothing behind.
void exercise(opencl::Allocator allocator) {
  const auto bytes = native::pattern(777);
  auto a = allocator.alloc(bytes.size(), {.zero = true});
  auto b = allocator.alloc(bytes.size());
  REQUIRE(message(a) == "ok");
  REQUIRE(message(b) == "ok");
  REQUIRE(message(allocator.copyin(*a, bytes)) == "ok");
  REQUIRE(message(allocator.transfer(*b, *a, bytes.size())) == "ok");
  REQUIRE(native::content(allocator, *b) == bytes);
  const auto view = allocator.offset(*a, 100, 301);
  REQUIRE(message(view) == "ok");
  REQUIRE(message(allocator.kernel_arg(*view)) == "ok");
  {
    const auto map = allocator.map(*a, Access::read, 10, 1);
    REQUIRE(message(map) == "ok");
  }
  const auto event = allocator.record();
  REQUIRE(message(event) == "ok");
  REQUIRE(message(allocator.wait(*event)) == "ok");
  const auto other = native::make_queue(allocator.context(), allocator.device());
  auto on_other = allocator.on(opencl::borrow_queue(other));
  REQUIRE(message(on_other) == "ok");
  REQUIRE(message(allocator.record_use(*a, opencl::borrow_queue(other))) == "ok");
  REQUIRE(message(on_other->transfer(*b, *a, bytes.size())) == "ok");
  REQUIRE(message(on_other->synchronize()) == "ok");
  REQUIRE(message(allocator.synchronize()) == "ok");
  allocator.free(std::move(*a), bytes.size(), {.zero = true});
  allocator.free(std::move(*b), bytes.size());
}

using Take = Result<opencl::Allocator> (*)(cl_context, cl_command_queue, const opencl::Options&);

void check_refused(Take take) {
  const auto device = native::device();
  const auto context = native::make_context(device.id);
  const auto other_context = native::make_context(device.id);
  const auto queue = native::make_queue(context, device.id);
  const auto queue_of_other = native::make_queue(other_context, device.id);
  const auto counts = [&] {
    return std::vector{references(context.get()), references(other_context.get()), references(queue.get()),
                       references(queue_of_other.get())};
  };
  const auto before = counts();

  CHECK(outcome(take(nullptr, queue, {})) == "invalid_argument");
  CHECK(outcome(take(context, nullptr, {})) == "invalid_argument");
  CHECK(outcome(take(nullptr, nullptr, {})) == "invalid_argument");
  CHECK(outcome(take(context, queue_of_other, {})) == "invalid_argument");
  CHECK(outcome(take(other_context, queue, {})) == "invalid_argument");
  CHECK(counts() == before);

  REQUIRE(device.out_of_order);
  const auto unordered = native::make_queue(context, device.id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  const auto with_unordered = references(context.get());
  CHECK(outcome(take(context, unordered, {})) == "invalid_argument");
  CHECK(references(unordered.get()) == 1);
  CHECK(references(context.get()) == with_unordered);
}

}  // namespace

TEST_CASE("open makes a context and a queue of its own, and gives them back") {
  const auto device = native::device();
  for (const Commit commit : {Commit::automatic, Commit::always, Commit::never}) {
    native::Owned<cl_context> context;
    native::Owned<cl_command_queue> queue;
    {
      auto allocator = opencl::Allocator::open(device.id, {.commit = commit});
      REQUIRE(message(allocator) == "ok");
      context = retained(allocator->context());
      queue = retained(allocator->queue());
      CHECK(allocator->device() == device.id);
      CHECK(property<cl_context>(queue.get(), CL_QUEUE_CONTEXT) == context.get());
      CHECK(property<cl_device_id>(queue.get(), CL_QUEUE_DEVICE) == device.id);
      CHECK((property<cl_command_queue_properties>(queue.get(), CL_QUEUE_PROPERTIES) &
             CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0);
      exercise(*allocator);
    }
    CHECK(settled(queue.get(), 1) == 1);
    queue = {};
    CHECK(settled(context.get(), 1) == 1);
  }
}

TEST_CASE("open of no device is invalid_argument") {
  CHECK(outcome(opencl::Allocator::open(nullptr)) == "invalid_argument");
}

TEST_CASE("info tells the device's facts") {
  native::Stream stream;
  const AllocatorInfo info = stream.allocator.info();
  CHECK(std::string(info.backend) == "opencl");
  CHECK(info.alignment == stream.description.base_alignment);
  CHECK(info.max_bytes == stream.description.max_alloc_bytes);
  CHECK(info.total_bytes == stream.description.global_bytes);

  native::Stream again;
  CHECK(again.allocator.info().device == info.device);
  CHECK(again.allocator.info().instance != info.instance);
  CHECK(opencl::Allocator(stream.allocator).info().instance == info.instance);
}

TEST_CASE("borrow holds references of its own and gives exactly those back") {
  const auto device = native::device();
  const auto context = native::make_context(device.id);
  const auto queue = native::make_queue(context, device.id);
  const cl_uint context_before = references(context.get());
  const cl_uint queue_before = references(queue.get());
  for (const Commit commit : {Commit::always, Commit::never}) {
    {
      auto allocator = opencl::Allocator::borrow(context, queue, {.commit = commit});
      REQUIRE(message(allocator) == "ok");
      CHECK(allocator->context() == context.get());
      CHECK(allocator->queue() == queue.get());
      CHECK(references(context.get()) > context_before);
      CHECK(references(queue.get()) > queue_before);
      const opencl::Allocator copy = *allocator;
      exercise(copy);
      exercise(std::move(*allocator));
    }
    CHECK(settled(context.get(), context_before) == context_before);
    CHECK(settled(queue.get(), queue_before) == queue_before);
  }
}

TEST_CASE("what borrow retained outlives the caller's own references") {
  const auto device = native::device();
  auto context = native::make_context(device.id);
  auto queue = native::make_queue(context, device.id);
  auto allocator = opencl::Allocator::borrow(context, queue);
  REQUIRE(message(allocator) == "ok");
  queue = {};
  context = {};
  exercise(*allocator);
}

TEST_CASE("adopt takes over the caller's references") {
  const auto device = native::device();
  auto context = native::make_context(device.id);
  auto queue = native::make_queue(context, device.id);
  const auto watched_context = retained(context.get());
  const auto watched_queue = retained(queue.get());
  const cl_uint context_before = references(context.get());
  const cl_uint queue_before = references(queue.get());
  {
    auto allocator = opencl::Allocator::adopt(context, queue, {.commit = Commit::always});
    REQUIRE(message(allocator) == "ok");
    context.give();
    queue.give();
    exercise(*allocator);
  }
  CHECK(settled(watched_queue.get(), queue_before - 1) == queue_before - 1);
  CHECK(settled(watched_context.get(), context_before - 1) == context_before - 1);
}

TEST_CASE("a refused borrow or adopt leaves the caller's references alone") {
  SECTION("borrow") { check_refused(&opencl::Allocator::borrow); }
  SECTION("adopt") { check_refused(&opencl::Allocator::adopt); }
}

TEST_CASE("a Buffer keeps context and queue alive when every other handle is gone") {
  const auto device = native::device();
  const auto bytes = native::pattern(4097);
  native::Owned<cl_context> context;
  std::optional<Buffer> view;
  {
    auto allocator = opencl::Allocator::open(device.id);
    REQUIRE(message(allocator) == "ok");
    context = retained(allocator->context());
    auto root = Buffer::create(pack(std::move(*allocator)), bytes.size());
    REQUIRE(message(root) == "ok");
    REQUIRE(message(root->copyin(bytes)) == "ok");
    auto part = root->view(1000, 3001);
    REQUIRE(message(part) == "ok");
    view = std::move(*part);
  }
  CHECK(references(context.get()) > 1);
  std::vector<std::byte> back(1000);
  REQUIRE(message(view->copyout(back)) == "ok");
  CHECK(std::ranges::equal(back, std::span(bytes).subspan(3001, 1000)));
  view.reset();
  CHECK(settled(context.get(), 1) == 1);
}

TEST_CASE("a native buffer, borrowed") {
  native::Stream stream;
  const auto bytes = native::pattern(3000);
  const auto mem = native::make_buffer(stream.context, bytes.size());
  const cl_uint before = references(mem.get());
  {
    auto buf = stream.allocator.borrow(mem.get());
    REQUIRE(message(buf) == "ok");
    CHECK(references(mem.get()) == before + 1);
    CHECK(buf->nbytes() == bytes.size());
    CHECK(buf->byte_offset() == 0);
    CHECK(buf->root() == mem.get());
    CHECK_FALSE(buf->is_view());
    CHECK(buf->instance() == stream.allocator.info().instance);
    REQUIRE(message(stream.allocator.copyin(*buf, bytes)) == "ok");
    REQUIRE(message(stream.allocator.synchronize()) == "ok");  // read on another queue
    CHECK(native::content(mem, bytes.size()) == bytes);
    const auto arg = stream.allocator.exact_arg(*buf);
    REQUIRE(message(arg) == "ok");
    CHECK(*arg == mem.get());
    const auto view = stream.allocator.offset(*buf, 100, 2 * stream.description.base_alignment);
    REQUIRE(message(view) == "ok");
    REQUIRE(message(stream.allocator.exact_arg(*view)) == "ok");
    stream.allocator.free(std::move(*buf), bytes.size());
  }
  CHECK(settled(mem.get(), before) == before);
}

TEST_CASE("a native buffer, adopted") {
  native::Stream stream;
  auto mem = native::make_buffer(stream.context, 3000);
  const auto watched = retained(mem.get());
  const cl_uint before = references(mem.get());
  auto buf = stream.allocator.adopt(mem.get());
  REQUIRE(message(buf) == "ok");
  mem.give();
  CHECK(references(watched.get()) == before);
  CHECK(buf->nbytes() == 3000);
  CHECK(buf->root() == watched.get());
  CHECK_FALSE(buf->is_view());
  stream.allocator.free(std::move(*buf), 3000);
  CHECK(settled(watched.get(), before - 1) == before - 1);
}

TEST_CASE("a cache keeps nothing that is not the allocator's alone") {
  native::Stream stream;
  auto cache = LruAllocator<opencl::Allocator>::create(stream.allocator);
  REQUIRE(message(cache) == "ok");
  constexpr std::size_t nbytes = 4096;
  auto own = cache->alloc(nbytes);  // live, of the same key
  REQUIRE(message(own) == "ok");

  const auto mem = native::make_buffer(stream.context, nbytes);
  const cl_uint before = references(mem.get());
  auto borrowed = stream.allocator.borrow(mem);
  REQUIRE(message(borrowed) == "ok");
  CHECK(borrowed->block() == shared_block);
  REQUIRE(message(cache->record_use(*borrowed, opencl::borrow_queue(stream.queue))) == "ok");
  cache->free(*borrowed, nbytes);
  CHECK(settled(mem.get(), before) == before);

  auto carved = stream.allocator.carve(*own, 1024, 0);
  REQUIRE(message(carved) == "ok");
  cache->free(*carved, 1024);

  const native::Pages pages(nbytes);
  auto wrapped = stream.allocator.alloc(nbytes, {.external_ptr = pages.data()});
  REQUIRE(message(wrapped) == "ok");
  cache->free(*wrapped, nbytes);  // the spec does not say so, the buffer does

  CHECK(cache->statistics().cached_blocks == 0);
  CHECK(cache->statistics().live_bytes == nbytes);
  cache->free(*own, nbytes);
  CHECK(cache->statistics().cached_blocks == 1);
}

TEST_CASE("a native sub-buffer becomes its root and an offset") {
  native::Stream stream;
  const std::size_t alignment = stream.description.base_alignment;
  const std::size_t nbytes = 8 * alignment;
  const std::size_t origin = 3 * alignment;
  const std::size_t size = alignment + 17;
  const auto before_bytes = native::pattern(nbytes, 1);
  const auto root = native::make_buffer(stream.context, nbytes);
  auto sub = native::make_sub_buffer(root, origin, size);
  const auto watched = retained(sub.get());
  const bool adopted = GENERATE(false, true);
  const cl_uint root_before = references(root.get());
  const cl_uint sub_before = references(sub.get());
  REQUIRE(clEnqueueWriteBuffer(stream.queue, root, CL_TRUE, 0, nbytes, before_bytes.data(), 0, nullptr,
                               nullptr) == CL_SUCCESS);

  auto buf = adopted ? stream.allocator.adopt(sub.get()) : stream.allocator.borrow(sub.get());
  REQUIRE(message(buf) == "ok");
  if (adopted) sub.give();
  CHECK(buf->root() == root.get());
  CHECK(buf->byte_offset() == origin);
  CHECK(buf->nbytes() == size);
  CHECK_FALSE(buf->is_view());

  SECTION("its bytes are the root's, at the offset") {
    const auto bytes = native::pattern(size, 2);
    REQUIRE(message(stream.allocator.copyin(*buf, bytes)) == "ok");
    REQUIRE(message(stream.allocator.synchronize()) == "ok");  // read on another queue
    auto expected = before_bytes;
    std::ranges::copy(bytes, expected.begin() + static_cast<std::ptrdiff_t>(origin));
    CHECK(native::content(root, nbytes) == expected);
    const std::vector<std::byte> too_many(size + 1);
    CHECK(outcome(stream.allocator.copyin(*buf, too_many)) == "out_of_range");
  }
  SECTION("the object that was given is what kernels get") {
    const auto exact = stream.allocator.exact_arg(*buf);
    REQUIRE(message(exact) == "ok");
    CHECK(*exact == watched.get());
    const auto arg = stream.allocator.kernel_arg(*buf);
    REQUIRE(message(arg) == "ok");
    CHECK(arg->mem == watched.get());
    CHECK(arg->residual == 0);
  }
  SECTION("a view of it is at root and offset") {
    auto view = stream.allocator.offset(*buf, 5, alignment + 1);
    REQUIRE(message(view) == "ok");
    CHECK(view->byte_offset() == origin + alignment + 1);
    CHECK(view->is_view());
    REQUIRE(message(stream.allocator.kernel_arg(*view)) == "ok");
    CHECK(outcome(stream.allocator.offset(*buf, 18, alignment)) == "out_of_range");
  }

  stream.allocator.free(std::move(*buf), size);
  const cl_uint sub_after = adopted ? sub_before - 1 : sub_before;
  CHECK(settled(watched.get(), sub_after) == sub_after);
  CHECK(settled(root.get(), root_before) == root_before);
}

TEST_CASE("one object borrowed twice is two allocations of the same bytes") {
  native::Stream stream;
  const auto mem = native::make_buffer(stream.context, 256);
  auto a = stream.allocator.borrow(mem.get());
  auto b = stream.allocator.borrow(mem.get());
  REQUIRE(message(a) == "ok");
  REQUIRE(message(b) == "ok");
  const auto bytes = native::pattern(256);
  REQUIRE(message(stream.allocator.copyin(*a, bytes)) == "ok");
  CHECK(native::content(stream.allocator, *b) == bytes);
  stream.allocator.free(std::move(*a), 256);
  CHECK(native::content(stream.allocator, *b) == bytes);
  stream.allocator.free(std::move(*b), 256);
  CHECK(settled(mem.get(), 1) == 1);
}

TEST_CASE("what is no buffer of this context is refused, and its references left alone") {
  native::Stream stream;
  native::Stream other;
  const auto check = [&](cl_mem mem) {
    const cl_uint before = mem != nullptr ? references(mem) : 0;
    CHECK(outcome(stream.allocator.adopt(mem)) == "invalid_argument");
    CHECK(outcome(stream.allocator.borrow(mem)) == "invalid_argument");
    if (mem != nullptr) CHECK(references(mem) == before);
  };
  SECTION("null") { check(nullptr); }
  SECTION("another context's") {
    const auto mem = native::make_buffer(other.context, 64);
    check(mem);
  }
  SECTION("an image") {
    const cl_image_format format{CL_RGBA, CL_UNORM_INT8};
    cl_image_desc shape{};
    shape.image_type = CL_MEM_OBJECT_IMAGE2D;
    shape.image_width = 4;
    shape.image_height = 4;
    cl_int status = CL_SUCCESS;
    const native::Owned<cl_mem> image(
        clCreateImage(stream.context, CL_MEM_READ_WRITE, &format, &shape, nullptr, &status));
    REQUIRE(status == CL_SUCCESS);
    check(image);
  }
}

TEST_CASE("an adopted object under a Buffer goes with it") {
  native::Stream stream;
  auto mem = native::make_buffer(stream.context, 500);
  const auto watched = retained(mem.get());
  auto taken = stream.allocator.adopt(mem.get());
  REQUIRE(message(taken) == "ok");
  mem.give();
  std::optional<Buffer> view;
  {
    Buffer root = Buffer::own(pack(stream.allocator), PackedBuffer(std::move(*taken)));
    CHECK(root.nbytes() == 500);
    REQUIRE(root.as<ClBuffer>() != nullptr);
    CHECK(root.as<ClBuffer>()->root() == watched.get());
    auto part = root.view(100, 399);
    REQUIRE(message(part) == "ok");
    view = std::move(*part);
  }
  CHECK(settled(watched.get(), 2) == 2);
  view.reset();
  CHECK(settled(watched.get(), 1) == 1);
}

TEST_CASE("an object goes with its allocation") {
  native::Stream stream;
  auto buf = stream.allocator.alloc(1234);
  REQUIRE(message(buf) == "ok");
  const auto root = retained(buf->root());
  CHECK(property<std::size_t>(root.get(), CL_MEM_SIZE) == 1234);
  CHECK(property<cl_context>(root.get(), CL_MEM_CONTEXT) == stream.context.get());
  stream.allocator.free(std::move(*buf), 1234);
  CHECK(settled(root.get(), 1) == 1);
}

TEST_CASE("an empty buffer is no object") {
  native::Stream stream;
  const cl_uint before = references(stream.context.get());
  auto buf = stream.allocator.alloc(0, {.host = true, .zero = true});
  REQUIRE(message(buf) == "ok");
  CHECK(buf->root() == nullptr);
  CHECK(references(stream.context.get()) == before);
  stream.allocator.free(std::move(*buf), 0, {.host = true, .zero = true});
}

TEST_CASE("queues and events as berth's handles are counted") {
  native::Stream stream;
  const cl_uint before = references(stream.queue.get());
  {
    const Queue borrowed = opencl::borrow_queue(stream.queue);
    CHECK(references(stream.queue.get()) == before + 1);
    CHECK(opencl::native_queue(borrowed) == stream.queue.get());
    const Queue copy = borrowed;
    CHECK(copy == borrowed);
    CHECK(references(stream.queue.get()) == before + 2);
    const Queue adopted = opencl::adopt_queue(retained(stream.queue.get()).give());
    CHECK(references(stream.queue.get()) == before + 3);
  }
  CHECK(references(stream.queue.get()) == before);
  CHECK(opencl::native_queue(Queue()) == nullptr);

  const auto event = native::marker(stream.queue);
  REQUIRE(clFinish(stream.queue) == CL_SUCCESS);
  const cl_uint event_before = native::at_rest(event.get());
  {
    const Event borrowed = opencl::borrow_event(event);
    CHECK(references(event.get()) == event_before + 1);
    CHECK(opencl::native_event(borrowed) == event.get());
    const Event adopted = opencl::adopt_event(retained(event.get()).give());
    CHECK(references(event.get()) == event_before + 2);
  }
  CHECK(references(event.get()) == event_before);
  CHECK(opencl::native_event(Event()) == nullptr);
}
