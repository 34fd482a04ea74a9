// SPDX-License-Identifier: MIT
// Buffers as the driver knows them: taken from the caller, and given to kernels.
#include <berth/core/checks.hpp>
#include <berth/core/process.hpp>
#include <berth/opencl/allocator.hpp>

#include <new>

#include "address.hpp"
#include "block.hpp"
#include "query.hpp"

namespace berth::inline BERTH_ABI::opencl {

Result<ClBuffer> Allocator::take(cl_mem mem, bool retain) {
  const char* const call = retain ? "borrow" : "adopt";
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const Error invalid = Error(Errc::invalid_argument, backend).in(call);
  if (mem == nullptr) return fail(Error(invalid).because("the cl_mem is null"));
  const auto type = query<cl_mem_object_type>(mem, CL_MEM_TYPE);
  if (!type) return fail(type.error());
  if (*type != CL_MEM_OBJECT_BUFFER) return fail(Error(invalid).because("the cl_mem is not a buffer"));
  const auto own = query<cl_context>(mem, CL_MEM_CONTEXT);
  if (!own) return fail(own.error());
  if (*own != context()) return fail(Error(invalid).because("the cl_mem is of another context"));
  const auto nbytes = query<std::size_t>(mem, CL_MEM_SIZE);
  if (!nbytes) return fail(nbytes.error());
  const auto parent = query<cl_mem>(mem, CL_MEM_ASSOCIATED_MEMOBJECT);
  if (!parent) return fail(parent.error());

  std::size_t origin = 0;
  std::size_t root_bytes = *nbytes;
  if (*parent != nullptr) {
    const auto offset = query<std::size_t>(mem, CL_MEM_OFFSET);
    if (!offset) return fail(offset.error());
    const auto size = query<std::size_t>(*parent, CL_MEM_SIZE);
    if (!size) return fail(size.error());
    origin = *offset;
    root_bytes = *size;
  }
  auto root = Handle<cl_mem>::borrow(*parent != nullptr ? *parent : mem);
  if (!root) return fail(root.error());
  Handle<cl_mem> sub_buffer;
  if (*parent != nullptr) {
    auto own = Handle<cl_mem>::borrow(mem);
    if (!own) return fail(own.error());
    sub_buffer = std::move(*own);
  }
  auto* block = new (std::nothrow) detail::Block(*instance_, std::move(*root), root_bytes, nullptr);
  if (block == nullptr)
    return fail(Error(Errc::out_of_memory, "host").in(call).asking(sizeof(detail::Block)));
  if (sub_buffer) block->keep(origin, *nbytes, std::move(sub_buffer));
  if (!retain) release(mem);
  return ClBuffer(block, origin, *nbytes, instance_->id, false, true);
}

Result<ClBuffer> Allocator::adopt(cl_mem mem) { return take(mem, false); }
Result<ClBuffer> Allocator::borrow(cl_mem mem) { return take(mem, true); }

Result<cl_mem> Allocator::sub_buffer(const ClBuffer& buf, std::size_t origin, std::size_t nbytes) {
  if (origin == 0 && nbytes == buf.block_->nbytes) return buf.root();
  return buf.block_->sub_buffer(origin, nbytes);
}

Result<ClBuffer> Allocator::carve(const ClBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto inside = checks::access(buf, nbytes, byte_offset, info(), "carve"); !inside)
    return fail(inside.error());
  if (nbytes == 0) return ClBuffer(nullptr, 0, 0, instance_->id, false, false);
  if (buf.block_->parent != nullptr) {
    return fail(
        Error(Errc::unsupported, backend).in("carve").asking(nbytes).because("the buffer is carved itself"));
  }
  const std::size_t origin = buf.byte_offset() + byte_offset;
  if (origin % instance_->base_alignment != 0) {
    return fail(Error(Errc::misaligned, backend)
                    .in("carve")
                    .asking(nbytes)
                    .at(origin)
                    .limited_to(instance_->base_alignment));
  }
  auto mem = detail::make_sub_buffer(buf.root(), origin, nbytes);
  if (!mem) return fail(mem.error());
  auto* block = new (std::nothrow) detail::Block(*buf.block_, std::move(*mem), nbytes);
  if (block == nullptr)
    return fail(Error(Errc::out_of_memory, "host").in("carve").asking(sizeof(detail::Block)));
  return ClBuffer(block, 0, nbytes, instance_->id, false, true);
}

Result<KernelArg> Allocator::kernel_arg(const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "kernel_arg"); !owned) return fail(owned.error());
  if (buf.nbytes() == 0) return KernelArg{};
  if (buf.byte_offset() == 0 || buf.block_->parent != nullptr)
    return KernelArg{buf.root(), buf.byte_offset()};
  const std::size_t residual = buf.byte_offset() % instance_->base_alignment;
  const auto mem = sub_buffer(buf, buf.byte_offset() - residual, residual + buf.nbytes());
  if (!mem) return fail(mem.error());
  return KernelArg{*mem, residual};
}

Result<cl_mem> Allocator::exact_arg(const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "exact_arg"); !owned) return fail(owned.error());
  if (buf.nbytes() == 0) return cl_mem{nullptr};
  if (buf.block_->parent != nullptr && buf.nbytes() != buf.block_->nbytes) {
    return fail(Error(Errc::unsupported, backend)
                    .in("exact_arg")
                    .asking(buf.nbytes())
                    .at(buf.byte_offset())
                    .because("the buffer is a part of a carved block"));
  }
  if (buf.byte_offset() % instance_->base_alignment != 0) {
    return fail(Error(Errc::misaligned, backend)
                    .in("exact_arg")
                    .asking(buf.nbytes())
                    .at(buf.byte_offset())
                    .limited_to(instance_->base_alignment));
  }
  return sub_buffer(buf, buf.byte_offset(), buf.nbytes());
}

Result<std::uintptr_t> Allocator::addr(const ClBuffer& buf) {
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  if (auto owned = checks::own(buf, info(), "addr"); !owned) return fail(owned.error());
  if (buf.nbytes() == 0) return 0;
  const auto root = device_address(*instance_, buf.root());
  if (!root) return fail(root.error());
  return *root + buf.byte_offset();
}

}  // namespace berth::inline BERTH_ABI::opencl
