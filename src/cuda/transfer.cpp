// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/cuda/allocator.hpp>

#include <optional>

#include "block.hpp"
#include "registration.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

using detail::Context;
using detail::Current;

/// A stream of an instance.
struct Place {
  const detail::Instance& instance;
  const Context& context;
  abi::Stream stream;
};

// Later work at `later` comes after what the stream of `earlier` holds now.
Result<void> follow(const Place& later, const Place& earlier) {
  const HoldReports held;
  detail::Order& order = earlier.instance.order;
  const MutexLock lock(order.mutex);
  const Context& context = earlier.context;
  const Current current(context);
  if (!current.entered()) return current.entered();
  if (order.event.get() == nullptr) {
    auto made = detail::OwnedEvent::make(context);
    if (!made) return fail(made.error());
    order.event = std::move(*made);
  }
  if (auto recorded =
          context.check(context.driver.event_record(order.event.get(), earlier.stream), "cuEventRecord");
      !recorded) {
    return recorded;
  }
  std::optional<Current> then;
  if (later.context.handle != context.handle && !then.emplace(later.context).entered()) {
    return then->entered();
  }
  return later.context.check(context.driver.stream_wait_event(later.stream, order.event.get(), 0),
                             "cuStreamWaitEvent");
}

}  // namespace

Result<void> Allocator::transfer(const CudaBuffer& dest, const CudaBuffer& src, std::size_t nbytes) {
  constexpr const char* call = "transfer";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return usable;
  if (auto inside = checks::access(dest, nbytes, 0, instance_->info, call); !inside) return inside;
  if (auto inside = checks::range(nbytes, 0, src.nbytes(), backend, call); !inside) return inside;
  if (nbytes == 0) return {};
  const detail::Instance& from = src.block_->instance;
  if (&from.context->driver != &context.driver) {
    return fail(Error(Errc::wrong_allocator, backend)
                    .in(call)
                    .asking(nbytes)
                    .because("the source is of another driver"));
  }
  if (auto usable = from.context->usable(call); !usable) return usable;
  if (checks::overlapping(dest.address(), src.address(), nbytes)) {
    return fail(Error(Errc::overlap, backend).in(call).asking(nbytes).at(src.address()).limited_to(nbytes));
  }
  if (auto unmapped = src.block_->check_access(src.address(), nbytes, false, call); !unmapped)
    return unmapped;
  if (auto unmapped = dest.block_->check_access(dest.address(), nbytes, true, call); !unmapped)
    return unmapped;

  const Driver& driver = context.driver;
  const Place here{*instance_, context, stream_};
  const Place there{from, *from.context, from.stream};
  const bool one_context = there.context.handle == context.handle;
  const auto in_pieces = [&](auto copy) {
    return detail::in_pieces(dest.host_data(), src.host_data(), nbytes, copy);
  };
  const auto on_device = [&](const Place& by) {
    return in_pieces([&](std::size_t at, std::size_t size) {
      return by.context.check(
          driver.memcpy_dtod_async(dest.address() + at, src.address() + at, size, by.stream),
          "cuMemcpyDtoDAsync");
    });
  };
  // Ordered on the stream of the source's instance too. Handles of one instance are ordered by whoever made
  // them, with record and wait.
  if (&from == instance_.get() || (one_context && there.stream == stream_)) {
    const Current current(context);
    if (!current.entered()) return current.entered();
    return on_device(here);
  }

  // cuMemcpyPeerAsync is for device memory. Pinned memory is everybody's: the side that has the device memory
  // copies.
  const bool to_host = !one_context && src.host_data() == nullptr && dest.host_data() != nullptr;
  const Place& copying = to_host ? there : here;
  const Place& other = to_host ? here : there;
  const auto copy = [&] {
    const Context& by = copying.context;
    if (one_context) return on_device(copying);
    if (to_host) {
      return in_pieces([&](std::size_t at, std::size_t size) {
        return by.check(
            driver.memcpy_dtoh_async(dest.host_data() + at, src.address() + at, size, copying.stream),
            "cuMemcpyDtoHAsync");
      });
    }
    if (src.host_data() != nullptr) {
      return in_pieces([&](std::size_t at, std::size_t size) {
        return by.check(
            driver.memcpy_htod_async(dest.address() + at, src.host_data() + at, size, copying.stream),
            "cuMemcpyHtoDAsync");
      });
    }
    static_cast<void>(by.reaches(other.context));  // without, the driver stages
    return by.check(driver.memcpy_peer_async(dest.address(), by.handle, src.address(), other.context.handle,
                                             nbytes, copying.stream),
                    "cuMemcpyPeerAsync");
  };
  if (auto ready = follow(copying, other); !ready) return ready;
  const Current current(copying.context);
  if (!current.entered()) return current.entered();
  auto copied = copy();
  auto ordered = follow(other, copying);  // after a failure too: some pieces may be under way
  // Nothing orders the other stream after the copy: the copy ends here.
  if (!ordered && !copying.context.lost()) {
    copying.context.told(driver.stream_synchronize(copying.stream), "cuStreamSynchronize");
  }
  return copied ? ordered : copied;
}

}  // namespace berth::inline BERTH_ABI::cuda
