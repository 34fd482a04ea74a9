// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>
#include <berth/cuda/allocator.hpp>

#include "block.hpp"
#include "copy.hpp"
#include "map.hpp"

namespace berth::inline BERTH_ABI::cuda {

using detail::Context;
using detail::Current;

Result<void> Allocator::copyin(const CudaBuffer& buf, std::span<const std::byte> src) {
  constexpr const char* call = "copyin";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return usable;
  if (auto inside = checks::access(buf, src.size(), 0, instance_->info, call); !inside) return inside;
  if (src.empty()) return {};
  if (auto unmapped = buf.block_->check_access(buf.address(), src.size(), true, call); !unmapped)
    return unmapped;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return detail::copy_in(context, stream_, {buf.address(), buf.host_data()}, src);
}

Result<void> Allocator::copyout(std::span<std::byte> dst, const CudaBuffer& buf) {
  constexpr const char* call = "copyout";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return usable;
  if (auto inside = checks::access(buf, dst.size(), 0, instance_->info, call); !inside) return inside;
  if (dst.empty()) return {};
  if (auto unmapped = buf.block_->check_access(buf.address(), dst.size(), false, call); !unmapped)
    return unmapped;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return detail::copy_out(context, stream_, dst, {buf.address(), buf.host_data()});
}

Result<void> Allocator::fill(const CudaBuffer& buf, std::byte value) {
  constexpr const char* call = "fill";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return usable;
  if (auto owned = checks::own(buf, instance_->info, call); !owned) return owned;
  if (buf.nbytes() == 0) return {};
  if (auto unmapped = buf.block_->check_access(buf.address(), buf.nbytes(), true, call); !unmapped)
    return unmapped;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return detail::in_pieces(
      buf.host_data(), nullptr, buf.nbytes(), [&](std::size_t byte_offset, std::size_t nbytes) {
        return context.check(
            context.driver.memset_d8_async(buf.address() + byte_offset, std::to_integer<unsigned char>(value),
                                           nbytes, stream_),
            "cuMemsetD8Async");
      });
}

Result<Mapping> Allocator::map(const CudaBuffer& buf, Access access, std::size_t nbytes,
                               std::size_t byte_offset) {
  constexpr const char* call = "map";
  const Context& context = *instance_->context;
  if (auto usable = context.usable(call); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, instance_->info, call); !inside)
    return fail(inside.error());
  if (nbytes == 0) return Mapping();
  if (auto free = buf.block_->check_access(buf.address() + byte_offset, nbytes, access != Access::read, call);
      !free) {
    return fail(free.error());
  }
  const Current current(context);
  if (!current.entered()) return fail(current.entered().error());
  const abi::DevicePtr address = buf.address() + byte_offset;
  if (buf.host_data() != nullptr) return detail::map_in_place(*buf.block_, stream_, address, nbytes, access);
  return detail::map_copy(*buf.block_, stream_, address, nbytes, access);
}

}  // namespace berth::inline BERTH_ABI::cuda
