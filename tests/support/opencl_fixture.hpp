// SPDX-License-Identifier: MIT
// A real OpenCL device used natively, beside berth: objects that count their references, kernels, and gates
// that hold queues back.
#pragma once

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <berth/core/allocator.hpp>
#include <berth/core/host_range.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/discovery.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/bytes.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/opencl_layers.hpp"
#include "support/outcome.hpp"
#include "support/pages.hpp"

namespace native {

// Objects.

template <class T>
struct Object;
template <>
struct Object<cl_context> {
  static constexpr auto info = &clGetContextInfo;
  static constexpr auto retain = &clRetainContext;
  static constexpr auto release = &clReleaseContext;
  static constexpr cl_uint count = CL_CONTEXT_REFERENCE_COUNT;
};
template <>
struct Object<cl_command_queue> {
  static constexpr auto info = &clGetCommandQueueInfo;
  static constexpr auto retain = &clRetainCommandQueue;
  static constexpr auto release = &clReleaseCommandQueue;
  static constexpr cl_uint count = CL_QUEUE_REFERENCE_COUNT;
};
template <>
struct Object<cl_mem> {
  static constexpr auto info = &clGetMemObjectInfo;
  static constexpr auto retain = &clRetainMemObject;
  static constexpr auto release = &clReleaseMemObject;
  static constexpr cl_uint count = CL_MEM_REFERENCE_COUNT;
};
template <>
struct Object<cl_event> {
  static constexpr auto info = &clGetEventInfo;
  static constexpr auto retain = &clRetainEvent;
  static constexpr auto release = &clReleaseEvent;
  static constexpr cl_uint count = CL_EVENT_REFERENCE_COUNT;
};
template <>
struct Object<cl_program> {
  static constexpr auto release = &clReleaseProgram;
};
template <>
struct Object<cl_kernel> {
  static constexpr auto release = &clReleaseKernel;
};

/// One property of an object.
template <class Value, class T>
Value property(T object, cl_uint param) {
  Value value{};
  REQUIRE(Object<T>::info(object, param, sizeof value, &value, nullptr) == CL_SUCCESS);
  return value;
}

/// How many references there are to an object, berth's and the driver's own among them.
template <class T>
cl_uint references(T object) {
  return property<cl_uint>(object, Object<T>::count);
}

/// A property once it is `expected`, or after two seconds: a driver's threads count a little after the work
/// has ended, after clFinish has returned too (PoCL).
template <class Value, class T>
Value settled_property(T object, cl_uint param, Value expected) {
  for (int i = 0; i < 2000 && property<Value>(object, param) != expected; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return property<Value>(object, param);
}

/// How many references there are once that is `expected`, or after two seconds.
template <class T>
cl_uint settled(T object, cl_uint expected) {
  return settled_property(object, Object<T>::count, expected);
}

/// How many references there are once that has not changed for a tenth of a second.
template <class T>
cl_uint at_rest(T object) {
  cl_uint seen = references(object);
  for (int quiet = 0; quiet < 100; ++quiet) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (const cl_uint now = references(object); now != std::exchange(seen, now)) quiet = 0;
  }
  return seen;
}

/// Whether no link has the range any more, now or within two seconds: a driver's thread tells of a deletion a
/// little after the release.
inline bool unclaimed(std::span<const std::byte> bytes) {
  for (int i = 0; i < 2000 && !berth::HostRange::claim(bytes, "test"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return berth::HostRange::claim(bytes, "test").has_value();
}

/// How many maps a buffer has, once that is `expected`.
inline cl_uint settled_maps(cl_mem mem, cl_uint expected) {
  return settled_property(mem, CL_MEM_MAP_COUNT, expected);
}

/// Holds one reference to an object. Move-only.
template <class T>
class Owned {
 public:
  Owned() = default;
  explicit Owned(T object) noexcept : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) Object<T>::release(object_);
  }
  operator T() const noexcept { return object_; }
  [[nodiscard]] T get() const noexcept { return object_; }
  /// Gives the reference up without releasing it.
  T give() noexcept { return std::exchange(object_, nullptr); }

 private:
  T object_ = nullptr;
};

/// One more reference, held.
template <class T>
Owned<T> retained(T object) {
  REQUIRE(Object<T>::retain(object) == CL_SUCCESS);
  return Owned<T>(object);
}

// The device.

/// A test that is meant to run under layers must not pass without them, as it would with a loader that has
/// none.
inline void require_layers() {
  for (const std::string& path : opencl_layers) {
    INFO("OPENCL_LAYERS names " << path << ", which the loader has not loaded");
    void* const layer = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    REQUIRE(layer != nullptr);
    ::dlclose(layer);
  }
}

/// The first device of the loader's that can run kernels.
inline berth::opencl::DeviceDescription device() {
  const auto found = berth::opencl::platforms();
  REQUIRE(message(found) == "ok");
  require_layers();
  for (const auto& platform : *found) {
    for (const auto& described : platform.devices) {
      if (described.available && described.compiler) return described;
    }
  }
  FAIL("no OpenCL device that compiles kernels");
  return {};
}

inline Owned<cl_context> make_context(cl_device_id device) {
  cl_int status = CL_SUCCESS;
  Owned<cl_context> context(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status));
  REQUIRE(status == CL_SUCCESS);
  return context;
}

inline Owned<cl_command_queue> make_queue(cl_context context, cl_device_id device,
                                          cl_command_queue_properties properties = 0) {
  cl_int status = CL_SUCCESS;
  Owned<cl_command_queue> queue(clCreateCommandQueue(context, device, properties, &status));
  REQUIRE(status == CL_SUCCESS);
  return queue;
}

inline Owned<cl_mem> make_buffer(cl_context context, std::size_t nbytes) {
  cl_int status = CL_SUCCESS;
  Owned<cl_mem> mem(clCreateBuffer(context, CL_MEM_READ_WRITE, nbytes, nullptr, &status));
  REQUIRE(status == CL_SUCCESS);
  return mem;
}

inline Owned<cl_mem> make_sub_buffer(cl_mem parent, std::size_t origin, std::size_t nbytes) {
  const cl_buffer_region region{origin, nbytes};
  cl_int status = CL_SUCCESS;
  Owned<cl_mem> mem(clCreateSubBuffer(parent, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status));
  REQUIRE(status == CL_SUCCESS);
  return mem;
}

/// A user's own context and queue, and an allocator that borrowed them.
struct Stream {
  explicit Stream(const berth::opencl::Options& options = {})
      : description(device()),
        context(make_context(description.id)),
        queue(make_queue(context, description.id)),
        allocator(borrowed(options)) {}

  [[nodiscard]] Owned<cl_command_queue> another_queue() const { return make_queue(context, description.id); }

  berth::opencl::DeviceDescription description;
  Owned<cl_context> context;
  Owned<cl_command_queue> queue;
  berth::opencl::Allocator allocator;

 private:
  berth::opencl::Allocator borrowed(const berth::opencl::Options& options) const {
    auto made = berth::opencl::Allocator::borrow(context, queue, options);
    REQUIRE(message(made) == "ok");
    return *made;
  }
};

// Kernels.

class Program {
 public:
  Program(cl_context context, cl_device_id device, const char* source) {
    cl_int status = CL_SUCCESS;
    program_ = Owned<cl_program>(clCreateProgramWithSource(context, 1, &source, nullptr, &status));
    REQUIRE(status == CL_SUCCESS);
    REQUIRE(clBuildProgram(program_, 1, &device, "", nullptr, nullptr) == CL_SUCCESS);
  }
  [[nodiscard]] Owned<cl_kernel> kernel(const char* name) const {
    cl_int status = CL_SUCCESS;
    Owned<cl_kernel> made(clCreateKernel(program_, name, &status));
    REQUIRE(status == CL_SUCCESS);
    return made;
  }

 private:
  Owned<cl_program> program_;
};

/// Enqueues `items` work items; the event is complete when they are done.
template <class... Args>
Owned<cl_event> launch(cl_command_queue queue, cl_kernel kernel, std::size_t items, const Args&... args) {
  cl_uint index = 0;
  const auto set = [&](const auto& arg) {
    REQUIRE(clSetKernelArg(kernel, index++, sizeof arg, &arg) == CL_SUCCESS);
  };
  (set(args), ...);
  cl_event event = nullptr;
  REQUIRE(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, nullptr, 0, nullptr, &event) ==
          CL_SUCCESS);
  REQUIRE(clFlush(queue) == CL_SUCCESS);
  return Owned<cl_event>(event);
}

/// Whether what the event stands for has still to end.
inline bool pending(cl_event event) {
  return property<cl_int>(event, CL_EVENT_COMMAND_EXECUTION_STATUS) > CL_COMPLETE;
}

/// A marker behind what the queue holds now.
inline Owned<cl_event> marker(cl_command_queue queue) {
  cl_event event = nullptr;
  REQUIRE(clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event) == CL_SUCCESS);
  REQUIRE(clFlush(queue) == CL_SUCCESS);
  return Owned<cl_event>(event);
}

/// Holds queues back: what is enqueued behind `close(queue)` starts only after `open()`. Opens when it goes,
/// so that a test that fails does not hang; declare it after what the queued work uses.
class Gate {
 public:
  explicit Gate(cl_context context) {
    cl_int status = CL_SUCCESS;
    event_ = Owned<cl_event>(clCreateUserEvent(context, &status));
    REQUIRE(status == CL_SUCCESS);
  }
  Gate(Gate&&) = delete;
  ~Gate() { open(); }

  void close(cl_command_queue queue) {
    const cl_event event = event_;
    REQUIRE(clEnqueueBarrierWithWaitList(queue, 1, &event, nullptr) == CL_SUCCESS);
    REQUIRE(clFlush(queue) == CL_SUCCESS);
    queues_.push_back(retained(queue));
  }
  /// Opens, and waits until the queues are empty.
  void open() {
    if (!std::exchange(closed_, false)) return;
    clSetUserEventStatus(event_, CL_COMPLETE);
    for (const auto& queue : queues_) clFinish(queue);
  }

 private:
  Owned<cl_event> event_;
  std::vector<Owned<cl_command_queue>> queues_;
  bool closed_ = true;
};

// Bytes.

/// What an object holds, read by the driver itself on a queue of its own.
inline std::vector<std::byte> content(cl_mem mem, std::size_t nbytes, std::size_t byte_offset = 0) {
  const auto context = property<cl_context>(mem, CL_MEM_CONTEXT);
  const auto queue = make_queue(context, device().id);
  std::vector<std::byte> bytes(nbytes);
  REQUIRE(clEnqueueReadBuffer(queue, mem, CL_TRUE, byte_offset, nbytes, bytes.data(), 0, nullptr, nullptr) ==
          CL_SUCCESS);
  return bytes;
}

}  // namespace native
