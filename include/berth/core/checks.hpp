// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/allocator.hpp>
#include <berth/core/diagnostics.hpp>

/// The checks that every backend owes before its driver sees a call. For authors of backends.
namespace berth::inline BERTH_ABI::checks {

/// `wrong_allocator` unless `buf` is of this instance.
template <BufferHandle Buf>
[[nodiscard]] Result<void> own(const Buf& buf, const AllocatorInfo& info, const char* call) noexcept {
  if (buf.instance() == info.instance) return {};
  return fail(
      Error(Errc::wrong_allocator, info.backend).in(call).because("the buffer is of another instance"));
}

/// `out_of_range` unless [byte_offset, byte_offset + nbytes) lies within `available` bytes. Cannot wrap.
[[nodiscard]] inline Result<void> range(std::uint64_t nbytes, std::uint64_t byte_offset,
                                        std::uint64_t available, const char* backend,
                                        const char* call) noexcept {
  if (byte_offset <= available && nbytes <= available - byte_offset) return {};
  return fail(
      Error(Errc::out_of_range, backend).in(call).asking(nbytes).at(byte_offset).limited_to(available));
}

/// `own`, then `range` against the buffer or view itself.
template <BufferHandle Buf>
[[nodiscard]] Result<void> access(const Buf& buf, std::size_t nbytes, std::size_t byte_offset,
                                  const AllocatorInfo& info, const char* call) noexcept {
  if (auto owned = own(buf, info, call); !owned) return owned;
  return range(nbytes, byte_offset, buf.nbytes(), info.backend, call);
}

/// True when `buf` may be freed by this instance: a root allocation of its own. Else reports why not to the
/// sink.
template <BufferHandle Buf>
[[nodiscard]] bool freeable(const Buf& buf, const AllocatorInfo& info) noexcept {
  if (buf.instance() != info.instance) {
    report(Error(Errc::wrong_allocator, info.backend)
               .in("free")
               .asking(buf.nbytes())
               .because("the buffer is of another instance; left alone"));
    return false;
  }
  if (buf.is_view()) {
    report(Error(Errc::invalid_argument, info.backend)
               .in("free")
               .asking(buf.nbytes())
               .because("a view owns nothing; left alone"));
    return false;
  }
  return true;
}

/// Whether two runs of `nbytes` share a byte. Cannot wrap.
[[nodiscard]] constexpr bool overlapping(std::uint64_t a, std::uint64_t b, std::uint64_t nbytes) noexcept {
  return a < b ? b - a < nbytes : a - b < nbytes;
}

}  // namespace berth::inline BERTH_ABI::checks
