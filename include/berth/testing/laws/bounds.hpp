// SPDX-License-Identifier: MIT
#pragma once

#include <berth/testing/context.hpp>

#include <limits>

/// Laws of bounds: checked against the buffer or view, before a driver sees them.
namespace berth::inline BERTH_ABI::testing::laws {

template <Allocator A>
void copies_are_prefixes(Context<A>& t) {
  A& a = t.allocator();
  auto expected = pattern(1000, 1);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  const auto part = pattern(321, 2);
  t.expect(a.copyin(lease->buf(), part), "copyin of a prefix");
  std::ranges::copy(part, expected.begin());
  t.expect_holds(lease->buf(), expected, "the rest is untouched");

  std::vector<std::byte> larger(1001, std::byte{0xAB});
  const auto too_much = a.copyin(lease->buf(), larger);
  if (t.expect_error(too_much, Errc::out_of_range, "copyin of one byte too many")) {
    t.expect(too_much.error().asked() == 1001 && too_much.error().limit() == 1000,
             "the error has the numbers");
  }
  t.expect_holds(lease->buf(), expected, "a refused copyin writes nothing");
  t.expect_error(a.copyout(larger, lease->buf()), Errc::out_of_range, "copyout of one byte too many");
  t.expect(std::ranges::all_of(larger, [](std::byte b) { return b == std::byte{0xAB}; }),
           "a refused copyout writes nothing");
}

template <OffsetAllocator A>
void view_bounds(Context<A>& t) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  A& a = t.allocator();
  const auto expected = pattern(1000, 3);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  struct Bad {
    std::size_t nbytes, byte_offset;
  };
  for (const Bad bad : {Bad{1001, 0}, Bad{1, 1000}, Bad{0, 1001}, Bad{most, 0}, Bad{most, 1}, Bad{1, most},
                        Bad{most, most}, Bad{500, 501}, Bad{most - 999, 999}}) {
    t.expect_error(a.offset(lease->buf(), bad.nbytes, bad.byte_offset), Errc::out_of_range,
                   "a view beyond the buffer");
  }
  const auto view = a.offset(lease->buf(), 100, 200);
  if (!t.expect(view, "a view")) return;
  std::vector<std::byte> larger(101, std::byte{0xCD});
  const auto too_much = a.copyin(*view, larger);
  if (t.expect_error(too_much, Errc::out_of_range, "copyin beyond the view, within the buffer")) {
    t.expect(too_much.error().limit() == 100, "the limit is the view's, not the buffer's");
  }
  t.expect_error(a.copyout(larger, *view), Errc::out_of_range, "copyout beyond the view, within the buffer");
  t.expect_error(a.offset(*view, 101, 0), Errc::out_of_range, "a view beyond its view, within the buffer");
  t.expect_error(a.offset(*view, 1, 100), Errc::out_of_range, "a view after its view, within the buffer");
  t.expect_holds(lease->buf(), expected, "refused copies write nothing");
}

}  // namespace berth::inline BERTH_ABI::testing::laws
