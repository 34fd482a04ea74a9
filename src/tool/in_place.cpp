// SPDX-License-Identifier: MIT
#include "in_place.hpp"

#include <berth/host_ptr/host_ptr.hpp>
#include <berth/vector/launch.hpp>

#include <utility>

namespace berth::tool {
namespace {

using Bytes = Vector<std::uint8_t>;

bool moves_nothing(device::LinkKind kind) noexcept {
  return kind != device::LinkKind::separate && kind != device::LinkKind::shadow;
}

}  // namespace

Outcome<void> count_in_place(const device::Device& device, const InputFile& file, std::uint64_t offset,
                             std::uint64_t nbytes, Histogram& histogram, StepTimes& times,
                             InPlaceTour& tour) {
  std::optional<Bytes> attached;
  {
    const TimedStep timed(times, Step::attach);
    auto mapped = file.map(offset, nbytes);
    if (!mapped) return complain(mapped.error());
    const auto array = BigArray<std::uint8_t>::read_only(mapped->bytes, std::move(mapped->owner));
    // A piece may start anywhere; nobody writes to it, so nothing is written past it either.
    auto vector = host_ptr::of_bigarray(device, uint8, array, {.lenient = true});
    if (!vector) {
      const bool refused = !std::holds_alternative<Error>(vector.error());
      if (!refused) return complain(host_ptr::error_message(vector.error()));
      tour.refused = host_ptr::error_message(vector.error());
      return {};
    }
    attached = std::move(*vector);
    tour.link = host_ptr::host_link(*attached, device);
  }
  {
    const TimedStep timed(times, Step::count_in_place);
    auto launch = launching(device, in(*attached));
    if (!launch) return complain(launch.error());
    if (auto ran = histogram.run(*attached->buffer(device)); !ran) return ran;
  }
  const auto counts = histogram.take();
  if (!counts) return complain(counts.error());
  tour.counts += *counts;
  if (moves_nothing(tour.link->kind)) tour.bytes_not_moved += nbytes;

  const TimedStep timed(times, Step::attach);
  if (auto detached = host_ptr::detach(*attached, device); !detached) {
    return complain(host_ptr::error_message(detached.error()));
  }
  return {};
}

}  // namespace berth::tool
