// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/packed_buffer.hpp>
#include <berth/testing/context.hpp>

#include <concepts>

/// Laws of whose buffer it is.
namespace berth::inline BERTH_ABI::testing::laws {

template <Allocator A>
void buffers_of_another_instance(Context<A>& t) {
  A& a = t.allocator();
  auto other = t.another();
  if (!t.expect(other, "a second allocator")) return;
  if (other->info().instance == a.info().instance)
    return t.skipped("the factory gives the same instance again");
  auto foreign = other->alloc(256, BufferSpec{});
  if (!t.expect(foreign, "alloc of the second allocator")) return;
  t.expect(foreign->instance() == other->info().instance, "a buffer names its instance");
  const auto expected = pattern(256, 1);
  t.expect(other->copyin(*foreign, expected), "copyin of its own");

  std::vector<std::byte> bytes(256);
  t.expect_error(a.copyin(*foreign, bytes), Errc::wrong_allocator, "copyin");
  t.expect_error(a.copyout(bytes, *foreign), Errc::wrong_allocator, "copyout");
  t.expect_error(a.addr(*foreign), Errc::wrong_allocator, "addr");
  if constexpr (OffsetAllocator<A>) {
    if (a.supports_offset()) t.expect_error(a.offset(*foreign, 1, 0), Errc::wrong_allocator, "offset");
  }
  if constexpr (FillAllocator<A>) {
    if (a.supports_fill()) t.expect_error(a.fill(*foreign, std::byte{}), Errc::wrong_allocator, "fill");
  }
  if constexpr (MappableAllocator<A>) {
    if (a.supports_map()) t.expect_error(a.map(*foreign, Access::read, 1, 0), Errc::wrong_allocator, "map");
  }
  if constexpr (TransferAllocator<A>) {
    if (a.supports_transfer()) {
      if (const auto own = t.alloc(256)) {
        t.expect_error(a.transfer(*foreign, own->buf(), 256), Errc::wrong_allocator,
                       "transfer to a foreign buffer");
      }
    }
  }
  if constexpr (std::copy_constructible<buffer_t<A>>) {
    const SinkCapture sink;
    a.free(buffer_t<A>(*foreign), 256, BufferSpec{});
    t.expect(sink.only(Errc::wrong_allocator), "freeing a foreign buffer is reported to the sink, once");
  }
  std::vector<std::byte> seen(256);
  t.expect(other->copyout(seen, *foreign), "the foreign buffer is alive");
  t.expect(seen == expected, "the foreign buffer is unchanged");
  other->free(std::move(*foreign), 256, BufferSpec{});
}

/// A buffer of no backend that exists.
struct StrangeBuffer {
  [[nodiscard]] std::size_t nbytes() const noexcept { return 16; }
  [[nodiscard]] InstanceId instance() const noexcept { return {}; }
  [[nodiscard]] bool is_view() const noexcept { return false; }
};

template <Allocator A>
void buffers_of_another_backend(Context<A>& t) {
  if constexpr (!std::same_as<buffer_t<A>, PackedBuffer>) {
    t.skipped("the types rule it out");
  } else {
    A& a = t.allocator();
    const PackedBuffer strange{StrangeBuffer{}};
    std::vector<std::byte> bytes(16);
    t.expect_error(a.copyin(strange, bytes), Errc::wrong_backend, "copyin");
    t.expect_error(a.copyout(bytes, strange), Errc::wrong_backend, "copyout");
    t.expect_error(a.addr(strange), Errc::wrong_backend, "addr");
    if (a.supports_offset()) t.expect_error(a.offset(strange, 1, 0), Errc::wrong_backend, "offset");
    if (a.supports_fill()) t.expect_error(a.fill(strange, std::byte{}), Errc::wrong_backend, "fill");
    if (a.supports_map()) t.expect_error(a.map(strange, Access::read, 1, 0), Errc::wrong_backend, "map");
    if (a.supports_transfer()) {
      if (const auto own = t.alloc(16)) {
        t.expect_error(a.transfer(own->buf(), strange, 16), Errc::wrong_backend, "transfer from it");
        t.expect_error(a.transfer(strange, own->buf(), 16), Errc::wrong_backend, "transfer to it");
      }
    }
    const SinkCapture sink;
    a.free(PackedBuffer{StrangeBuffer{}}, 16, BufferSpec{});
    t.expect(sink.only(Errc::wrong_backend), "freeing it is reported to the sink, once");
  }
}

}  // namespace berth::inline BERTH_ABI::testing::laws
