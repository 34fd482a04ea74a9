// SPDX-License-Identifier: MIT
#include "host_link.hpp"

#include <berth/core/buffer.hpp>
#include <berth/core/diagnostics.hpp>

#include <memory>
#include <utility>

#include "block.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

class Link final : public device::HostLink {
 public:
  Link(device::Device device, std::shared_ptr<const detail::Context> context, Buffer buffer,
       std::span<std::byte> bytes, device::LinkInfo info) noexcept
      : device_(std::move(device)),
        context_(std::move(context)),
        buffer_(std::move(buffer)),
        bytes_(bytes),
        info_(info) {}
  ~Link() override {
    // The buffer's end waits for the streams that it knows of.
    if (!process::may_release() || context_->lost()) return;
    if (auto idle = wait(); !idle && !context_->lost()) report(idle.error());
  }

  [[nodiscard]] device::LinkInfo info() const noexcept override { return info_; }
  [[nodiscard]] Buffer& buffer() noexcept override { return buffer_; }

  // A launch comes after the host's writes before it (CUDA C++ Programming Guide, "Mapped Memory").
  [[nodiscard]] Result<void> publish(std::size_t /*nbytes*/, std::size_t /*byte_offset*/) override {
    return context_->usable("publish");
  }
  [[nodiscard]] Result<void> acquire(std::size_t /*nbytes*/, std::size_t /*byte_offset*/) override {
    return wait();
  }
  [[nodiscard]] Result<Mapping> map(Access /*access*/, std::size_t nbytes, std::size_t byte_offset) override {
    if (auto idle = wait(); !idle) return fail(idle.error());
    return Mapping(bytes_.subspan(byte_offset, nbytes));
  }

 private:
  Result<void> wait() const noexcept {
    if (auto usable = context_->usable("acquire"); !usable) return usable;
    const detail::Current current(*context_);
    if (!current.entered()) return current.entered();
    return context_->check(context_->driver.ctx_synchronize(), "cuCtxSynchronize");
  }

  device::Device device_;
  std::shared_ptr<const detail::Context> context_;
  Buffer buffer_;
  std::span<std::byte> bytes_;
  device::LinkInfo info_;
};

// Through a stack of adaptors only what BufferSpec says can be asked for: memory that kernels may write to,
// at the usual alignment.
Result<Buffer> wrap(const device::Device& device, const device::LinkRequest& request) {
  PackedAllocator allocator = device.allocator();
  const BufferSpec spec{.host = true, .external_ptr = request.bytes.data()};
  Allocator* const own = allocator.unpack<Allocator>();
  if (own == nullptr && request.read_only) {
    return fail(Error(Errc::unsupported, backend)
                    .in("link")
                    .asking(request.bytes.size())
                    .because("through adaptors memory is linked for writing too"));
  }
  if (own == nullptr) return Buffer::create(std::move(allocator), request.bytes.size(), spec);
  auto wrapped = own->wrap(request.bytes, {.read_only = request.read_only, .alignment = request.alignment});
  if (!wrapped) return fail(wrapped.error());
  return Buffer::own(std::move(allocator), PackedBuffer(*wrapped), spec);
}

}  // namespace

namespace {

// What stands behind the device's allocator, through any stack of adaptors.
Result<std::shared_ptr<const detail::Instance>> instance_of(const device::Device& device) {
  const AllocatorInfo info = device.allocator().info();
  const Error unsupported = Error(Errc::unsupported, backend).in("probe");
  if (info.device.backend != backend)
    return fail(Error(unsupported).because("the device's memory is not CUDA's"));
  auto instance = detail::find_instance(info.instance);
  if (instance == nullptr) return fail(Error(unsupported).because("the device's allocator is not berth's"));
  return instance;
}

}  // namespace

Result<device::LinkInfo> Linker::probe(const device::Device& device, const device::LinkRequest& /*like*/) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const auto instance = instance_of(device);
  if (!instance) return fail(instance.error());
  return (*instance)->host_trial.run();
}

Result<std::unique_ptr<device::HostLink>> Linker::link(const device::Device& device,
                                                       const device::LinkRequest& request) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const auto instance = instance_of(device);
  if (!instance) return fail(instance.error());
  const auto info = (*instance)->host_trial.run();
  if (!info) return fail(info.error());
  auto buffer = wrap(device, request);
  if (!buffer) return fail(buffer.error());
  return std::make_unique<Link>(device, (*instance)->context, std::move(*buffer), request.bytes, *info);
}

}  // namespace berth::inline BERTH_ABI::cuda
