// SPDX-License-Identifier: MIT
#pragma once

#include <fmt/format.h>
#include <berth/device/registry.hpp>
#include <berth/host_ptr/host_ptr.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench.hpp"
#include "stopwatch.hpp"
#include "text.hpp"

/// What it costs to keep a host array and a device in step: attached, by hand and with copies.
namespace berth::tool::host_ptr_sync {

using Array = BigArray<std::uint8_t>;
using Bytes = Vector<std::uint8_t>;

inline constexpr std::array<std::size_t, 6> sizes{std::size_t{4} << 10U,   std::size_t{64} << 10U,
                                                  std::size_t{1} << 20U,   std::size_t{16} << 20U,
                                                  std::size_t{256} << 20U, std::size_t{1} << 30U};
// Above it a copy takes longer than anybody wants to wait, and says nothing new.
inline constexpr std::size_t largest_copy = std::size_t{256} << 20U;
inline constexpr unsigned most_runs = 301;
inline constexpr Nanoseconds enough = std::chrono::milliseconds(150);

/// The median of many calls in microseconds, or of the few that fit in the time; the first complaint ends it.
Outcome<double> time(auto call) {
  std::vector<double> times;
  const Stopwatch whole;
  while (times.size() < 3 || (times.size() < most_runs && whole.elapsed() < enough)) {
    const Stopwatch stopwatch;
    if (auto done = call(); !done) return complain(done.error());
    times.push_back(static_cast<double>(stopwatch.elapsed().count()) / 1000.0);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::ranges::nth_element(times, middle);
  return *middle;
}

inline Outcome<void> plain(const host_ptr::HostPtrResult<void>& result) {
  if (!result) return complain(host_ptr::error_message(result.error()));
  return {};
}

inline Outcome<void> publish_and_acquire(Bytes& vector, const device::Device& device) {
  if (auto out = plain(host_ptr::publish_host_writes(vector, device)); !out) return out;
  return plain(host_ptr::acquire_device_writes(vector, device));
}

/// `ByHand(allocator, array)` does what a careful program does without berth, for as long as it lives:
/// `publish_and_acquire()`. `Typed` is the device's allocator, `peer` names the program.
template <class Typed, class ByHand>
class Comparison {
 public:
  Comparison(const device::Device& device, const char* peer)
      : device_(device),
        peer_(peer),
        peer_version_(fmt::format("on {}", device.name())),
        allocator_(*device.allocator().template unpack<Typed>()) {}

  Outcome<void> measure(std::size_t nbytes) {
    auto array = Array::create(nbytes);
    if (!array) return complain(array.error());
    const std::string size = binary_size(nbytes);
    // One link at a time over the same memory.
    {
      auto vector = host_ptr::of_bigarray(device_, uint8, *array);
      if (!vector) return complain(host_ptr::error_message(vector.error()));
      const auto link = host_ptr::host_link(*vector, device_);
      const auto us = time([&] { return publish_and_acquire(*vector, device_); });
      if (!us) return complain(us.error());
      own(fmt::format("attached, {}, {}", to_string(link->kind), size), *us);
      attached_.push_back(*us);
    }
    {
      const ByHand program(allocator_, *array);
      const auto us = time([&] { return program.publish_and_acquire(); });
      if (!us) return complain(us.error());
      peer(fmt::format("by hand, {}", size), *us);
      by_hand_.push_back(*us);
    }
    if (nbytes > largest_copy) return {};
    auto copies = Bytes::over(*array);
    if (auto there = copies.to_device(device_); !there) return complain(there.error());
    const auto us = time([&] { return publish_and_acquire(copies, device_); });
    if (!us) return complain(us.error());
    own(fmt::format("copies, {}", size), *us);
    return {};
  }

  [[nodiscard]] std::vector<BenchRow> rows() {
    const auto spread = [](const std::vector<double>& times) {
      return std::ranges::max(times) / std::ranges::min(times);
    };
    if (!attached_.empty()) {
      rows_.push_back({"attached, slowest over fastest size", spread(attached_), "x", "", berth_version()});
      rows_.push_back({"by hand, slowest over fastest size", spread(by_hand_), "x", peer_, peer_version_});
    }
    return std::move(rows_);
  }

 private:
  void own(std::string what, double us) { rows_.push_back({std::move(what), us, "us", "", berth_version()}); }
  void peer(std::string what, double us) {
    rows_.push_back({std::move(what), us, "us", peer_, peer_version_});
  }

  const device::Device& device_;
  const char* peer_;
  std::string peer_version_;
  Typed allocator_;
  std::vector<double> attached_;
  std::vector<double> by_hand_;
  std::vector<BenchRow> rows_;
};

/// All sizes, on the first device of a framework.
template <class Typed, class ByHand>
Outcome<std::vector<BenchRow>> compare(const std::shared_ptr<device::Framework>& framework, const char* peer,
                                       const BenchProgress& progress) {
  if (auto known = device::register_framework(framework); !known) return complain(known.error());
  const auto devices = framework->devices();
  if (!devices) return complain(devices.error());
  const device::Device& device = devices->front();
  Comparison<Typed, ByHand> comparison(device, peer);
  unsigned run = 0;
  for (const std::size_t nbytes : sizes) {
    progress(++run, static_cast<unsigned>(sizes.size()));
    if (nbytes > device.allocator().info().max_bytes) continue;
    if (auto measured = comparison.measure(nbytes); !measured) return complain(measured.error());
  }
  return comparison.rows();
}

}  // namespace berth::tool::host_ptr_sync
