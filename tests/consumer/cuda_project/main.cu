// SPDX-License-Identifier: MIT
// Runs with and without a GPU.
#include <berth/berth.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>

#include <cstdio>

__global__ void add_one(unsigned char* bytes) { bytes[threadIdx.x] += 1; }

int main() {
  const auto devices = berth::cuda::devices();
  if (!devices) return std::puts(devices.error().message().c_str()) < 0 ? 1 : 0;
  auto allocator = berth::cuda::Allocator::open(devices->front().ordinal);
  if (!allocator) return 1;
  auto buf = allocator->alloc(32, {.zero = true});
  if (!buf) return 1;
  add_one<<<1, 32, 0, allocator->queue()>>>(reinterpret_cast<unsigned char*>(buf->address()));
  std::byte last{};
  const auto view = allocator->offset(*buf, 1, 31);
  const bool right = view && allocator->copyout({&last, 1}, *view) && last == std::byte{1};
  allocator->free(*buf, 32, {.zero = true});
  return right ? 0 : 1;
}
