// SPDX-License-Identifier: MIT
// NVIDIA's driver without a GPU: the same table of entry points, with real semantics over host memory. Work
// on streams runs as late as it may: when somebody waits for it, or asks after it. Device addresses are no
// host addresses: whoever mixes them up is killed.
#pragma once

#include <berth/cuda/driver.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fake_cuda {

namespace abi = berth::cuda::abi;

/// What a machine is like.
struct Config {
  int devices = 1;
  std::size_t total_bytes = std::size_t{16} << 30U;  ///< of each device
  std::size_t pinned_bytes = SIZE_MAX;               ///< that the host can pin, registered memory included
  bool peers = true;                                 ///< devices can reach each other's memory
  bool integrated = false;
  bool pageable_memory_access = false;
  bool pageable_copies = true;  ///< and the driver copies such memory, which some do not
  bool host_register = true;
  bool read_only_host_register = true;
  std::size_t max_registration_bytes = SIZE_MAX;  ///< that one call takes
  bool scattered_registrations = false;           ///< seen by the device at addresses of their own
};

/// What is alive.
struct Balance {
  std::size_t primary_references = 0;
  std::size_t contexts = 0;  ///< of cuCtxCreate
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t allocations = 0;
  std::size_t pinned = 0;
  std::size_t registered = 0;
  std::size_t modules = 0;
  std::size_t reservations = 0;
  std::size_t handles = 0;
  std::size_t mappings = 0;

  friend bool operator==(const Balance&, const Balance&) = default;
};

/// Which calls fail: from number `nth` (from 1) on, `times` of them, of one symbol or (empty) of all.
struct Failure {
  std::string symbol;
  std::uint64_t nth = 1;
  std::uint64_t times = 1;
  abi::Status status = abi::out_of_memory;
};

/// A launch of a kernel: its arguments, by value.
struct Launch {
  std::vector<std::vector<std::byte>> args;

  template <class T>
  [[nodiscard]] T arg(std::size_t i) const {
    T value{};
    std::memcpy(&value, args.at(i).data(), sizeof value);
    return value;
  }
};

struct State;

/// The machine behind the table. One at a time.
class Machine {
 public:
  explicit Machine(const Config& config = {});
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();

  /// The table of the newest machine, which outlives it. Each has one of its own: a fault ends with the
  /// driver.
  [[nodiscard]] static const berth::cuda::Driver& driver();

  // Failures.
  void fail(const Failure& failure);
  /// Besides those that are to fail already.
  void also_fail(const Failure& failure);
  void disarm();
  /// Calls since the last `reset`, and which of them failed on demand.
  [[nodiscard]] std::uint64_t calls() const;
  [[nodiscard]] std::uint64_t calls(const std::string& symbol) const;
  [[nodiscard]] std::uint64_t failed() const;
  [[nodiscard]] std::string last_failed() const;
  void reset();
  /// A fault in `stream`, when it gets there: from then on every call of the process fails.
  void fault(abi::Stream stream, abi::Status status = abi::illegal_address);

  /// Gives all pinned memory back: what berth keeps on purpose is no leak.
  void forget_pinned();

  // What was done.
  [[nodiscard]] Balance balance() const;
  /// Uses of the interface that no driver promises to survive: a line each.
  [[nodiscard]] std::string violations() const;
  [[nodiscard]] std::size_t peer_copies() const;    ///< straight from device to device
  [[nodiscard]] std::size_t staged_copies() const;  ///< between devices without peer access
  [[nodiscard]] unsigned host_flags(const void* memory) const;
  [[nodiscard]] unsigned stream_flags(abi::Stream stream) const;
  [[nodiscard]] std::size_t free_bytes(int device = 0) const;
  /// Whether the stream holds work.
  [[nodiscard]] bool busy(abi::Stream stream) const;

  /// The host's view of device memory.
  [[nodiscard]] static std::byte* bytes(abi::DevicePtr address);

  /// A kernel that any module has, by the sizes of its arguments.
  void add_kernel(const std::string& name, std::vector<std::size_t> arg_bytes,
                  std::function<void(const Launch&)> body);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace fake_cuda
