// SPDX-License-Identifier: MIT
#include "map_copy.hpp"

#include <new>

#include "copy.hpp"

namespace berth::inline BERTH_ABI::cuda::detail {
namespace {

struct Live {
  Block* block;
  abi::Stream stream;
  abi::DevicePtr address;
  bool writes;
};

Result<void> write_back(const Live& live, std::span<const std::byte> bytes) noexcept {
  const Context& context = *live.block->instance.context;
  if (auto usable = context.usable("unmap"); !usable) return usable;
  const Current current(context);
  if (!current.entered()) return current.entered();
  return copy_in(context, live.stream, {live.address, nullptr}, bytes);
}

Result<void> unmap(const Live& live, std::span<std::byte> bytes) noexcept {
  Result<void> written;
  if (live.writes && process::may_release()) written = write_back(live, bytes);
  delete[] bytes.data();
  if (process::forked()) return {};
  live.block->maps.end(static_cast<std::size_t>(live.address - live.block->memory.address), bytes.size());
  live.block->release();
  return written;
}

}  // namespace

Result<Mapping> map_copy(Block& block, abi::Stream stream, abi::DevicePtr address, std::size_t nbytes,
                         Access access) {
  const auto byte_offset = static_cast<std::size_t>(address - block.memory.address);
  const bool writes = access != Access::read;
  if (!block.maps.begin(byte_offset, nbytes, writes)) {
    return fail(Error(Errc::mapped, backend).in("map").asking(nbytes).at(byte_offset));
  }
  const auto give_up = [&](const Error& error) {
    block.maps.end(byte_offset, nbytes);
    return fail(error);
  };
  std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[nbytes]);
  if (!bytes) return give_up(Error(Errc::out_of_memory, "host").in("map").asking(nbytes));
  if (access != Access::overwrite) {
    if (auto read =
            copy_out(*block.instance.context, stream, std::span(bytes.get(), nbytes), {address, nullptr});
        !read) {
      return give_up(Error(read.error()).asking(nbytes).at(byte_offset));
    }
  }
  block.retain();
  return Mapping(std::span(bytes.release(), nbytes), Live{&block, stream, address, writes}, &unmap);
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
