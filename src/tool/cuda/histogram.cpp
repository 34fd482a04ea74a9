// SPDX-License-Identifier: MIT
#include "histogram.hpp"

#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>

#include <algorithm>
#include <array>
#include <span>

#include "kernel.hpp"
#include "native.hpp"

namespace berth::tool {
namespace {

using Counters = std::array<std::uint32_t, 256>;
constexpr unsigned blocks_a_multiprocessor = 8;

class CudaHistogram final : public Histogram {
 public:
  static Outcome<std::unique_ptr<Histogram>> make(const PackedAllocator& packed) {
    const auto* allocator = packed.unpack<cuda::Allocator>();
    if (allocator == nullptr) return complain("the allocator is not a CUDA one");
    const auto description = cuda::describe(allocator->device(), &allocator->driver());
    if (!description) return complain(description.error());
    auto totals = Buffer::create(packed, sizeof(Counters), BufferSpec{.zero = true});
    if (!totals) return complain(totals.error());
    std::unique_ptr<CudaHistogram> made(
        new CudaHistogram(*allocator, std::max(1U, description->multiprocessors) * blocks_a_multiprocessor,
                          std::move(*totals)));
    if (auto loaded = made->load(); !loaded) return complain(loaded.error());
    if (auto warm = made->warm_up(packed); !warm) return complain(warm.error());
    return made;
  }
  ~CudaHistogram() override {
    const InContext current(allocator_);
    if (current && module_ != nullptr) allocator_.driver().module_unload(module_);
  }

  [[nodiscard]] std::string_view means() const noexcept override { return "CUDA kernel"; }

  [[nodiscard]] Outcome<void> run(Buffer& bytes) override {
    const auto* buffer = bytes.as<cuda::CudaBuffer>();
    const auto* totals = totals_.as<cuda::CudaBuffer>();
    if (buffer == nullptr || totals == nullptr) return complain("the buffer is not a CUDA one");
    if (buffer->nbytes() == 0) return {};
    cuda::abi::DevicePtr memory = buffer->address();
    std::uint64_t nbytes = buffer->nbytes();
    cuda::abi::DevicePtr counters = totals->address();
    std::array<void*, 3> arguments{&memory, &nbytes, &counters};
    const auto enough = (nbytes + histogram_threads - 1) / histogram_threads;
    const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(most_blocks_, enough));
    {
      const InContext current(allocator_);
      if (auto launched =
              check(allocator_.driver(),
                    allocator_.driver().launch_kernel(function_, blocks, 1, 1, histogram_threads, 1, 1, 0,
                                                      allocator_.queue(), arguments.data(), nullptr),
                    "cuLaunchKernel");
          !launched) {
        return launched;
      }
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
  CudaHistogram(const cuda::Allocator& allocator, unsigned most_blocks, Buffer totals)
      : allocator_(allocator), most_blocks_(most_blocks), totals_(std::move(totals)) {}

  Outcome<void> load() {
    const InContext current(allocator_);
    const cuda::Driver& driver = allocator_.driver();
    if (auto loaded = check(driver, driver.module_load_data(&module_, histogram_ptx), "cuModuleLoadData");
        !loaded) {
      return loaded;
    }
    return check(driver, driver.module_get_function(&function_, module_, "histogram"), "cuModuleGetFunction");
  }

  // Drivers load code at the first launch.
  Outcome<void> warm_up(const PackedAllocator& packed) {
    auto byte = Buffer::create(packed, 1, BufferSpec{.zero = true});
    if (!byte) return complain(byte.error());
    if (auto ran = run(*byte); !ran) return ran;
    if (auto dropped = take(); !dropped) return complain(dropped.error());
    return {};
  }

  cuda::Allocator allocator_;
  unsigned most_blocks_;
  cuda::abi::Module module_ = nullptr;
  cuda::abi::Function function_ = nullptr;
  Buffer totals_;
};

}  // namespace

Outcome<std::unique_ptr<Histogram>> cuda_histogram(const PackedAllocator& allocator) {
  return CudaHistogram::make(allocator);
}

}  // namespace berth::tool
