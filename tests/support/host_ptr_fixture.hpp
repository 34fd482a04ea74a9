// SPDX-License-Identifier: MIT
// Host arrays on a real OpenCL device, which is whatever the process runs on: the driver itself, or the
// shadow layer in one of its modes. Kernels run on the driver's own objects.
#pragma once

#include <berth/core/host_range.hpp>
#include <berth/device/registry.hpp>
#include <berth/host_ptr/host_access.hpp>
#include <berth/host_ptr/host_ptr.hpp>
#include <berth/opencl/framework.hpp>
#include <berth/opencl/queue.hpp>
#include <berth/vector/launch.hpp>

#include <string>
#include <vector>

#include "layers/control.hpp"
#include "support/opencl_fixture.hpp"
#include "support/state_table.hpp"

namespace host_ptr_test {

using berth::BigArray;
using berth::Location;
using berth::Vector;
using berth::device::Device;
using berth::device::LinkKind;
using berth::opencl::ClBuffer;
using state_table::message;

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

constexpr std::size_t length = 4096;
using Words = Vector<std::int32_t>;
using Array = BigArray<std::int32_t>;

/// A context and a queue of the user's, a device over them, and the framework registered.
class Rig {
 public:
  Rig()
      : device("OpenCL", 0, stream.description.name, berth::pack(stream.allocator)),
        program(stream.context, stream.description.id, source),
        add(program.kernel("add")),
        put(program.kernel("put")),
        copy(program.kernel("copy")) {
    REQUIRE(message(berth::device::register_framework(berth::opencl::framework())) == "ok");
  }
  ~Rig() { berth::device::unregister_framework("OpenCL"); }
  Rig(const Rig&) = delete;

  /// By what the layer says; a real driver by what it does.
  [[nodiscard]] Driver driver() {
    if (const auto* const layer = layers::shadow_layer()) return static_cast<Driver>(layer->mode());
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

  [[nodiscard]] static Array zeros(std::size_t elements = length) {
    auto array = Array::create(elements);
    REQUIRE(message(array) == "ok");
    return *array;
  }
  [[nodiscard]] Words attached(const Array& array, const berth::host_ptr::Options& options = {}) const {
    auto vector = berth::host_ptr::of_bigarray(device, berth::int32, array, options);
    REQUIRE(message(vector) == "ok");
    return std::move(*vector);
  }

  [[nodiscard]] cl_mem mem(const Words& vector) const { return mem(vector, device); }
  [[nodiscard]] static cl_mem mem(const Words& vector, const Device& on) {
    const berth::Buffer* const buffer = vector.buffer(on);
    REQUIRE(buffer != nullptr);
    return buffer->as<ClBuffer>()->root();
  }
  /// A kernel over all of the vector, on the device's own queue or another.
  native::Owned<cl_event> run(cl_kernel kernel, const Words& vector, std::uint32_t value,
                              cl_command_queue queue = nullptr) const {
    return native::launch(queue != nullptr ? queue : stream.queue.get(), kernel, vector.size(), mem(vector),
                          value);
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

  native::Stream stream;
  Device device;
  native::Program program;
  native::Owned<cl_kernel> add;
  native::Owned<cl_kernel> put;
  native::Owned<cl_kernel> copy;
};

inline std::vector<std::int32_t> all(std::int32_t value, std::size_t elements = length) {
  return std::vector<std::int32_t>(elements, value);
}
inline void write(const Array& array, std::int32_t value) {
  std::ranges::fill(array.writable_elements(), value);
}
inline std::vector<std::int32_t> host_sees(const Array& array) {
  return {array.elements().begin(), array.elements().end()};
}

}  // namespace host_ptr_test
