// SPDX-License-Identifier: MIT
#pragma once

#include <berth/cuda/allocator.hpp>

#include "../outcome.hpp"

/// The driver used natively, beside berth.
namespace berth::tool {

/// Success, or the complaint that names the call. `call` is the entry point, a literal.
[[nodiscard]] inline Outcome<void> check(const cuda::Driver& driver, cuda::abi::Status status,
                                         const char* call) {
  if (status == cuda::abi::success) return {};
  const char* name = nullptr;
  driver.get_error_name(status, &name);
  return complain(Error(Errc::driver, "cuda").in(call).with_status(status, name != nullptr ? name : ""));
}

/// Makes an allocator's context current for a scope.
class [[nodiscard]] InContext {
 public:
  explicit InContext(const cuda::Allocator& allocator) noexcept
      : driver_(allocator.driver()),
        pushed_(driver_.ctx_push_current(allocator.context()) == cuda::abi::success) {}
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  ~InContext() {
    cuda::abi::Context popped = nullptr;
    if (pushed_) driver_.ctx_pop_current(&popped);
  }
  explicit operator bool() const noexcept { return pushed_; }

 private:
  const cuda::Driver& driver_;
  bool pushed_;
};

}  // namespace berth::tool
