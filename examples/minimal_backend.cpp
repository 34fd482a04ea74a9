// SPDX-License-Identifier: MIT
// The smallest backend: seven operations over malloc. The conformance suite says whether it keeps the laws,
// and berth's adaptors, PackedAllocator and Buffer work on it at once.
#include <berth/berth.hpp>
#include <berth/core/checks.hpp>
#include <berth/testing/conformance.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mine {

struct Block {
  void* data;
  std::size_t size;
  berth::InstanceId owner;

  std::size_t nbytes() const noexcept { return size; }
  berth::InstanceId instance() const noexcept { return owner; }
  bool is_view() const noexcept { return false; }
};

class Allocator {
 public:
  using buffer_type = Block;

  berth::Result<Block> alloc(std::size_t nbytes, const berth::BufferSpec& spec) {
    if (nbytes == 0) return Block{nullptr, 0, id_};
    if (spec.external_ptr != nullptr) {
      if (spec.zero) return berth::fail(berth::Error(berth::Errc::invalid_argument, "mine").in("alloc"));
      return Block{spec.external_ptr, nbytes, id_};
    }
    if (nbytes > maximum) {
      return berth::fail(berth::Error(berth::Errc::exceeds_device_maximum, "mine")
                             .in("alloc")
                             .asking(nbytes)
                             .limited_to(maximum));
    }
    void* data = spec.zero ? std::calloc(1, nbytes) : std::malloc(nbytes);
    if (data == nullptr) {
      return berth::fail(berth::Error(berth::Errc::out_of_memory, "mine").in("malloc").asking(nbytes));
    }
    return Block{data, nbytes, id_};
  }
  void free(Block block, std::size_t, const berth::BufferSpec& spec) noexcept {
    if (berth::checks::freeable(block, info()) && spec.external_ptr == nullptr) std::free(block.data);
  }
  berth::Result<void> copyin(const Block& block, std::span<const std::byte> src) {
    auto inside = berth::checks::access(block, src.size(), 0, info(), "copyin");
    if (inside && !src.empty()) std::memcpy(block.data, src.data(), src.size());
    return inside;
  }
  berth::Result<void> copyout(std::span<std::byte> dst, const Block& block) {
    auto inside = berth::checks::access(block, dst.size(), 0, info(), "copyout");
    if (inside && !dst.empty()) std::memcpy(dst.data(), block.data, dst.size());
    return inside;
  }
  berth::Result<std::uintptr_t> addr(const Block& block) {
    if (auto own = berth::checks::own(block, info(), "addr"); !own) return berth::fail(own.error());
    return reinterpret_cast<std::uintptr_t>(block.data);
  }
  berth::AllocatorInfo info() const {
    return {.backend = "mine",
            .instance = id_,
            .device = {.backend = "mine"},
            .alignment = alignof(std::max_align_t),
            .granularity = alignof(std::max_align_t),
            .max_bytes = maximum};
  }
  berth::Result<void> synchronize() { return {}; }

 private:
  static constexpr std::size_t maximum = std::size_t{1} << 40U;
  berth::InstanceId id_ = berth::next_instance_id();
};

static_assert(berth::Allocator<Allocator>);

}  // namespace mine

int main() {
  const auto report = berth::testing::check<mine::Allocator>(
      [] { return berth::Result<mine::Allocator>(mine::Allocator{}); });
  for (const auto& result : report.results) {
    const bool failed = result.verdict == berth::testing::Verdict::fail;
    std::printf("%-28s %s %s\n", std::string(result.law).c_str(),
                failed                                            ? "FAIL"
                : result.verdict == berth::testing::Verdict::pass ? "pass"
                                                                  : "skip",
                result.reason.c_str());
  }
  std::printf("%zu passed, %zu failed, %zu skipped\n", report.passed(), report.failed(), report.skipped());

  // All that berth offers is there for it.
  auto buffer =
      berth::Buffer::create(berth::pack(berth::LimitingAllocator(mine::Allocator{}, 1 << 20)), 2 << 20);
  std::printf("%s\n", buffer ? "?" : buffer.error().message().c_str());
  return report.ok() && !buffer ? 0 : 1;
}
