// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/io/exact.hpp>
#include <berth/io/load.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "block.hpp"
#include "copy.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

constexpr const char* call = "copy_from_disk";

// Reads into one chunk while the other is copied. No copy is under way when this returns, unless the driver
// cannot tell; `settled` says so.
class StagedRead {
 public:
  StagedRead(const detail::Context& context, const detail::Staging& staging, abi::Stream stream) noexcept
      : context_(context), staging_(staging), stream_(stream) {}

  Result<DiskCopy> run(detail::Place dest, const FileExtent& extent, std::size_t nbytes) {
    std::size_t queued = 0;
    std::size_t next = 0;
    for (; state_ && queued < nbytes; next = 1 - next) {
      settle(next);
      if (!state_) break;
      const auto chunk = staging_.chunk(next).first(std::min(detail::Staging::chunk_bytes, nbytes - queued));
      const auto read = io::read_exact(extent, queued, chunk, backend);
      const std::size_t got = read ? chunk.size() : static_cast<std::size_t>(read.error().done().value_or(0));
      if (got != 0) queue(next, dest, queued, chunk.first(got));
      queued += got;
      if (state_ && !read) state_ = fail(read.error());
    }
    settle(next);  // the older one first
    settle(1 - next);
    if (!state_) return fail(Error(state_.error()).asking(nbytes).after(arrived_));
    return DiskCopy{.buffered = nbytes};
  }

  [[nodiscard]] bool settled() const noexcept { return settled_; }

 private:
  void queue(std::size_t i, detail::Place dest, std::size_t at, std::span<const std::byte> bytes) {
    const Driver& driver = context_.driver;
    const std::byte* const host = dest.host != nullptr ? dest.host + at : nullptr;
    std::size_t queued = 0;
    state_ = detail::in_pieces(host, nullptr, bytes.size(), [&](std::size_t offset, std::size_t nbytes) {
      auto copied = context_.check(
          driver.memcpy_htod_async(dest.address + at + offset, bytes.data() + offset, nbytes, stream_),
          "cuMemcpyHtoDAsync");
      if (copied) queued += nbytes;
      return copied;
    });
    if (queued == 0) return;
    if (state_) {
      under_way_[i] = bytes.size();
      state_ = context_.check(driver.event_record(staging_.event(i), stream_), "cuEventRecord");
      if (state_) return;
    }
    // No event tells of this copy: the stream does.
    under_way_[i] = 0;
    settled_ = context_.told(driver.stream_synchronize(stream_), "cuStreamSynchronize");
  }

  // Waits for the copy out of a chunk.
  void settle(std::size_t i) {
    const std::size_t nbytes = std::exchange(under_way_[i], 0);
    if (nbytes == 0) return;
    const auto waited =
        context_.check(context_.driver.event_synchronize(staging_.event(i)), "cuEventSynchronize");
    if (!waited) {
      settled_ = !context_.lost() &&
                 context_.told(context_.driver.stream_synchronize(stream_), "cuStreamSynchronize");
      if (state_) state_ = waited;
    }
    in_place_ = in_place_ && waited.has_value();
    if (in_place_) arrived_ += nbytes;
  }

  const detail::Context& context_;
  const detail::Staging& staging_;
  const abi::Stream stream_;
  std::array<std::size_t, 2> under_way_{};  // bytes out of each chunk
  std::size_t arrived_ = 0;
  bool in_place_ = true;  // whether every copy so far was
  bool settled_ = true;
  Result<void> state_;
};

}  // namespace

Result<DiskCopy> Allocator::copy_from_disk(const CudaBuffer& dest, const FileExtent& extent,
                                           std::size_t nbytes) {
  const detail::Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  if (auto inside = checks::access(dest, nbytes, 0, instance_->info, call); !inside)
    return fail(inside.error());
  if (auto inside = io::check_extent(extent, nbytes, 0, backend, call); !inside) return fail(inside.error());
  if (nbytes == 0) return DiskCopy{};
  if (auto unmapped = dest.block_->check_access(dest.address(), nbytes, true, call); !unmapped)
    return fail(unmapped.error());
  const detail::Current current(context);
  if (!current.entered()) return fail(current.entered().error());

  auto staging = instance_->staging->take();
  if (!staging) {
    auto made = detail::Staging::make(instance_->context);
    if (!made) return fail(made.error());
    staging = std::move(*made);
  }
  StagedRead read(context, *staging, stream_);
  auto copied = read.run({dest.address(), dest.host_data()}, extent, nbytes);
  if (copied && staging->pinned()) {
    instance_->staging->put(std::move(staging));
  } else if (!read.settled()) {
    staging->keep();
  }
  return copied;
}

Result<DiskCopy> Allocator::load(std::span<const LoadRange<CudaBuffer>> ranges, const LoadOptions& options) {
  if (auto usable = instance_->context->usable("load"); !usable) return fail(usable.error());
  return io::load(*this, ranges, options);
}

}  // namespace berth::inline BERTH_ABI::cuda
