// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "stopwatch.hpp"

namespace berth::tool {

/// What the tour does on a device, in the order of its table.
enum class Step : std::uint8_t {
  set_up,          ///< opening the device, compiling the kernel, memory of the host
  allocate,        ///< device memory
  load,            ///< the file's bytes to the device
  count,           ///< the histogram on the device
  device_to_host,  ///< copyout
  read_file,       ///< once more, into host memory, to compare with
  compare,         ///< the bytes that came back with the file's
  whole,           ///< all of the above but the set-up
  attach,          ///< of the mapped file, and its detach; without a copy
  count_in_place,  ///< the histogram on the device over the file's own pages
  host_count,      ///< the histogram on the host, a pass of its own
};

inline constexpr std::size_t step_count = static_cast<std::size_t>(Step::host_count) + 1;

/// The step's name in JSON.
[[nodiscard]] constexpr const char* key(Step step) noexcept {
  switch (step) {
    case Step::set_up:
      return "set_up";
    case Step::allocate:
      return "allocate";
    case Step::load:
      return "load";
    case Step::count:
      return "kernel";
    case Step::device_to_host:
      return "device_to_host";
    case Step::read_file:
      return "read_file";
    case Step::compare:
      return "compare";
    case Step::whole:
      return "whole";
    case Step::attach:
      return "attach";
    case Step::count_in_place:
      return "kernel_in_place";
    case Step::host_count:
      return "host_histogram";
  }
  return "";
}

/// The step's name for a person.
[[nodiscard]] constexpr const char* label(Step step) noexcept {
  switch (step) {
    case Step::set_up:
      return "set up";
    case Step::allocate:
      return "allocate";
    case Step::load:
      return "file to device";
    case Step::count:
      return "histogram";
    case Step::device_to_host:
      return "device to host";
    case Step::read_file:
      return "read file to compare";
    case Step::compare:
      return "compare bytes";
    case Step::whole:
      return "whole, after set up";
    case Step::attach:
      return "attach, without a copy";
    case Step::count_in_place:
      return "histogram in place";
    case Step::host_count:
      return "host histogram, apart";
  }
  return "";
}

/// Whether the step handles the file's bytes, so that a rate means something.
[[nodiscard]] constexpr bool moves_bytes(Step step) noexcept {
  return step != Step::set_up && step != Step::allocate && step != Step::attach;
}

/// Time spent in each step.
class StepTimes {
 public:
  [[nodiscard]] Nanoseconds& operator[](Step step) noexcept { return times_[static_cast<std::size_t>(step)]; }
  [[nodiscard]] Nanoseconds operator[](Step step) const noexcept {
    return times_[static_cast<std::size_t>(step)];
  }

 private:
  std::array<Nanoseconds, step_count> times_{};
};

/// Adds the time of a scope to a step.
class [[nodiscard]] TimedStep {
 public:
  TimedStep(StepTimes& times, Step step) noexcept : time_(times[step]) {}
  TimedStep(const TimedStep&) = delete;
  TimedStep& operator=(const TimedStep&) = delete;
  ~TimedStep() { time_ += stopwatch_.elapsed(); }

 private:
  Nanoseconds& time_;
  Stopwatch stopwatch_;
};

}  // namespace berth::tool
