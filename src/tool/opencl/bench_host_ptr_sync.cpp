// SPDX-License-Identifier: MIT
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/framework.hpp>

#include "../host_ptr_sync.hpp"
#include "program.hpp"

namespace berth::tool {
namespace {

using host_ptr_sync::Array;

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

}  // namespace

Outcome<std::vector<BenchRow>> bench_opencl_host_ptr_sync(const BenchProgress& progress) {
  return host_ptr_sync::compare<opencl::Allocator, ByHand>(opencl::framework(), "plain OpenCL", progress);
}

}  // namespace berth::tool
