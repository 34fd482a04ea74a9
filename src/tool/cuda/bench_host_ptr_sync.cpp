// SPDX-License-Identifier: MIT
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/framework.hpp>

#include "../host_ptr_sync.hpp"
#include "native.hpp"

namespace berth::tool {
namespace {

using host_ptr_sync::Array;

// What a careful program does without berth: registers the memory, and waits for the context.
class ByHand {
 public:
  ByHand(const cuda::Allocator& allocator, const Array& array)
      : allocator_(allocator),
        current_(allocator_),
        memory_(array.writable_elements().data()),
        status_(allocator_.driver().mem_host_register(
            memory_, array.nbytes(),
            cuda::abi::memhostregister_portable | cuda::abi::memhostregister_devicemap)) {}
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;
  ~ByHand() {
    if (status_ == cuda::abi::success) allocator_.driver().mem_host_unregister(memory_);
  }
  Outcome<void> publish_and_acquire() const {
    if (auto registered = check(allocator_.driver(), status_, "cuMemHostRegister"); !registered)
      return registered;
    return check(allocator_.driver(), allocator_.driver().ctx_synchronize(), "cuCtxSynchronize");
  }

 private:
  const cuda::Allocator& allocator_;
  InContext current_;
  void* memory_;
  cuda::abi::Status status_;
};

}  // namespace

Outcome<std::vector<BenchRow>> bench_cuda_host_ptr_sync(const BenchProgress& progress) {
  return host_ptr_sync::compare<cuda::Allocator, ByHand>(cuda::framework(), "plain CUDA", progress);
}

}  // namespace berth::tool
