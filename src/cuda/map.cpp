// SPDX-License-Identifier: MIT
#include "map.hpp"

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

void give_back(const Live& live, std::size_t nbytes) noexcept {
  live.block->maps.end(static_cast<std::size_t>(live.address - live.block->memory.address), nbytes);
  live.block->release();
}

Result<void> unmap(const Live& live, std::span<std::byte> bytes) noexcept {
  Result<void> written;
  if (live.writes && process::may_release()) written = write_back(live, bytes);
  delete[] bytes.data();
  if (process::forked()) return {};
  give_back(live, bytes.size());
  return written;
}

Result<void> unmap_in_place(const Live& live, std::span<std::byte> bytes) noexcept {
  if (!process::forked()) give_back(live, bytes.size());
  return {};
}

// `mapped` when another map is in the way.
Result<void> enter(Block& block, std::size_t byte_offset, std::size_t nbytes, Access access) {
  if (block.maps.begin(byte_offset, nbytes, access != Access::read)) return {};
  return fail(Error(Errc::mapped, backend).in("map").asking(nbytes).at(byte_offset));
}

}  // namespace

Result<Mapping> map_copy(Block& block, abi::Stream stream, abi::DevicePtr address, std::size_t nbytes,
                         Access access) {
  const auto byte_offset = static_cast<std::size_t>(address - block.memory.address);
  if (auto entered = enter(block, byte_offset, nbytes, access); !entered) return fail(entered.error());
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
  const bool writes = access != Access::read;
  return Mapping(std::span(bytes.release(), nbytes), Live{&block, stream, address, writes}, &unmap);
}

Result<Mapping> map_in_place(Block& block, abi::Stream stream, abi::DevicePtr address, std::size_t nbytes,
                             Access access) {
  const Context& context = *block.instance.context;
  const auto byte_offset = static_cast<std::size_t>(address - block.memory.address);
  if (auto entered = enter(block, byte_offset, nbytes, access); !entered) return fail(entered.error());
  if (auto idle = context.check(context.driver.stream_synchronize(stream), "cuStreamSynchronize"); !idle) {
    block.maps.end(byte_offset, nbytes);
    return fail(idle.error());
  }
  block.retain();
  return Mapping(std::span(block.memory.host + byte_offset, nbytes), Live{&block, stream, address, false},
                 &unmap_in_place);
}

}  // namespace berth::inline BERTH_ABI::cuda::detail
