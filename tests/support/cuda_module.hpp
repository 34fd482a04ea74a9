// SPDX-License-Identifier: MIT
// Kernels of the user's own, from PTX.
#pragma once

#include "support/cuda_fixture.hpp"

namespace native {

/// A module of the user's in a user's context.
class Module {
 public:
  Module(abi::Context context, const char* ptx) : context_(context) {
    const Entered entered(context);
    REQUIRE_CUDA(driver().module_load_data(&module_, ptx));
  }
  ~Module() {
    if (driver().ctx_push_current(context_) != abi::success) return;
    driver().module_unload(module_);
    abi::Context popped = nullptr;
    driver().ctx_pop_current(&popped);
  }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  [[nodiscard]] abi::Context context() const noexcept { return context_; }
  [[nodiscard]] abi::Function function(const char* name) const {
    const Entered entered(context_);
    abi::Function found = nullptr;
    REQUIRE_CUDA(driver().module_get_function(&found, module_, name));
    return found;
  }

 private:
  abi::Context context_;
  abi::Module module_ = nullptr;
};

/// A kernel that writes where no memory is, which the process's contexts do not survive; the fake driver
/// faults without it.
inline void run_wild(Machine& machine, abi::Context context, abi::Stream stream) {
  if (machine.fake()) return machine->fault(stream);
  const Module module(context, R"(.version 6.0
.target sm_50
.address_size 64

.visible .entry wild()
{
  .reg .b64 %at;
  .reg .b32 %value;
  mov.u64 %at, 16;
  mov.u32 %value, 1;
  st.global.u32 [%at], %value;
  ret;
}
)");
  const abi::Function wild = module.function("wild");
  const Entered entered(context);
  REQUIRE_CUDA(driver().launch_kernel(wild, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  driver().stream_synchronize(stream);  // the module may go when the kernel has ended
}

}  // namespace native
