// SPDX-License-Identifier: MIT
// A user's own framework, made of host memory: devices with memory of their own, and a linker that keeps a
// copy beside the host's array, as a driver that shadows does. It counts what it moves, and can refuse.
#pragma once

#include <berth/core/host_range.hpp>
#include <berth/device/framework.hpp>
#include <berth/device/host_link.hpp>
#include <berth/device/registry.hpp>
#include <berth/host/allocator.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"

namespace toy {

/// What the links of a framework did, and what the next one shall fail with.
struct Links {
  int live = 0;
  int live_at_end = -1;  ///< when the linker went; -1 while there is one
  int published = 0;
  int acquired = 0;
  int mapped = 0;
  std::optional<berth::Error> refuse;
  std::optional<berth::Error> refuse_probe;
  std::optional<berth::Error> fail_publish;
  std::optional<berth::Error> fail_acquire;
  std::optional<berth::Error> fail_unmap;
  berth::device::LinkKind kind = berth::device::LinkKind::shadow;
};

inline berth::device::Device device(const std::string& framework, std::size_t index = 0) {
  auto allocator = berth::host::Allocator::open();
  REQUIRE(message(allocator) == "ok");
  return {framework, index, framework + " " + std::to_string(index), berth::pack(*allocator)};
}

/// Every map copies in and every unmap copies out, whatever it is for.
class ShadowLink final : public berth::device::HostLink {
 public:
  ShadowLink(Links& links, berth::Buffer buffer, std::span<std::byte> bytes, berth::HostRange claim)
      : links_(links), buffer_(std::move(buffer)), bytes_(bytes), claim_(std::move(claim)) {
    ++links_.live;
  }
  ~ShadowLink() override { --links_.live; }

  [[nodiscard]] berth::device::LinkInfo info() const noexcept override { return {.kind = links_.kind}; }
  [[nodiscard]] berth::Buffer& buffer() noexcept override { return buffer_; }
  [[nodiscard]] berth::Result<void> publish(std::size_t nbytes, std::size_t byte_offset) override {
    if (links_.fail_publish) return berth::fail(*links_.fail_publish);
    ++links_.published;
    std::ranges::copy(bytes_.subspan(byte_offset, nbytes), memory(byte_offset));
    return {};
  }
  [[nodiscard]] berth::Result<void> acquire(std::size_t nbytes, std::size_t byte_offset) override {
    if (links_.fail_acquire) return berth::fail(*links_.fail_acquire);
    ++links_.acquired;
    std::copy_n(memory(byte_offset), nbytes, bytes_.begin() + static_cast<std::ptrdiff_t>(byte_offset));
    return {};
  }
  [[nodiscard]] berth::Result<berth::Mapping> map(berth::Access, std::size_t nbytes,
                                                  std::size_t byte_offset) override {
    if (auto in = acquire(nbytes, byte_offset); !in) return berth::fail(in.error());
    ++links_.mapped;
    struct Live {
      std::byte* memory;
      const Links* links;
    };
    return berth::Mapping(
        bytes_.subspan(byte_offset, nbytes), Live{memory(byte_offset), &links_},
        +[](const Live& live, std::span<std::byte> bytes) noexcept -> berth::Result<void> {
          if (live.links->fail_unmap) return berth::fail(*live.links->fail_unmap);
          std::ranges::copy(bytes, live.memory);
          return {};
        });
  }

 private:
  [[nodiscard]] std::byte* memory(std::size_t byte_offset) const {
    return buffer_.as<berth::host::HostBuffer>()->data() + byte_offset;
  }

  Links& links_;
  berth::Buffer buffer_;
  std::span<std::byte> bytes_;
  berth::HostRange claim_;
};

class Linker final : public berth::device::HostLinker {
 public:
  explicit Linker(Links& links) : links_(links) {}
  Linker(const Linker&) = delete;
  ~Linker() override { links_.live_at_end = links_.live; }
  [[nodiscard]] berth::Result<berth::device::LinkInfo> probe(const berth::device::Device&,
                                                             const berth::device::LinkRequest&) override {
    if (links_.refuse_probe) return berth::fail(*links_.refuse_probe);
    return berth::device::LinkInfo{.kind = links_.kind};
  }
  [[nodiscard]] berth::Result<std::unique_ptr<berth::device::HostLink>> link(
      const berth::device::Device& device, const berth::device::LinkRequest& request) override {
    if (links_.refuse) return berth::fail(*links_.refuse);
    auto claim = berth::HostRange::claim(request.bytes, "toy");
    if (!claim) return berth::fail(claim.error());
    auto buffer = berth::Buffer::create(device.allocator(), request.bytes.size());
    if (!buffer) return berth::fail(buffer.error());
    if (auto filled = buffer->copyin(request.bytes); !filled) return berth::fail(filled.error());
    return std::make_unique<ShadowLink>(links_, std::move(*buffer), request.bytes, std::move(*claim));
  }

 private:
  Links& links_;
};

/// Registered while it lives, under the name "toy".
class Framework {
 public:
  explicit Framework(bool links_memory = true)
      : links(std::make_shared<Links>()), first(device("toy", 0)), second(device("toy", 1)) {
    REQUIRE(message(berth::device::register_framework(
                std::make_shared<Registered>(links, links_memory, std::vector{first, second}))) == "ok");
  }
  Framework(Framework&&) = delete;
  ~Framework() { berth::device::unregister_framework("toy"); }

  std::shared_ptr<Links> links;
  berth::device::Device first;
  berth::device::Device second;

 private:
  class Registered final : public berth::device::Framework {
   public:
    Registered(std::shared_ptr<Links> links, bool links_memory, std::vector<berth::device::Device> devices)
        : links_(std::move(links)),
          linker_(*links_),
          links_memory_(links_memory),
          devices_(std::move(devices)) {}
    [[nodiscard]] std::string_view name() const noexcept override { return "toy"; }
    [[nodiscard]] berth::Result<std::vector<berth::device::Device>> devices() override { return devices_; }
    [[nodiscard]] berth::device::HostLinker* host_linker() noexcept override {
      return links_memory_ ? &linker_ : nullptr;
    }

   private:
    std::shared_ptr<Links> links_;
    Linker linker_;
    bool links_memory_;
    std::vector<berth::device::Device> devices_;
  };
};

}  // namespace toy
