// SPDX-License-Identifier: MIT
// The table of what each event does to a vector at each location, checked on whatever device a rig offers,
// whether the vector is attached or has copies. One place for all drivers: the calls are the same, and so
// must the results be.
#pragma once

#include <berth/host_ptr/host_ptr.hpp>
#include <berth/vector/launch.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"

/// Long runs of one value, in few words.
template <class T>
std::string in_runs(const std::vector<T>& values) {
  std::string text;
  for (std::size_t first = 0, last = 0; first < values.size() && text.size() < 200; first = last) {
    while (last < values.size() && values[last] == values[first]) ++last;
    text += std::to_string(last - first) + " x " + std::to_string(values[first]) + ", ";
  }
  return text;
}
template <>
struct Catch::StringMaker<std::vector<std::uint8_t>> {
  static std::string convert(const std::vector<std::uint8_t>& values) { return in_runs(values); }
};
template <>
struct Catch::StringMaker<std::vector<std::int32_t>> {
  static std::string convert(const std::vector<std::int32_t>& values) { return in_runs(values); }
};

namespace state_table {

using berth::BigArray;
using berth::Location;
using berth::Vector;
using berth::device::Device;
using State = Location::State;
using Bytes = Vector<std::uint8_t>;

/// "ok", or the sentence.
template <class T>
std::string message(const berth::host_ptr::HostPtrResult<T>& result) {
  return result ? "ok" : berth::host_ptr::error_message(result.error());
}
using ::message;

constexpr std::size_t size = 4096;

/// What the table needs of a device. All work goes through the buffer, none through the host's array.
struct Rig {
  Device first;
  Device second;
  /// Gives the vector what the rig is about: a link, or nothing for a vector with copies.
  std::function<void(Bytes&, const Device&)> attach;
  /// A link over memory that the device uses itself: there are no two versions to tell apart.
  bool shared = false;

  /// Waited for: the host may write to shared memory afterwards.
  static void device_writes(Bytes& vector, const Device& device, unsigned value) {
    berth::Buffer* const buffer = vector.buffer(device);
    REQUIRE(buffer != nullptr);
    REQUIRE(message(buffer->fill(static_cast<std::byte>(value))) == "ok");
    REQUIRE(message(device.synchronize()) == "ok");
  }
  /// A copy beside the host's array: aliased memory proves nothing.
  static std::vector<std::uint8_t> device_sees(Bytes& vector, const Device& device) {
    std::vector<std::uint8_t> seen(vector.nbytes());
    const berth::Buffer* const buffer = vector.buffer(device);
    REQUIRE(buffer != nullptr);
    REQUIRE(message(buffer->copyout(std::as_writable_bytes(std::span(seen)))) == "ok");
    return seen;
  }
};

inline std::vector<std::uint8_t> all(unsigned value) {
  return std::vector<std::uint8_t>(size, static_cast<std::uint8_t>(value));
}

/// An array, a vector over it, and what the host's array holds, read past the vector.
struct Subject {
  explicit Subject(const Rig& rig)
      : array(*BigArray<std::uint8_t>::create(size)), vector(Bytes::over(array)) {
    std::ranges::fill(array.writable_elements(), std::uint8_t{1});
    if (rig.attach) rig.attach(vector, rig.first);
  }
  [[nodiscard]] std::vector<std::uint8_t> host_sees() const {
    return {array.elements().begin(), array.elements().end()};
  }
  /// Past the vector, which is not told.
  void host_writes(unsigned value) const {
    std::ranges::fill(array.writable_elements(), static_cast<std::uint8_t>(value));
  }

  BigArray<std::uint8_t> array;
  Bytes vector;
};

/// Brings the vector to a state at the rig's first device. The host then holds 1, or 3 where it is newer; the
/// device 1, or 2 where it is newer.
inline void bring(const Rig& rig, Bytes& vector, State state) {
  switch (state) {
    case State::cpu:
      REQUIRE(message(vector.free_all_buffers()) == "ok");
      break;
    case State::gpu: {
      auto launch = launching(rig.first, out(vector));
      REQUIRE(message(launch) == "ok");
      Rig::device_writes(vector, rig.first, 2);
      launch->done();
      break;
    }
    case State::both:
      REQUIRE(message(vector.to_device(rig.first)) == "ok");
      break;
    case State::stale_cpu: {
      auto launch = launching(rig.first, inout(vector));
      REQUIRE(message(launch) == "ok");
      Rig::device_writes(vector, rig.first, 2);
      launch->done();
      break;
    }
    case State::stale_gpu:
      REQUIRE(message(vector.to_device(rig.first)) == "ok");
      REQUIRE(message(vector.fill(3)) == "ok");
      break;
  }
  REQUIRE(vector.location().state == state);
}

/// What there is afterwards: -1 stands for "not compared".
struct After {
  State state;
  int host;
  int device;
};

struct Event {
  const char* name;
  std::function<void(const Rig&, Subject&)> run;
  /// From CPU, GPU, Both, Stale_CPU, Stale_GPU.
  std::array<After, 5> after;
  bool on_second = false;     ///< the location then names the second device, and `device` is of that one
  bool two_versions = false;  ///< the row tells two versions apart, which shared memory has not
};

constexpr std::array states{State::cpu, State::gpu, State::both, State::stale_cpu, State::stale_gpu};

inline std::vector<Event> events() {
  using enum Location::State;
  const auto ok = [](const auto& result) { REQUIRE(message(result) == "ok"); };
  const auto set_first = [=](Subject& subject) {
    ok(subject.vector.set(0, 9));
    const auto rest = subject.host_sees();
    CHECK(rest.front() == 9);
    CHECK(std::count(rest.begin() + 1, rest.end(), rest[1]) == static_cast<std::ptrdiff_t>(size - 1));
    std::ranges::fill(subject.array.writable_elements().first(1), rest[1]);
  };
  return {
      {"to_device",
       [=](const Rig& rig, Subject& subject) { ok(subject.vector.to_device(rig.first)); },
       {{{both, 1, 1}, {gpu, -1, 2}, {both, 1, 1}, {stale_cpu, -1, 2}, {both, 3, 3}}}},
      {"to_device elsewhere",
       [=](const Rig& rig, Subject& subject) { ok(subject.vector.to_device(rig.second)); },
       {{{both, 1, 1}, {both, 2, 2}, {both, 1, 1}, {both, 2, 2}, {both, 3, 3}}},
       true},
      {"to_host",
       [=](const Rig&, Subject& subject) { ok(subject.vector.to_host()); },
       {{{cpu, 1, -1}, {both, 2, 2}, {both, 1, 1}, {both, 2, 2}, {stale_gpu, 3, -1}}}},
      {"to_host at Both leaves what the device changed untold",
       [=](const Rig& rig, Subject& subject) {
         if (subject.vector.location().state == both) Rig::device_writes(subject.vector, rig.first, 7);
         ok(subject.vector.to_host());
       },
       {{{cpu, 1, -1}, {both, 2, 2}, {both, 1, 7}, {both, 2, 2}, {stale_gpu, 3, -1}}},
       false,
       true},
      {"to_host, forced",
       [=](const Rig& rig, Subject& subject) {
         if (subject.vector.location().state == both) Rig::device_writes(subject.vector, rig.first, 7);
         ok(subject.vector.to_host(true));
       },
       {{{cpu, 1, -1}, {both, 2, 2}, {both, 7, 7}, {both, 2, 2}, {stale_gpu, 3, -1}}}},
      {"a read",
       [=](const Rig&, Subject& subject) {
         const auto expected = subject.vector.location().state == stale_gpu   ? 3
                               : subject.vector.location().device_is_newest() ? 2
                                                                              : 1;
         CHECK(subject.vector.get(size - 1).value_or(99) == expected);
       },
       {{{cpu, 1, -1}, {both, 2, 2}, {both, 1, 1}, {both, 2, 2}, {stale_gpu, 3, -1}}}},
      {"a read with the vector's auto-sync off",
       [=](const Rig&, Subject& subject) {
         subject.vector.set_auto_sync(false);
         ok(subject.vector.read());
       },
       {{{cpu, 1, -1}, {gpu, 1, 2}, {both, 1, 1}, {stale_cpu, 1, 2}, {stale_gpu, 3, -1}}},
       false,
       true},
      {"a read with auto-sync off everywhere",
       [=](const Rig&, Subject& subject) {
         berth::set_auto_sync(false);
         const auto read = subject.vector.read();
         berth::set_auto_sync(true);
         ok(read);
       },
       {{{cpu, 1, -1}, {gpu, 1, 2}, {both, 1, 1}, {stale_cpu, 1, 2}, {stale_gpu, 3, -1}}},
       false,
       true},
      {"a write",
       [=](const Rig&, Subject& subject) { set_first(subject); },
       {{{cpu, 1, -1}, {stale_gpu, 2, -1}, {stale_gpu, 1, -1}, {stale_gpu, 2, -1}, {stale_gpu, 3, -1}}}},
      {"a write with auto-sync off",
       [=](const Rig&, Subject& subject) {
         subject.vector.set_auto_sync(false);
         set_first(subject);
       },
       {{{cpu, 1, -1}, {stale_gpu, 2, -1}, {stale_gpu, 1, -1}, {stale_gpu, 2, -1}, {stale_gpu, 3, -1}}}},
      {"fill",
       [=](const Rig&, Subject& subject) { ok(subject.vector.fill(9)); },
       {{{cpu, 9, -1}, {stale_gpu, 9, -1}, {stale_gpu, 9, -1}, {stale_gpu, 9, -1}, {stale_gpu, 9, -1}}}},
      {"sync",
       [=](const Rig&, Subject& subject) { ok(subject.vector.sync()); },
       {{{cpu, 1, -1}, {both, 2, 2}, {both, 1, 1}, {both, 2, 2}, {both, 3, 3}}}},
      {"free_buffer",
       [=](const Rig& rig, Subject& subject) {
         ok(subject.vector.free_buffer(rig.first));
         CHECK(subject.vector.buffer(rig.first) == nullptr);
       },
       {{{cpu, 1, -1}, {cpu, 2, -1}, {cpu, 1, -1}, {cpu, 2, -1}, {cpu, 3, -1}}}},
      {"free_buffer where there is none",
       [=](const Rig& rig, Subject& subject) { ok(subject.vector.free_buffer(rig.second)); },
       {{{cpu, 1, -1}, {gpu, -1, 2}, {both, 1, 1}, {stale_cpu, -1, 2}, {stale_gpu, 3, -1}}}},
      {"free_all_buffers",
       [=](const Rig&, Subject& subject) { ok(subject.vector.free_all_buffers()); },
       {{{cpu, 1, -1}, {cpu, 2, -1}, {cpu, 1, -1}, {cpu, 2, -1}, {cpu, 3, -1}}}},
      {"acquire_device_writes",
       [=](const Rig& rig, Subject& subject) {
         ok(berth::host_ptr::acquire_device_writes(subject.vector, rig.first));
       },
       {{{cpu, 1, -1}, {both, 2, 2}, {both, 1, 1}, {both, 2, 2}, {stale_gpu, 3, -1}}}},
      {"acquire_device_writes after work that was not announced",
       [=](const Rig& rig, Subject& subject) {
         if (subject.vector.location().state == both) Rig::device_writes(subject.vector, rig.first, 7);
         ok(berth::host_ptr::acquire_device_writes(subject.vector, rig.first));
       },
       {{{cpu, 1, -1}, {both, 2, 2}, {both, 7, 7}, {both, 2, 2}, {stale_gpu, 3, -1}}}},
      {"acquire_device_writes of another device",
       [=](const Rig& rig, Subject& subject) {
         ok(berth::host_ptr::acquire_device_writes(subject.vector, rig.second));
       },
       {{{cpu, 1, -1}, {gpu, -1, 2}, {both, 1, 1}, {stale_cpu, -1, 2}, {stale_gpu, 3, -1}}}},
      {"publish_host_writes",
       [=](const Rig& rig, Subject& subject) {
         ok(berth::host_ptr::publish_host_writes(subject.vector, rig.first));
       },
       {{{both, 1, 1}, {both, 1, 1}, {both, 1, 1}, {both, 1, 1}, {both, 3, 3}}},
       false,
       true},
      {"publish_host_writes of bytes written past the vector",
       [=](const Rig& rig, Subject& subject) {
         subject.host_writes(5);
         ok(berth::host_ptr::publish_host_writes(subject.vector, rig.first));
       },
       {{{both, 5, 5}, {both, 5, 5}, {both, 5, 5}, {both, 5, 5}, {both, 5, 5}}}},
      {"publish_host_writes elsewhere",
       [=](const Rig& rig, Subject& subject) {
         subject.host_writes(5);
         ok(berth::host_ptr::publish_host_writes(subject.vector, rig.second));
       },
       {{{both, 5, 5}, {both, 5, 5}, {both, 5, 5}, {both, 5, 5}, {both, 5, 5}}},
       true},
      {"a launch that reads",
       [=](const Rig& rig, Subject& subject) { ok(launching(rig.first, in(subject.vector))); },
       {{{both, 1, 1}, {gpu, -1, 2}, {both, 1, 1}, {stale_cpu, -1, 2}, {both, 3, 3}}}},
      {"a launch that reads and writes",
       [=](const Rig& rig, Subject& subject) {
         auto launch = launching(rig.first, inout(subject.vector));
         ok(launch);
         const auto seen = Rig::device_sees(subject.vector, rig.first);
         Rig::device_writes(subject.vector, rig.first, seen.front() + 10U);
       },
       {{{stale_cpu, -1, 11}, {gpu, -1, 12}, {stale_cpu, -1, 11}, {stale_cpu, -1, 12}, {stale_cpu, -1, 13}}}},
      {"a launch that writes",
       [=](const Rig& rig, Subject& subject) {
         auto launch = launching(rig.first, out(subject.vector));
         ok(launch);
         Rig::device_writes(subject.vector, rig.first, 20);
       },
       {{{gpu, -1, 20}, {gpu, -1, 20}, {gpu, -1, 20}, {gpu, -1, 20}, {gpu, -1, 20}}}},
      {"a launch that writes elsewhere",
       [=](const Rig& rig, Subject& subject) {
         auto launch = launching(rig.second, out(subject.vector));
         ok(launch);
         Rig::device_writes(subject.vector, rig.second, 20);
       },
       {{{gpu, -1, 20}, {gpu, -1, 20}, {gpu, -1, 20}, {gpu, -1, 20}, {gpu, -1, 20}}},
       true},
  };
}

/// Every event at every state, and that the newest bytes reach the host afterwards.
inline void check(const Rig& rig) {
  for (const Event& event : events()) {
    if (rig.shared && event.two_versions) continue;
    for (std::size_t i = 0; i < states.size(); ++i) {
      INFO(event.name << " at " << to_string(states[i]));
      Subject subject(rig);
      bring(rig, subject.vector, states[i]);
      event.run(rig, subject);
      const After& after = event.after[i];
      CHECK(to_string(subject.vector.location().state) == to_string(after.state));
      const Device& device = event.on_second ? rig.second : rig.first;
      CHECK(subject.vector.location().names(device) == (after.state != State::cpu));
      if (after.host >= 0) CHECK(subject.host_sees() == all(static_cast<unsigned>(after.host)));
      if (after.device >= 0)
        CHECK(Rig::device_sees(subject.vector, device) == all(static_cast<unsigned>(after.device)));

      const int newest = subject.vector.location().device_is_newest() ? after.device : after.host;
      REQUIRE(message(subject.vector.free_all_buffers()) == "ok");
      CHECK(subject.host_sees() == all(static_cast<unsigned>(newest)));
    }
  }
}

}  // namespace state_table
