// SPDX-License-Identifier: MIT
#include "histogram.hpp"

#include <berth/opencl/allocator.hpp>

#include <algorithm>
#include <array>
#include <span>

#include "kernel.hpp"
#include "program.hpp"

namespace berth::tool {
namespace {

using Counters = std::array<cl_uint, 256>;

/// How the kernel is spread over a device.
struct Shape {
  std::size_t items = 1;   ///< work-items in a group
  std::size_t groups = 1;  ///< at most
};

template <class T>
Outcome<T> device_info(cl_device_id device, cl_device_info param) {
  T value{};
  if (auto got = check(clGetDeviceInfo(device, param, sizeof value, &value, nullptr), "clGetDeviceInfo");
      !got) {
    return complain(got.error());
  }
  return value;
}

Outcome<Shape> shape_for(cl_kernel kernel, cl_device_id device) {
  const auto type = device_info<cl_device_type>(device, CL_DEVICE_TYPE);
  if (!type) return complain(type.error());
  const auto units = device_info<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS);
  if (!units) return complain(units.error());
  const auto local_bytes = device_info<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE);
  if (!local_bytes) return complain(local_bytes.error());
  std::size_t most_items = 1;
  if (auto got = check(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most_items,
                                                &most_items, nullptr),
                       "clGetKernelWorkGroupInfo");
      !got) {
    return complain(got.error());
  }
  // A core of a CPU runs a group's items one after another: one is enough, and reads its segment in order.
  if ((*type & CL_DEVICE_TYPE_CPU) != 0) return Shape{1, std::size_t{*units} * 4};
  // Half of the local memory, so that two groups share a unit.
  constexpr std::size_t most_columns = 32;
  const auto columns = std::clamp<std::size_t>(*local_bytes / 2 / sizeof(Counters), 1, most_columns);
  return Shape{std::min(columns, most_items), std::size_t{*units} * 16};
}

class OpenClHistogram final : public Histogram {
 public:
  static Outcome<std::unique_ptr<Histogram>> make(const PackedAllocator& packed) {
    const auto* allocator = packed.unpack<opencl::Allocator>();
    if (allocator == nullptr) return complain("the allocator is not an OpenCL one");
    auto program = build_program(allocator->context(), allocator->device(), histogram_source);
    if (!program) return complain(program.error());
    auto kernel = make_kernel(*program, "histogram");
    if (!kernel) return complain(kernel.error());
    const auto shape = shape_for(kernel->get(), allocator->device());
    if (!shape) return complain(shape.error());
    auto totals = Buffer::create(packed, sizeof(Counters), BufferSpec{.zero = true});
    if (!totals) return complain(totals.error());

    std::unique_ptr<OpenClHistogram> made(
        new OpenClHistogram(*allocator, std::move(*kernel), *shape, std::move(*totals)));
    if (auto warm = made->warm_up(packed); !warm) return complain(warm.error());
    return made;
  }

  [[nodiscard]] std::string_view means() const noexcept override { return "OpenCL kernel"; }

  [[nodiscard]] Outcome<void> run(Buffer& bytes) override {
    const auto* buffer = bytes.as<opencl::ClBuffer>();
    if (buffer == nullptr) return complain("the buffer is not an OpenCL one");
    if (buffer->nbytes() == 0) return {};
    const auto memory = allocator_.kernel_arg(*buffer);
    if (!memory) return complain(memory.error());
    const auto totals = allocator_.exact_arg(*totals_.as<opencl::ClBuffer>());
    if (!totals) return complain(totals.error());

    // A segment is a whole number of rounds of its group; small buffers are worth few groups.
    constexpr std::size_t bytes_an_item = 16;
    constexpr std::size_t rounds = 64;
    const std::size_t round = shape_.items * bytes_an_item;
    const std::size_t share = (bytes.nbytes() + shape_.groups - 1) / shape_.groups;
    const cl_ulong segment = std::max((share + round - 1) / round, rounds) * round;
    const std::size_t groups = (bytes.nbytes() + segment - 1) / segment;

    if (auto set = set_arguments(*memory, bytes.nbytes(), segment, *totals); !set) return set;
    const std::size_t global = groups * shape_.items;
    if (auto launched = check(clEnqueueNDRangeKernel(allocator_.queue(), kernel_.get(), 1, nullptr, &global,
                                                     &shape_.items, 0, nullptr, nullptr),
                              "clEnqueueNDRangeKernel");
        !launched) {
      return launched;
    }
    if (auto done = allocator_.synchronize(); !done) return complain(done.error());
    return {};
  }

  [[nodiscard]] Outcome<ByteCounts> take() override {
    Counters counters{};
    if (auto out = totals_.copyout(std::as_writable_bytes(std::span(counters))); !out)
      return complain(out.error());
    if (auto zeroed = totals_.fill(std::byte{0}); !zeroed) return complain(zeroed.error());
    ByteCounts counts;
    std::ranges::copy(counters, counts.of.begin());
    return counts;
  }

 private:
  OpenClHistogram(const opencl::Allocator& allocator, Kernel kernel, const Shape& shape, Buffer totals)
      : allocator_(allocator), kernel_(std::move(kernel)), shape_(shape), totals_(std::move(totals)) {}

  Outcome<void> set_arguments(const opencl::KernelArg& memory, cl_ulong nbytes, cl_ulong segment,
                              cl_mem totals) {
    const cl_ulong residual = memory.residual;
    cl_uint index = 0;
    Outcome<void> all;
    const auto set = [&](std::size_t size, const void* value) {
      if (all) all = check(clSetKernelArg(kernel_.get(), index++, size, value), "clSetKernelArg");
    };
    set(sizeof(cl_mem), static_cast<const void*>(&memory.mem));
    set(sizeof residual, &residual);
    set(sizeof nbytes, &nbytes);
    set(sizeof segment, &segment);
    set(sizeof(cl_mem), static_cast<const void*>(&totals));
    set(shape_.items * sizeof(Counters), nullptr);
    return all;
  }

  // Drivers finish compiling at the first launch.
  Outcome<void> warm_up(const PackedAllocator& packed) {
    auto byte = Buffer::create(packed, 1, BufferSpec{.zero = true});
    if (!byte) return complain(byte.error());
    if (auto ran = run(*byte); !ran) return ran;
    if (auto dropped = take(); !dropped) return complain(dropped.error());
    return {};
  }

  opencl::Allocator allocator_;
  Kernel kernel_;
  Shape shape_;
  Buffer totals_;
};

}  // namespace

Outcome<std::unique_ptr<Histogram>> opencl_histogram(const PackedAllocator& allocator) {
  return OpenClHistogram::make(allocator);
}

}  // namespace berth::tool
