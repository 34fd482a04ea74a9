// SPDX-License-Identifier: MIT
#include "bench_stub.hpp"

namespace berth::tool {
namespace {

StubBuffer take(StubState& state, std::size_t nbytes) noexcept {
  state.live_bytes += nbytes;
  return {++state.allocations, nbytes, state.instance};
}

void give_back(StubState& state, std::size_t nbytes) noexcept { state.live_bytes -= nbytes; }

Error unsupported(const char* call) noexcept { return Error(Errc::unsupported, "stub").in(call); }

class VirtualStub final : public VirtualAllocator {
 public:
  explicit VirtualStub(StubState& state) noexcept : state_(state) {}
  [[nodiscard]] Result<StubBuffer> alloc(std::size_t nbytes, const BufferSpec& /*spec*/) override {
    return take(state_, nbytes);
  }
  void free(StubBuffer /*buf*/, std::size_t nbytes, const BufferSpec& /*spec*/) noexcept override {
    give_back(state_, nbytes);
  }

 private:
  StubState& state_;
};

class PmrStub final : public std::pmr::memory_resource {
 public:
  explicit PmrStub(StubState& state) noexcept : state_(state) {}

 private:
  void* do_allocate(std::size_t nbytes, std::size_t /*alignment*/) override {
    static_cast<void>(take(state_, nbytes));
    return &state_;
  }
  void do_deallocate(void* /*memory*/, std::size_t nbytes, std::size_t /*alignment*/) override {
    give_back(state_, nbytes);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }

  StubState& state_;
};

}  // namespace

[[gnu::noinline]] Result<StubBuffer> StubAllocator::alloc(std::size_t nbytes, const BufferSpec& /*spec*/) {
  return take(*state_, nbytes);
}
[[gnu::noinline]] void StubAllocator::free(StubBuffer /*buf*/, std::size_t nbytes,
                                           const BufferSpec& /*spec*/) noexcept {
  give_back(*state_, nbytes);
}
Result<void> StubAllocator::copyin(const StubBuffer&, std::span<const std::byte>) {
  return fail(unsupported("copyin"));
}
Result<void> StubAllocator::copyout(std::span<std::byte>, const StubBuffer&) {
  return fail(unsupported("copyout"));
}
Result<std::uintptr_t> StubAllocator::addr(const StubBuffer&) { return fail(unsupported("addr")); }
AllocatorInfo StubAllocator::info() const {
  AllocatorInfo info;
  info.backend = "stub";
  info.instance = state_->instance;
  return info;
}
Result<void> StubAllocator::synchronize() { return {}; }

std::unique_ptr<VirtualAllocator> make_virtual_stub(StubState& state) {
  return std::make_unique<VirtualStub>(state);
}
std::unique_ptr<std::pmr::memory_resource> make_pmr_stub(StubState& state) {
  return std::make_unique<PmrStub>(state);
}

}  // namespace berth::tool
