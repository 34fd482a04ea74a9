// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/core/diagnostics.hpp>
#include <berth/core/mutex.hpp>
#include <berth/testing/report.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

namespace berth::inline BERTH_ABI::testing {

/// Bytes that differ from their neighbours and from those of another `salt`.
[[nodiscard]] inline std::vector<std::byte> pattern(std::size_t nbytes, std::uint32_t salt) {
  std::vector<std::byte> bytes(nbytes);
  std::uint32_t state = salt * 2654435761U + 1U;
  for (std::byte& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(state >> 24U);
  }
  return bytes;
}

/// An allocation that is freed at the end of its scope.
template <Allocator A>
class Lease {
 public:
  Lease(A& allocator, buffer_t<A> buf, std::size_t nbytes, const BufferSpec& spec) noexcept
      : allocator_(&allocator), buf_(std::move(buf)), nbytes_(nbytes), spec_(spec) {}
  Lease(Lease&& other) noexcept
      : allocator_(std::exchange(other.allocator_, nullptr)),
        buf_(std::move(other.buf_)),
        nbytes_(other.nbytes_),
        spec_(other.spec_) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease() { free(); }

  void free() noexcept {
    if (A* allocator = std::exchange(allocator_, nullptr)) allocator->free(std::move(buf_), nbytes_, spec_);
  }
  [[nodiscard]] const buffer_t<A>& buf() const noexcept { return buf_; }
  [[nodiscard]] std::size_t nbytes() const noexcept { return nbytes_; }

 private:
  A* allocator_;
  buffer_t<A> buf_;
  std::size_t nbytes_;
  BufferSpec spec_;
};

/// Collects what is reported to the process-wide sink during a scope.
class SinkCapture {
 public:
  SinkCapture() {
    set_diagnostic_sink(
        [](const Error& error, void* context) noexcept {
          auto& self = *static_cast<SinkCapture*>(context);
          const MutexLock lock(self.mutex_);
          self.errors_.push_back(error);
        },
        this);
  }
  SinkCapture(const SinkCapture&) = delete;
  SinkCapture& operator=(const SinkCapture&) = delete;
  ~SinkCapture() { set_diagnostic_sink(nullptr); }

  [[nodiscard]] std::vector<Error> errors() const {
    const MutexLock lock(mutex_);
    return errors_;
  }
  [[nodiscard]] bool only(Errc code) const {
    const auto seen = errors();
    return seen.size() == 1 && seen.front().code() == code;
  }

 private:
  mutable Mutex mutex_;
  std::vector<Error> errors_ BERTH_GUARDED_BY(mutex_);
};

/// What a law is given: allocators to try, a place to say what failed, and shorthands that say it.
template <Allocator A>
class Context {
 public:
  using Buf = buffer_t<A>;

  Context(const std::function<Result<A>()>& make, const CheckOptions& options)
      : options(options), make_(make) {
    if (auto allocator = make_()) {
      first_.emplace(std::move(*allocator));
    } else {
      failed("the allocator cannot be made: " + allocator.error().message());
    }
  }

  /// Whether there is an allocator to try.
  [[nodiscard]] bool ready() const noexcept { return first_.has_value(); }
  /// The allocator under test.
  [[nodiscard]] A& allocator() noexcept { return *first_; }
  /// Another one of the same kind.
  [[nodiscard]] Result<A> another() { return make_(); }

  bool expect(bool holds, std::string_view what,
              std::source_location where = std::source_location::current()) {
    if (!holds) failed(std::string(what), where);
    return holds;
  }
  template <class T>
  bool expect(const Result<T>& done, std::string_view what,
              std::source_location where = std::source_location::current()) {
    if (!done) failed(std::string(what) + ": " + done.error().message(), where);
    return done.has_value();
  }
  template <class T>
  bool expect_error(const Result<T>& done, Errc code, std::string_view what,
                    std::source_location where = std::source_location::current()) {
    if (!done && done.error().code() == code) return true;
    failed(std::string(what) + ": expected " + std::string(to_string(code)) + ", got " +
               (done ? std::string("success") : done.error().message()),
           where);
    return false;
  }
  void failed(std::string what, std::source_location where = std::source_location::current()) {
    const MutexLock lock(mutex_);
    if (!failure_.empty()) return;
    std::string_view file = where.file_name();
    file.remove_prefix(std::min(file.size(), file.rfind('/') + 1));
    failure_ = std::move(what) + " (" + std::string(file) + ":" + std::to_string(where.line()) + ")";
  }
  void skipped(std::string why) {
    const MutexLock lock(mutex_);
    skip_ = std::move(why);
  }

  /// An allocation; the failure is noted when there is none.
  [[nodiscard]] std::optional<Lease<A>> alloc(std::size_t nbytes, const BufferSpec& spec = {},
                                              std::source_location where = std::source_location::current()) {
    auto buf = allocator().alloc(nbytes, spec);
    if (!expect(buf, "alloc of " + std::to_string(nbytes) + " bytes", where)) return std::nullopt;
    return std::optional<Lease<A>>(std::in_place, allocator(), std::move(*buf), nbytes, spec);
  }
  /// An allocation that holds `bytes`.
  [[nodiscard]] std::optional<Lease<A>> alloc_with(
      std::span<const std::byte> bytes, const BufferSpec& spec = {},
      std::source_location where = std::source_location::current()) {
    auto lease = alloc(bytes.size(), spec, where);
    if (lease && !expect(allocator().copyin(lease->buf(), bytes), "copyin", where)) return std::nullopt;
    return lease;
  }
  bool expect_holds(const Buf& buf, std::span<const std::byte> bytes, std::string_view what,
                    std::source_location where = std::source_location::current()) {
    std::vector<std::byte> seen(bytes.size(), std::byte{0xEE});
    if (!expect(allocator().copyout(seen, buf), "copyout", where)) return false;
    const auto wrong = std::ranges::mismatch(seen, bytes).in1;
    if (wrong == seen.end()) return true;
    failed(std::string(what) + ": byte " + std::to_string(wrong - seen.begin()) + " of " +
               std::to_string(seen.size()) + " differs",
           where);
    return false;
  }
  /// `count` scaled by the options, at least 1.
  [[nodiscard]] std::size_t scaled(std::size_t count) const {
    return std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(count) * options.scale));
  }

  [[nodiscard]] LawResult result(std::string_view law) const {
    const MutexLock lock(mutex_);
    if (!failure_.empty()) return {law, Verdict::fail, failure_};
    if (!skip_.empty()) return {law, Verdict::skip, skip_};
    return {law, Verdict::pass, {}};
  }

  const CheckOptions& options;

 private:
  const std::function<Result<A>()>& make_;
  std::optional<A> first_;
  mutable Mutex mutex_;
  std::string failure_ BERTH_GUARDED_BY(mutex_);
  std::string skip_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth::inline BERTH_ABI::testing
