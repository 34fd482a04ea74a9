// SPDX-License-Identifier: MIT
// Host arrays on a real OpenCL device, which is whatever the process runs on: the driver itself, or the
// shadow layer in one of its modes. Kernels run on the driver's own objects.
#pragma once

#include <berth/opencl/framework.hpp>
#include <berth/opencl/queue.hpp>

#include <string>
#include <vector>

#include "layers/control.hpp"
#include "support/host_ptr_words.hpp"
#include "support/opencl_fixture.hpp"

namespace host_ptr_test {

using berth::opencl::ClBuffer;

/// What the drivers at hand do with memory of the host's.
enum class Driver : int { shared, clvk, intel, rusticl, nvidia };

constexpr const char* source = R"(
  kernel void add(global uint* data, uint value) { data[get_global_id(0)] += value; }
  kernel void put(global uint* data, uint value) { data[get_global_id(0)] = value; }
  kernel void copy(global const uint* from, global uint* to) { to[get_global_id(0)] = from[get_global_id(0)]; }
  kernel void put_slowly(global uint* data, uint value, uint rounds) {
    volatile uint state = value;
    for (uint round = 0; round < rounds; ++round) {
      state = state * 1664525u + 1013904223u;
      data[get_global_id(0)] = state;
    }
    data[get_global_id(0)] = value;
  }
)";

/// A context and a queue of the user's, a device over them, and the framework registered.
class Rig {
 public:
  using Allocator = berth::opencl::Allocator;
  using Queue = native::Owned<cl_command_queue>;
  using QueueHandle = cl_command_queue;
  using Kernel = cl_kernel;

  Rig()
      : device("OpenCL", 0, stream.description.name, berth::pack(stream.allocator)),
        program(stream.context, stream.description.id, source),
        add(program.kernel("add")),
        put(program.kernel("put")),
        copy(program.kernel("copy")),
        slow(program.kernel("put_slowly")) {
    REQUIRE(message(berth::device::register_framework(berth::opencl::framework())) == "ok");
  }
  ~Rig() { berth::device::unregister_framework("OpenCL"); }
  Rig(const Rig&) = delete;

  /// Fails the test where there is none: for a test whose children use it.
  static void require_driver() { static_cast<void>(native::device()); }
  [[nodiscard]] static berth::device::HostLinker& linker() {
    return *berth::opencl::framework()->host_linker();
  }
  [[nodiscard]] const Allocator& allocator() const { return stream.allocator; }
  [[nodiscard]] std::uint64_t max_bytes() const { return stream.description.max_alloc_bytes; }
  /// Whether the driver uses the host's memory itself.
  [[nodiscard]] bool one_memory() { return driver() == Driver::shared; }
  /// By what the layer says; a real driver by what it does with memory of whole lines, as all here is unless
  /// a test takes other.
  [[nodiscard]] Driver driver() {
    const auto* const layer = layers::shadow_layer();
    if (layer != nullptr && layer->mode() != layers::ShadowMode::lines)
      return static_cast<Driver>(layer->mode());
    return kind() == LinkKind::shared ? Driver::shared : Driver::nvidia;
  }
  [[nodiscard]] LinkKind kind() {
    const auto array = zeros();
    auto vector = berth::host_ptr::of_bigarray(device, array);
    REQUIRE(message(vector) == "ok");
    const auto link = berth::host_ptr::host_link(*vector, device);
    REQUIRE(link);
    return link->kind;
  }
  /// Another context on the same physical device.
  [[nodiscard]] Device another_device() const {
    auto allocator = berth::opencl::Allocator::open(stream.description.id);
    REQUIRE(message(allocator) == "ok");
    return {"OpenCL", 1, stream.description.name + " again", berth::pack(*allocator)};
  }

  [[nodiscard]] static Array zeros(std::size_t elements = length) { return host_ptr_test::zeros(elements); }
  [[nodiscard]] Words attached(const Array& array, const berth::host_ptr::Options& options = {}) const {
    return host_ptr_test::attached(device, array, options);
  }

  [[nodiscard]] QueueHandle queue() const { return stream.queue; }
  [[nodiscard]] Queue another_queue() const { return stream.another_queue(); }
  void register_queue(const Queue& queue) {
    REQUIRE(message(device.register_queue(berth::opencl::borrow_queue(queue))) == "ok");
  }
  void finish(QueueHandle queue = nullptr) const {
    REQUIRE(clFinish(queue != nullptr ? queue : this->queue()) == CL_SUCCESS);
  }

  [[nodiscard]] cl_mem mem(const Words& vector) const { return mem(vector, device); }
  [[nodiscard]] static cl_mem mem(const Words& vector, const Device& on) {
    const berth::Buffer* const buffer = vector.buffer(on);
    REQUIRE(buffer != nullptr);
    return buffer->as<ClBuffer>()->root();
  }
  /// A kernel over all of the vector, on the device's own queue or another.
  native::Owned<cl_event> run(Kernel kernel, const Words& vector, std::uint32_t value,
                              QueueHandle queue = nullptr) const {
    return run_on(device, kernel, vector, value, queue);
  }
  native::Owned<cl_event> run_on(const Device& on, Kernel kernel, const Words& vector, std::uint32_t value,
                                 QueueHandle queue = nullptr) const {
    return native::launch(queue != nullptr ? queue : this->queue(), kernel, vector.size(), mem(vector, on),
                          value);
  }
  /// What stands for its end.
  [[nodiscard]] berth::Event run_with_event(Kernel kernel, const Words& vector, std::uint32_t value,
                                            QueueHandle queue) const {
    return berth::opencl::borrow_event(run(kernel, vector, value, queue));
  }
  void run_slowly(const Words& vector, std::uint32_t value, QueueHandle queue = nullptr) const {
    native::launch(queue != nullptr ? queue : this->queue(), slow, vector.size(), mem(vector), value,
                   std::uint32_t{20000});
  }
  void run_copy(const Words& from, const Words& to) const {
    native::launch(queue(), copy, from.size(), mem(from), mem(to));
  }
  /// Copied by a kernel into an object of the driver's own, and read from there: nothing of the way touches
  /// the host's array.
  [[nodiscard]] std::vector<std::int32_t> kernel_sees(const Words& vector) const {
    const std::size_t nbytes = vector.nbytes();
    const auto beside = native::make_buffer(stream.context, nbytes);
    native::launch(stream.queue, copy, vector.size(), mem(vector), beside.get());
    REQUIRE(clFinish(stream.queue) == CL_SUCCESS);
    std::vector<std::int32_t> seen(vector.size());
    REQUIRE(clEnqueueReadBuffer(stream.queue, beside, CL_TRUE, 0, nbytes, seen.data(), 0, nullptr, nullptr) ==
            CL_SUCCESS);
    return seen;
  }

  /// Holds a queue back.
  class Gate : public native::Gate {
   public:
    explicit Gate(const Rig& rig) : native::Gate(rig.stream.context) {}
  };

  /// The references to the rig's context and queue.
  class Alive {
   public:
    explicit Alive(const Rig& rig)
        : rig_(rig),
          contexts_(native::at_rest(rig.stream.context.get())),
          queues_(native::at_rest(rig.stream.queue.get())) {}
    [[nodiscard]] bool same() const {
      return native::settled(rig_.stream.context.get(), contexts_) == contexts_ &&
             native::settled(rig_.stream.queue.get(), queues_) == queues_;
    }

   private:
    const Rig& rig_;
    cl_uint contexts_;
    cl_uint queues_;
  };

  native::Stream stream;
  Device device;
  native::Program program;
  native::Owned<cl_kernel> add;
  native::Owned<cl_kernel> put;
  native::Owned<cl_kernel> copy;
  native::Owned<cl_kernel> slow;
};

}  // namespace host_ptr_test
