// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/buffer.hpp>
#include <berth/core/mapping.hpp>
#include <berth/device/device.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace berth::inline BERTH_ABI::device {

/// How a device's buffer and the host memory that it stands for hang together. Found by trying, never read
/// off a flag.
enum class LinkKind : std::uint8_t {
  separate,    ///< two memories: publish and acquire copy
  same,        ///< the device is the host: nothing moves, and what runs there is waited for
  shared,      ///< one memory: a device write is seen once the work has finished; calls only order
  shadow,      ///< the driver keeps a copy of its own beside the host's: publish and acquire move bytes
  registered,  ///< the device reaches the host's pinned pages
  pageable,    ///< the device reaches any host page
};

/// The enumerator's own name, a literal.
[[nodiscard]] BERTH_EXPORT std::string_view to_string(LinkKind kind) noexcept;

/// What was found of a device's links.
struct LinkInfo {
  LinkKind kind = LinkKind::separate;
  /// A map for reading of one page and its unmap, or the wait that stands for it, on an idle queue, measured;
  /// 0 where a link needs none.
  std::chrono::nanoseconds map_cost{0};
};

/// Host memory to be linked.
struct LinkRequest {
  std::span<std::byte> bytes;  ///< outlives the link
  bool read_only = false;      ///< neither the device nor berth ever writes to it
  std::size_t alignment = 64;  ///< that the caller has checked
  /// Bytes from the first on that belong to nobody else, at least the memory's own: a backend may link up to
  /// that many where its driver works in larger units.
  std::size_t block_bytes = 0;
};

/// A device buffer over host memory. Destruction returns when the driver no longer touches the memory, and
/// brings nothing home. The framework that made it lives longer, even one that is unregistered meanwhile.
///
/// Its calls come one at a time. Ranges lie within the memory and are not empty. Beforehand the caller has
/// waited for the work on the device (`Device::synchronize`), so that a link only moves bytes.
class BERTH_EXPORT HostLink {
 public:
  virtual ~HostLink();

  [[nodiscard]] virtual LinkInfo info() const noexcept = 0;
  /// What kernels take. Lives as long as the link.
  [[nodiscard]] virtual Buffer& buffer() noexcept = 0;

  /// Host to device: on return launches enqueued later, on any queue of the device, see the host's bytes. The
  /// host's bytes stay as they are.
  [[nodiscard]] virtual Result<void> publish(std::size_t nbytes, std::size_t byte_offset) = 0;
  /// Device to host: on return the host memory holds the device's bytes, and no command that touches them is
  /// left. Never called when the host's bytes are newer, nor for read-only memory.
  [[nodiscard]] virtual Result<void> acquire(std::size_t nbytes, std::size_t byte_offset) = 0;
  /// Gives the range to the host until it is unmapped, at its own address. Never called when the host's bytes
  /// are newer, nor for a range that overlaps a live map. After the unmap the caller waits for the device's
  /// allocator.
  [[nodiscard]] virtual Result<Mapping> map(Access access, std::size_t nbytes, std::size_t byte_offset) = 0;

 protected:
  HostLink() = default;
  HostLink(const HostLink&) = default;
  HostLink& operator=(const HostLink&) = default;
};

/// Links host memory to the devices of a framework. Must be thread-safe and live as long as the framework,
/// which outlives its links.
class BERTH_EXPORT HostLinker {
 public:
  virtual ~HostLinker();

  /// What a link over such memory would be. Tried on memory of the linker's own, once for each device and
  /// kind of request. Where memory for reading only is `unsupported` and this takes the same for writing, it
  /// is that which is refused.
  [[nodiscard]] virtual Result<LinkInfo> probe(const Device& device, const LinkRequest& like) = 0;

  /// A link whose device buffer holds the host's bytes. It has claimed the memory (`HostRange`), except for
  /// `LinkKind::same`: the host using its own memory is in nobody's way. `unsupported`, `misaligned`,
  /// `exceeds_device_maximum`, `invalid_size` and `overlap`, with the numbers, refuse this memory; any other
  /// error is the driver's. Nothing of a link that failed stays.
  [[nodiscard]] virtual Result<std::unique_ptr<HostLink>> link(const Device& device,
                                                               const LinkRequest& request) = 0;

 protected:
  HostLinker() = default;
  HostLinker(const HostLinker&) = default;
  HostLinker& operator=(const HostLinker&) = default;
};

}  // namespace berth::inline BERTH_ABI::device
