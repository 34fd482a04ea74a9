// SPDX-License-Identifier: MIT
// The CUDA driver of a test, used natively beside berth: the fake one, or, where BERTH_CUDA_DRIVER is "real",
// the machine's own. A program that cannot have the one it is told to use is skipped.
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/cuda/discovery.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "support/bytes.hpp"
#include "support/catch.hpp"
#include "support/fake_cuda.hpp"
#include "support/outcome.hpp"
#include "support/scale.hpp"
#include "support/skip.hpp"

namespace native {

namespace abi = berth::cuda::abi;
using berth::cuda::CudaBuffer;

/// Whether the machine's own driver is under test.
inline bool real() {
  const char* const which = std::getenv("BERTH_CUDA_DRIVER");
  return which != nullptr && std::string_view(which) == "real";
}

/// The real driver. Skips the program when it is not there. The first device's primary context is kept:
/// making it takes longer than most tests.
inline const berth::cuda::Driver& real_driver() {
  const auto found = berth::cuda::driver();
  if (!found) skip_program(found.error().message().c_str());
  abi::Context primary = nullptr;
  (*found)->device_primary_ctx_retain(&primary, 0);
  return **found;
}

/// The driver under test.
inline const berth::cuda::Driver& driver() {
  if (!real()) return fake_cuda::Machine::driver();
  static const berth::cuda::Driver& found = real_driver();
  return found;
}

/// The options with which allocators are made here. BERTH_CUDA_CHUNK_BYTES has them register in chunks.
inline berth::cuda::Options options() {
  berth::cuda::Options options{.driver = &driver()};
  if (const char* const chunk = std::getenv("BERTH_CUDA_CHUNK_BYTES"))
    options.registration_chunk_bytes = std::strtoull(chunk, nullptr, 10);
  return options;
}

/// The machine that fixtures make by themselves. Where BERTH_CUDA_DRIVER is "pageable" its devices reach any
/// page of the host's.
inline fake_cuda::Config two_devices() {
  const char* const which = std::getenv("BERTH_CUDA_DRIVER");
  const bool pageable = which != nullptr && std::string_view(which) == "pageable";
  return {.devices = 2, .pageable_memory_access = pageable};
}

/// The machine of a test: a fresh fake one, or the real one. Declare it first.
class Machine {
 public:
  explicit Machine(const fake_cuda::Config& config = {}) {
    if (!real()) fake_.emplace(config);
    REQUIRE(native::driver().init(0) == abi::success);
  }
  ~Machine() {
    if (!fake_ || !checks_) return;
    CHECK(fake_->violations() == "");
    CHECK(fake_->balance() == fake_cuda::Balance{});
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// For a test whose driver refuses to take something back: it looks at the end itself.
  void leave_unchecked() noexcept { checks_ = false; }
  [[nodiscard]] bool fake() const noexcept { return fake_.has_value(); }
  [[nodiscard]] fake_cuda::Machine* operator->() noexcept { return &*fake_; }
  [[nodiscard]] static int devices() {
    int count = 0;
    REQUIRE(native::driver().device_get_count(&count) == abi::success);
    return count;
  }

 private:
  std::optional<fake_cuda::Machine> fake_;
  bool checks_ = true;
};

/// Success of a native call.
#define REQUIRE_CUDA(call) REQUIRE((call) == native::abi::success)

/// A context that the user made, not current anywhere.
class Context {
 public:
  explicit Context(int ordinal = 0) {
    REQUIRE_CUDA(driver().ctx_create(&handle_, 0, ordinal));
    abi::Context popped = nullptr;
    REQUIRE_CUDA(driver().ctx_pop_current(&popped));
  }
  Context(Context&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  ~Context() {
    if (handle_ != nullptr) driver().ctx_destroy(handle_);
  }
  operator abi::Context() const noexcept { return handle_; }
  /// Gives it up without destroying it.
  abi::Context give() noexcept { return std::exchange(handle_, nullptr); }

 private:
  abi::Context handle_ = nullptr;
};

/// Makes a context current for a scope.
class Entered {
 public:
  explicit Entered(abi::Context context) { REQUIRE_CUDA(driver().ctx_push_current(context)); }
  ~Entered() {
    abi::Context popped = nullptr;
    driver().ctx_pop_current(&popped);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
};

/// A stream that the user made.
class Stream {
 public:
  explicit Stream(abi::Context context) : context_(context) {
    const Entered entered(context);
    REQUIRE_CUDA(driver().stream_create(&handle_, abi::stream_non_blocking));
  }
  Stream(Stream&& other) noexcept
      : context_(other.context_), handle_(std::exchange(other.handle_, nullptr)) {}
  ~Stream() {
    if (handle_ == nullptr || driver().ctx_push_current(context_) != abi::success) return;
    driver().stream_destroy(handle_);
    abi::Context popped = nullptr;
    driver().ctx_pop_current(&popped);
  }
  operator abi::Stream() const noexcept { return handle_; }
  abi::Stream give() noexcept { return std::exchange(handle_, nullptr); }

 private:
  abi::Context context_;
  abi::Stream handle_ = nullptr;
};

/// A user's own context and stream, and an allocator that borrowed them.
struct Borrowed {
  explicit Borrowed(int ordinal = 0) : context(ordinal), stream(context), allocator(made()) { warm_up(); }

  [[nodiscard]] Stream another_stream() const { return Stream(context); }

  Context context;
  Stream stream;
  berth::cuda::Allocator allocator;

 private:
  [[nodiscard]] berth::cuda::Allocator made() const {
    auto allocator = berth::cuda::Allocator::borrow(context, stream, options());
    REQUIRE(message(allocator) == "ok");
    return *allocator;
  }
  // The real driver loads its own kernels at their first use, and waits for the whole context then: not while
  // a gate is closed.
  void warm_up() {
    auto a = allocator.alloc(16, {.zero = true});
    auto b = allocator.alloc(16);
    REQUIRE(message(a) == "ok");
    REQUIRE(message(b) == "ok");
    REQUIRE(message(allocator.transfer(*b, *a, 16)) == "ok");
    REQUIRE(all(content(allocator, *b), 0));
    allocator.free(*a, 16, {.zero = true});
    allocator.free(*b, 16);
  }
};

/// Holds streams of one context back: what is queued behind `close(stream)` starts only after `open()`. Opens
/// when it goes, so that a test that fails does not hang; declare it after what the queued work uses.
class Gate {
 public:
  explicit Gate(abi::Context context) : context_(context) {
    const Entered entered(context);
    void* memory = nullptr;
    REQUIRE_CUDA(driver().mem_host_alloc(&memory, sizeof *word_,
                                         abi::memhostalloc_portable | abi::memhostalloc_devicemap));
    word_ = static_cast<std::uint32_t*>(memory);
    *word_ = 0;
    REQUIRE_CUDA(driver().mem_host_get_device_pointer(&address_, memory, 0));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    open();
    if (driver().ctx_push_current(context_) != abi::success) return;
    driver().ctx_synchronize();
    driver().mem_free_host(word_);
    abi::Context popped = nullptr;
    driver().ctx_pop_current(&popped);
  }
  void close(abi::Stream stream) const {
    const Entered entered(context_);
    REQUIRE_CUDA(driver().stream_wait_value32(stream, address_, 1, abi::stream_wait_value_geq));
  }
  void open() noexcept { std::atomic_ref(*word_).store(1, std::memory_order_release); }

 private:
  abi::Context context_;
  std::uint32_t* word_ = nullptr;
  abi::DevicePtr address_ = 0;
};

/// Whether the stream holds work that has not run.
inline bool pending(abi::Context context, abi::Stream stream) {
  const Entered entered(context);
  const abi::Status status = driver().stream_query(stream);
  REQUIRE((status == abi::success || status == abi::not_ready));
  return status == abi::not_ready;
}

}  // namespace native
