// SPDX-License-Identifier: MIT
#include "stream.hpp"

#include "context.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {

Result<void> check_stream(const Context& context, abi::Stream stream, const char* call) {
  const Error invalid = Error(Errc::invalid_argument, backend).in(call);
  if (is_per_thread(stream)) {
    return fail(Error(invalid).because("the per-thread default stream is another queue on each host thread"));
  }
  if (is_default(stream)) return {};
  abi::Context own = nullptr;
  if (auto asked = context.check(context.driver.stream_get_ctx(stream, &own), "cuStreamGetCtx"); !asked) {
    return asked;
  }
  if (own != context.handle) return fail(Error(invalid).because("the stream is of another context"));
  return {};
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
