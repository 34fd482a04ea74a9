// SPDX-License-Identifier: MIT
#include "host_link.hpp"

#include <utility>

namespace berth::inline BERTH_ABI::host {
namespace {

constexpr const char* backend = "host";
constexpr device::LinkInfo same{.kind = device::LinkKind::same};

class Link final : public device::HostLink {
 public:
  Link(Buffer buffer, std::span<std::byte> bytes) noexcept : buffer_(std::move(buffer)), bytes_(bytes) {}

  [[nodiscard]] device::LinkInfo info() const noexcept override { return same; }
  [[nodiscard]] Buffer& buffer() noexcept override { return buffer_; }
  [[nodiscard]] Result<void> publish(std::size_t /*nbytes*/, std::size_t /*byte_offset*/) override {
    return {};
  }
  [[nodiscard]] Result<void> acquire(std::size_t /*nbytes*/, std::size_t /*byte_offset*/) override {
    return {};
  }
  [[nodiscard]] Result<Mapping> map(Access /*access*/, std::size_t nbytes, std::size_t byte_offset) override {
    return Mapping(bytes_.subspan(byte_offset, nbytes));
  }

 private:
  Buffer buffer_;
  std::span<std::byte> bytes_;
};

}  // namespace

Result<device::LinkInfo> Linker::probe(const device::Device& device, const device::LinkRequest& /*like*/) {
  if (device.allocator().info().device.backend == backend) return same;
  return fail(Error(Errc::unsupported, backend).in("probe").because("the device's memory is not the host's"));
}

Result<std::unique_ptr<device::HostLink>> Linker::link(const device::Device& device,
                                                       const device::LinkRequest& request) {
  if (auto info = probe(device, request); !info) return fail(info.error());
  auto buffer =
      Buffer::create(device.allocator(), request.bytes.size(), {.external_ptr = request.bytes.data()});
  if (!buffer) return fail(buffer.error());
  return std::make_unique<Link>(std::move(*buffer), request.bytes);
}

}  // namespace berth::inline BERTH_ABI::host
