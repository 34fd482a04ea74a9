// SPDX-License-Identifier: MIT
#include "host_link.hpp"

#include <berth/core/host_range.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/allocator.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <utility>

#include "status.hpp"

namespace berth::inline BERTH_ABI::opencl {
namespace {

// What drivers ask for before they use host memory in place (Intel's: address and size).
constexpr std::size_t in_place_alignment = 64;
constexpr std::size_t page_bytes = 4096;

class Link final : public device::HostLink {
 public:
  Link(device::Device device, Buffer buffer, const device::LinkRequest& request,
       device::LinkInfo info) noexcept
      : device_(std::move(device)),
        buffer_(std::move(buffer)),
        bytes_(request.bytes),
        info_(info),
        read_only_(request.read_only) {}
  ~Link() override {
    if (!process::may_release()) return;
    // The driver would wait for commands that use the memory, and not for those that it has not been given.
    if (auto idle = device_.synchronize(); !idle) report(idle.error());
  }

  [[nodiscard]] device::LinkInfo info() const noexcept override { return info_; }
  [[nodiscard]] Buffer& buffer() noexcept override { return buffer_; }

  [[nodiscard]] Result<void> publish(std::size_t nbytes, std::size_t byte_offset) override {
    // Intel's driver for CPUs (2026.22.10) writes to the memory even where source and destination are the
    // same.
    if (read_only_ && info_.kind == device::LinkKind::shared) return {};
    PackedAllocator allocator = buffer_.allocator();
    const auto part = allocator.offset(buffer_.handle(), nbytes, byte_offset);
    if (!part) return fail(part.error());
    // OpenCL 3.0, clEnqueueWriteBuffer: the source may be the host pointer of the buffer itself, while
    // nothing of it is mapped.
    const auto source = bytes_.subspan(byte_offset, nbytes);
    const auto mapped = has_maps();
    if (!mapped) return fail(mapped.error());
    auto written = *mapped ? write_aside(allocator, *part, source) : allocator.copyin(*part, source);
    if (!written) return written;
    // Quirk::events_order_queues_only: what a blocking call wrote is seen everywhere once its queue is empty.
    return device_.allocator().synchronize();
  }
  [[nodiscard]] Result<void> acquire(std::size_t nbytes, std::size_t byte_offset) override {
    auto mapping = map(Access::read, nbytes, byte_offset);
    if (!mapping) return fail(mapping.error());
    if (auto unmapped = mapping->unmap(); !unmapped) return unmapped;
    // Some drivers read the host memory at an unmap too.
    return device_.allocator().synchronize();
  }
  [[nodiscard]] Result<Mapping> map(Access access, std::size_t nbytes, std::size_t byte_offset) override {
    auto mapping = buffer_.map(access, nbytes, byte_offset);
    if (mapping && mapping->bytes().data() != bytes_.data() + byte_offset) {
      return fail(Error(Errc::driver, backend)
                      .in("clEnqueueMapBuffer")
                      .asking(nbytes)
                      .because("the map is not at the host memory's address"));
    }
    return mapping;
  }

 private:
  [[nodiscard]] Result<bool> has_maps() const {
    cl_uint maps = 0;
    const cl_int status =
        clGetMemObjectInfo(buffer_.as<ClBuffer>()->root(), CL_MEM_MAP_COUNT, sizeof maps, &maps, nullptr);
    if (auto told = check(status, "clGetMemObjectInfo", Doing::moving); !told) return fail(told.error());
    return maps != 0;
  }

  // From a copy of the bytes, a piece at a time.
  [[nodiscard]] static Result<void> write_aside(PackedAllocator& allocator, const PackedBuffer& part,
                                                std::span<const std::byte> source) {
    constexpr std::size_t most = std::size_t{1} << 20U;
    const std::size_t room = std::min(source.size(), most);
    const std::unique_ptr<std::byte[]> aside(new (std::nothrow) std::byte[room]);
    if (aside == nullptr) return fail(Error(Errc::out_of_memory, "host").in("publish").asking(room));
    for (std::size_t at = 0; at < source.size(); at += room) {
      const auto piece = source.subspan(at, std::min(room, source.size() - at));
      std::ranges::copy(piece, aside.get());
      const auto there = allocator.offset(part, piece.size(), at);
      if (!there) return fail(there.error());
      if (auto moved = allocator.copyin(*there, {aside.get(), piece.size()}); !moved) return moved;
    }
    return {};
  }

  device::Device device_;
  Buffer buffer_;
  std::span<std::byte> bytes_;
  device::LinkInfo info_;
  bool read_only_;
};

// What is linked. Drivers work in lines, Intel's for one: memory that ends inside one is copied, or written
// past. A stack of adaptors frees by the size that it was asked for.
std::span<std::byte> padded(const device::Device& device, const device::LinkRequest& request) {
  const PackedAllocator allocator = device.allocator();
  if (allocator.unpack<Allocator>() == nullptr) return request.bytes;
  const std::size_t whole =
      (request.bytes.size() + in_place_alignment - 1) / in_place_alignment * in_place_alignment;
  return {request.bytes.data(), whole <= request.block_bytes ? whole : request.bytes.size()};
}

// Through a stack of adaptors only what BufferSpec says can be asked for: memory that kernels may write to,
// at the usual alignment.
Result<Buffer> wrap(const device::Device& device, const device::LinkRequest& request) {
  PackedAllocator allocator = device.allocator();
  const BufferSpec spec{.external_ptr = request.bytes.data()};
  Allocator* const own = allocator.unpack<Allocator>();
  if (own == nullptr && request.read_only) {
    return fail(Error(Errc::unsupported, backend)
                    .in("link")
                    .asking(request.bytes.size())
                    .because("through adaptors memory is linked for writing too"));
  }
  if (own == nullptr) return Buffer::create(std::move(allocator), request.bytes.size(), spec);
  auto wrapped =
      own->wrap(padded(device, request), {.read_only = request.read_only, .alignment = request.alignment});
  if (!wrapped) return fail(wrapped.error());
  return Buffer::own(std::move(allocator), PackedBuffer(wrapped->resized(request.bytes.size())), spec);
}

// Pages of berth's own, with a hole in front and behind that the request's alignment asks for.
class Trial {
 public:
  Trial(std::size_t misaligned, std::size_t odd)
      : block_(new(std::align_val_t(page_bytes)) std::byte[3 * page_bytes](), Free()),
        bytes_(block_.get() + misaligned, page_bytes + odd) {}
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::shared_ptr<std::byte>& block() const noexcept { return block_; }
  /// Whether every byte of the memory is `value` now. The device writes behind the compiler's back.
  [[nodiscard]] bool holds(std::byte value) const noexcept {
    const volatile std::byte* const bytes = bytes_.data();
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (bytes[i] != value) return false;
    }
    return true;
  }

 private:
  struct Free {
    void operator()(std::byte* block) const noexcept {
      ::operator delete[](block, std::align_val_t(page_bytes));
    }
  };
  std::shared_ptr<std::byte> block_;
  std::span<std::byte> bytes_;
};

// Whether each side sees what the other wrote, with the work finished and no map in between.
Result<bool> shares(Allocator& allocator, const ClBuffer& buf, const Trial& trial) {
  constexpr std::byte from_device{0xA5};
  constexpr std::byte from_host{0x5A};
  if (auto filled = allocator.fill(buf, from_device); !filled) return fail(filled.error());
  if (auto idle = allocator.synchronize(); !idle) return fail(idle.error());
  if (!trial.holds(from_device)) return false;

  std::ranges::fill(trial.bytes(), from_host);
  auto beside = allocator.alloc(buf.nbytes());
  if (!beside) return fail(beside.error());
  std::vector<std::byte> seen(buf.nbytes());
  auto moved = allocator.transfer(*beside, buf, buf.nbytes());
  if (moved) moved = allocator.copyout(seen, *beside);
  allocator.free(*beside, beside->nbytes());
  if (!moved) return fail(moved.error());
  return std::ranges::count(seen, from_host) == static_cast<std::ptrdiff_t>(seen.size());
}

Result<std::chrono::nanoseconds> map_cost(Allocator& allocator, const ClBuffer& buf) {
  std::array<std::chrono::nanoseconds, 9> costs{};
  for (std::chrono::nanoseconds& cost : costs) {
    const auto start = std::chrono::steady_clock::now();
    auto mapping = allocator.map(buf, Access::read, page_bytes);
    if (!mapping) return fail(mapping.error());
    if (auto unmapped = mapping->unmap(); !unmapped) return fail(unmapped.error());
    if (auto idle = allocator.synchronize(); !idle) return fail(idle.error());
    cost = std::chrono::steady_clock::now() - start;
  }
  std::ranges::nth_element(costs, costs.begin() + costs.size() / 2);
  return costs[costs.size() / 2];
}

}  // namespace

Result<device::LinkInfo> Linker::probe(const device::Device& device, const device::LinkRequest& like) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const DeviceKey key = device.allocator().info().device;
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(like.bytes.data()) % in_place_alignment;
  const std::size_t odd = padded(device, like).size() % in_place_alignment;
  if (key.backend != backend) {
    return fail(Error(Errc::unsupported, backend).in("probe").because("the device's memory is not OpenCL's"));
  }

  const HoldReports held;
  const MutexLock lock(mutex_);
  for (const Probed& known : probed_) {
    if (known.device == key && known.address_aligned == (misaligned == 0) &&
        known.size_aligned == (odd == 0)) {
      return known.info;
    }
  }
  // A context and a queue of its own: on the device's it would wait for every kernel before it.
  auto allocator = Allocator::open(reinterpret_cast<cl_device_id>(key.low));  // NOLINT: as info() made it
  if (!allocator) return fail(allocator.error());
  const Trial trial(misaligned, odd);
  auto buf = allocator->wrap(trial.bytes(), {.alignment = 1});
  if (!buf) return fail(buf.error());
  const auto shared = shares(*allocator, *buf, trial);
  const auto cost = map_cost(*allocator, *buf);
  allocator->free(*buf, buf->nbytes());
  // What the driver did not take back it may use as long as it likes.
  if (!HostRange::claim(trial.bytes(), backend)) kept_.push_back(trial.block());
  if (!shared) return fail(shared.error());
  if (!cost) return fail(cost.error());
  const device::LinkInfo info{*shared ? device::LinkKind::shared : device::LinkKind::shadow, *cost};
  probed_.push_back({key, misaligned == 0, odd == 0, info});
  return info;
}

Result<std::unique_ptr<device::HostLink>> Linker::link(const device::Device& device,
                                                       const device::LinkRequest& request) {
  const auto info = probe(device, request);
  if (!info) return fail(info.error());
  auto buffer = wrap(device, request);
  if (!buffer) return fail(buffer.error());
  return std::make_unique<Link>(device, std::move(*buffer), request, *info);
}

}  // namespace berth::inline BERTH_ABI::opencl
