// SPDX-License-Identifier: MIT
#pragma once

#include <berth/testing/context.hpp>

/// Laws of views.
namespace berth::inline BERTH_ABI::testing::laws {

template <OffsetAllocator A>
void views_at_any_offset(Context<A>& t) {
  A& a = t.allocator();
  auto expected = pattern(2000, 1);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  for (std::size_t byte_offset = 0; byte_offset <= 600; byte_offset += byte_offset < 140 ? 1 : 23) {
    const std::size_t nbytes = 1 + byte_offset % 61;
    const auto view = a.offset(lease->buf(), nbytes, byte_offset);
    if (!t.expect(view, "a view at byte " + std::to_string(byte_offset))) return;
    t.expect(view->nbytes() == nbytes && view->is_view(), "a view knows its size and that it is one");
    t.expect(view->instance() == lease->buf().instance(), "a view is of its root's instance");
    t.expect_holds(*view, std::span(expected).subspan(byte_offset, nbytes),
                   "a view shows the buffer's bytes");
    const auto part = pattern(nbytes, static_cast<std::uint32_t>(byte_offset + 2));
    t.expect(a.copyin(*view, part), "copyin through a view");
    std::ranges::copy(part, expected.begin() + static_cast<std::ptrdiff_t>(byte_offset));
  }
  t.expect_holds(lease->buf(), expected, "writes through views touch their own bytes only");
}

template <OffsetAllocator A>
void views_of_views(Context<A>& t) {
  A& a = t.allocator();
  const auto expected = pattern(4096, 9);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  const auto outer = a.offset(lease->buf(), 3000, 501);
  if (!t.expect(outer, "a view")) return;
  const auto inner = a.offset(*outer, 1000, 700);
  if (!t.expect(inner, "a view of a view")) return;
  const auto innermost = a.offset(*inner, 10, 990);
  if (!t.expect(innermost, "a view of a view of a view")) return;
  t.expect_holds(*inner, std::span(expected).subspan(1201, 1000), "offsets add up");
  t.expect_holds(*innermost, std::span(expected).subspan(2191, 10), "offsets add up again");
  if (const auto base = a.addr(lease->buf())) {
    const auto address = a.addr(*innermost);
    if (t.expect(address, "addr of a view"))
      t.expect(*address == *base + 2191, "a view's address is base plus offset");
  }
  const auto whole = a.offset(lease->buf(), 4096, 0);
  if (t.expect(whole, "a view of everything"))
    t.expect(whole->is_view(), "a view of everything is still a view");
  const auto none = a.offset(*inner, 0, 1000);
  if (t.expect(none, "an empty view at the end")) {
    t.expect(a.copyin(*none, {}), "copyin of 0 bytes to an empty view");
    t.expect_error(a.copyin(*none, std::vector<std::byte>(1)), Errc::out_of_range,
                   "copyin of a byte to an empty view");
  }
}

template <OffsetAllocator A>
void freeing_a_view_does_nothing(Context<A>& t) {
  A& a = t.allocator();
  const auto expected = pattern(512, 4);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  for (const std::size_t byte_offset : {std::size_t{0}, std::size_t{100}}) {
    const std::size_t nbytes = byte_offset == 0 ? 512 : 50;
    auto view = a.offset(lease->buf(), nbytes, byte_offset);
    if (!t.expect(view, "a view")) return;
    const SinkCapture sink;
    a.free(std::move(*view), nbytes, BufferSpec{});
    t.expect(sink.only(Errc::invalid_argument), "freeing a view is reported to the sink, once");
  }
  t.expect_holds(lease->buf(), expected, "the root is alive after its view was freed");
}

}  // namespace berth::inline BERTH_ABI::testing::laws
