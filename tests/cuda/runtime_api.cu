// SPDX-License-Identifier: MIT
// berth and CUDA's runtime API in one process: one primary context, streams and addresses of both used by
// both.
#include <cuda_runtime_api.h>
#include <berth/core/buffer.hpp>
#include <berth/cuda/allocator.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using namespace berth;

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("failed: %s (%s)\n", what, cudaGetErrorString(cudaPeekAtLastError()));
  std::exit(1);
}

template <class T>
T required(Result<T> result, const char* what) {
  if (!result) std::printf("%s\n", result.error().message().c_str());
  require(result.has_value(), what);
  return std::move(*result);
}

__global__ void add(unsigned char* bytes, unsigned count, unsigned char more) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) bytes[i] = static_cast<unsigned char>(bytes[i] + more);
}

bool all(const std::vector<std::byte>& bytes, int value) {
  for (const std::byte byte : bytes) {
    if (byte != static_cast<std::byte>(value)) return false;
  }
  return true;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device\n");
    return 77;
  }
  constexpr unsigned nbytes = 100'000;
  unsigned char* theirs = nullptr;
  require(cudaMalloc(&theirs, nbytes) == cudaSuccess, "cudaMalloc");
  require(cudaMemset(theirs, 3, nbytes) == cudaSuccess, "cudaMemset");
  require(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize");
  {
    auto allocator = required(cuda::Allocator::open(0), "open");
    cuda::abi::Context current = nullptr;
    require(allocator.driver().ctx_get_current(&current) == cuda::abi::success, "cuCtxGetCurrent");
    require(current == allocator.context(), "berth works in the runtime API's context");

    // Memory of the runtime API's, used by berth.
    const auto address = static_cast<cuda::abi::DevicePtr>(reinterpret_cast<std::uintptr_t>(theirs));
    const auto borrowed = required(allocator.borrow(address, nbytes), "borrow");
    std::vector<std::byte> back(nbytes);
    require(allocator.copyout(back, borrowed).has_value(), "copyout");
    require(all(back, 3), "berth sees the runtime API's bytes");

    // Memory of berth's, used by a kernel of the runtime API's on berth's stream.
    auto own = required(allocator.alloc(nbytes), "alloc");
    require(allocator.transfer(own, borrowed, nbytes).has_value(), "transfer");
    auto* const bytes = reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(own.address()));
    add<<<(nbytes + 255) / 256, 256, 0, allocator.queue()>>>(bytes, nbytes, 4);
    require(cudaGetLastError() == cudaSuccess, "a kernel on berth's stream");
    require(allocator.copyout(back, own).has_value(), "copyout");
    require(all(back, 7), "the kernel's bytes");
    cudaPointerAttributes attributes{};
    require(cudaPointerGetAttributes(&attributes, bytes) == cudaSuccess &&
                attributes.type == cudaMemoryTypeDevice,
            "the runtime API knows berth's memory");
    allocator.free(own, nbytes);
    allocator.free(borrowed, nbytes);

    // A stream of the runtime API's, used by berth.
    cudaStream_t stream = nullptr;
    require(cudaStreamCreate(&stream) == cudaSuccess, "cudaStreamCreate");
    auto handle = required(allocator.on(cuda::borrow_queue(stream)), "on");
    auto buf = required(handle.alloc(nbytes, {.zero = true}), "alloc");
    require(cudaMemcpyAsync(theirs, reinterpret_cast<void*>(static_cast<std::uintptr_t>(buf.address())),
                            nbytes, cudaMemcpyDeviceToDevice, stream) == cudaSuccess,
            "cudaMemcpyAsync on the handle's stream");
    handle.free(buf, nbytes, {.zero = true});
    require(cudaStreamDestroy(stream) == cudaSuccess, "cudaStreamDestroy");
  }
  std::vector<std::byte> last(nbytes);
  require(cudaMemcpy(last.data(), theirs, nbytes, cudaMemcpyDeviceToHost) == cudaSuccess, "cudaMemcpy");
  require(all(last, 0), "the runtime API goes on when berth is gone");
  require(cudaFree(theirs) == cudaSuccess, "cudaFree");
  std::printf("ok\n");
  return 0;
}
