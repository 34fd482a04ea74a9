// SPDX-License-Identifier: MIT
#include <fmt/format.h>
#include <berth/device/registry.hpp>
#include <berth/host_ptr/host_ptr.hpp>
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/framework.hpp>

#include <algorithm>
#include <array>

#include "../bench.hpp"
#include "../stopwatch.hpp"
#include "../text.hpp"
#include "program.hpp"

namespace berth::tool {
namespace {

using Array = BigArray<std::uint8_t>;
using Bytes = Vector<std::uint8_t>;

constexpr std::array<std::size_t, 6> sizes{std::size_t{4} << 10U,   std::size_t{64} << 10U,
                                           std::size_t{1} << 20U,   std::size_t{16} << 20U,
                                           std::size_t{256} << 20U, std::size_t{1} << 30U};
// Above it a copy takes longer than anybody wants to wait, and says nothing new.
constexpr std::size_t largest_copy = std::size_t{256} << 20U;
constexpr unsigned most_runs = 301;
constexpr Nanoseconds enough = std::chrono::milliseconds(150);

// The median of many calls in microseconds, or of the few that fit in the time; the first complaint ends it.
Outcome<double> time(auto call) {
  std::vector<double> times;
  const Stopwatch whole;
  while (times.size() < 3 || (times.size() < most_runs && whole.elapsed() < enough)) {
    const Stopwatch stopwatch;
    if (auto done = call(); !done) return complain(done.error());
    times.push_back(static_cast<double>(stopwatch.elapsed().count()) / 1000.0);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

Outcome<void> plain(const host_ptr::HostPtrResult<void>& result) {
  if (!result) return complain(host_ptr::error_message(result.error()));
  return {};
}

Outcome<void> publish_and_acquire(Bytes& vector, const device::Device& device) {
  if (auto out = plain(host_ptr::publish_host_writes(vector, device)); !out) return out;
  return plain(host_ptr::acquire_device_writes(vector, device));
}

// What a careful program does without berth, on an object over the same memory.
class ByHand {
 public:
  ByHand(const opencl::Allocator& allocator, const Array& array)
      : queue_(allocator.queue()), array_(array), status_(CL_SUCCESS) {
    mem_ = clCreateBuffer(allocator.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, array.nbytes(),
                          array.writable_elements().data(), &status_);
  }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;
  ~ByHand() {
    if (mem_ == nullptr) return;
    clReleaseMemObject(mem_);
    clFinish(queue_);
  }
  Outcome<void> publish_and_acquire() const {
    if (auto made = check(status_, "clCreateBuffer"); !made) return made;
    const auto bytes = array_.writable_elements();
    if (auto written = check(
            clEnqueueWriteBuffer(queue_, mem_, CL_TRUE, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr),
            "clEnqueueWriteBuffer");
        !written) {
      return written;
    }
    cl_int status = CL_SUCCESS;
    void* const mapped =
        clEnqueueMapBuffer(queue_, mem_, CL_TRUE, CL_MAP_READ, 0, bytes.size(), 0, nullptr, nullptr, &status);
    if (auto got = check(status, "clEnqueueMapBuffer"); !got) return got;
    if (auto gone = check(clEnqueueUnmapMemObject(queue_, mem_, mapped, 0, nullptr, nullptr),
                          "clEnqueueUnmapMemObject");
        !gone) {
      return gone;
    }
    return check(clFinish(queue_), "clFinish");
  }

 private:
  cl_command_queue queue_;
  Array array_;
  cl_int status_;
  cl_mem mem_ = nullptr;
};

class Comparison {
 public:
  explicit Comparison(const device::Device& device)
      : device_(device),
        peer_version_(fmt::format("on {}", device.name())),
        allocator_(*device.allocator().unpack<opencl::Allocator>()) {}

  Outcome<void> measure(std::size_t nbytes) {
    auto array = Array::create(nbytes);
    if (!array) return complain(array.error());
    const std::string size = binary_size(nbytes);
    // One link at a time over the same memory.
    {
      auto vector = host_ptr::of_bigarray(device_, uint8, *array);
      if (!vector) return complain(host_ptr::error_message(vector.error()));
      const auto link = host_ptr::host_link(*vector, device_);
      const auto us = time([&] { return publish_and_acquire(*vector, device_); });
      if (!us) return complain(us.error());
      own(fmt::format("attached, {}, {}", to_string(link->kind), size), *us);
      attached_.push_back(*us);
    }
    {
      const ByHand program(allocator_, *array);
      const auto us = time([&] { return program.publish_and_acquire(); });
      if (!us) return complain(us.error());
      peer(fmt::format("by hand, {}", size), *us);
      by_hand_.push_back(*us);
    }
    if (nbytes > largest_copy) return {};
    auto copies = Bytes::over(*array);
    if (auto there = copies.to_device(device_); !there) return complain(there.error());
    const auto us = time([&] { return publish_and_acquire(copies, device_); });
    if (!us) return complain(us.error());
    own(fmt::format("copies, {}", size), *us);
    return {};
  }

  [[nodiscard]] std::vector<BenchRow> rows() {
    const auto spread = [](const std::vector<double>& times) {
      return std::ranges::max(times) / std::ranges::min(times);
    };
    if (!attached_.empty()) {
      rows_.push_back({"attached, slowest over fastest size", spread(attached_), "x", "", berth_version()});
      rows_.push_back({"by hand, slowest over fastest size", spread(by_hand_), "x", peer_, peer_version_});
    }
    return std::move(rows_);
  }

 private:
  static constexpr const char* peer_ = "plain OpenCL";

  void own(std::string what, double us) { rows_.push_back({std::move(what), us, "us", "", berth_version()}); }
  void peer(std::string what, double us) {
    rows_.push_back({std::move(what), us, "us", peer_, peer_version_});
  }

  const device::Device& device_;
  std::string peer_version_;
  opencl::Allocator allocator_;
  std::vector<double> attached_;
  std::vector<double> by_hand_;
  std::vector<BenchRow> rows_;
};

}  // namespace

Outcome<std::vector<BenchRow>> bench_host_ptr_sync(const BenchProgress& progress) {
  const auto framework = opencl::framework();
  if (auto known = device::register_framework(framework); !known) return complain(known.error());
  const auto devices = framework->devices();
  if (!devices) return complain(devices.error());
  const device::Device& device = devices->front();
  Comparison comparison(device);
  unsigned run = 0;
  for (const std::size_t nbytes : sizes) {
    progress(++run, static_cast<unsigned>(sizes.size()));
    if (nbytes > device.allocator().info().max_bytes) continue;
    if (auto measured = comparison.measure(nbytes); !measured) return complain(measured.error());
  }
  return comparison.rows();
}

}  // namespace berth::tool
