// SPDX-License-Identifier: MIT
#pragma once

#include "query.hpp"

namespace berth::inline BERTH_ABI::opencl {

/// Waits until a command is done; the error with which it ended, if any. Asks the event itself, too: NVIDIA's
/// driver (580.159.04) lets a wait for a failed command succeed.
[[nodiscard]] inline Result<void> wait_for(cl_event event, Doing doing) noexcept {
  const cl_int waited = clWaitForEvents(1, &event);
  const auto status = query<cl_int>(event, CL_EVENT_COMMAND_EXECUTION_STATUS);
  if (status && *status < 0) return check(*status, "clWaitForEvents", doing);
  if (waited == CL_SUCCESS && !status) return fail(status.error());
  return check(waited, "clWaitForEvents", doing);
}

}  // namespace berth::inline BERTH_ABI::opencl
