// SPDX-License-Identifier: MIT
#pragma once

namespace berth::tool {

/// Threads in a block of the kernel below: one for each byte value.
inline constexpr unsigned histogram_threads = 256;

/// A histogram of bytes in PTX, which every driver compiles for its own device: `histogram(bytes, nbytes,
/// totals)` adds how often each byte value occurs to 256 counters of 32 bits. The blocks take turns over the
/// bytes; each counts in shared memory and adds its sums in the end.
inline constexpr const char* histogram_ptx = R"(.version 6.0
.target sm_50
.address_size 64

.visible .entry histogram(.param .u64 bytes, .param .u64 nbytes, .param .u64 totals)
{
  .shared .align 4 .b32 counters[256];
  .reg .pred %done;
  .reg .b32 %item, %items, %group, %groups, %counter, %value, %sum;
  .reg .b64 %at, %step, %size, %base, %address, %wide;

  mov.u32 %item, %tid.x;
  mov.u32 %items, %ntid.x;
  mov.u32 %group, %ctaid.x;
  mov.u32 %groups, %nctaid.x;

  mov.u32 %counter, counters;
  mad.lo.u32 %counter, %item, 4, %counter;
  mov.u32 %sum, 0;
  st.shared.u32 [%counter], %sum;
  bar.sync 0;

  ld.param.u64 %base, [bytes];
  cvta.to.global.u64 %base, %base;
  ld.param.u64 %size, [nbytes];
  mul.wide.u32 %at, %group, %items;
  cvt.u64.u32 %wide, %item;
  add.u64 %at, %at, %wide;
  mul.wide.u32 %step, %groups, %items;

next:
  setp.ge.u64 %done, %at, %size;
  @%done bra counted;
  add.u64 %address, %base, %at;
  ld.global.u8 %value, [%address];
  mov.u32 %sum, counters;
  mad.lo.u32 %value, %value, 4, %sum;
  red.shared.add.u32 [%value], 1;
  add.u64 %at, %at, %step;
  bra next;

counted:
  bar.sync 0;
  ld.shared.u32 %sum, [%counter];
  ld.param.u64 %address, [totals];
  cvta.to.global.u64 %address, %address;
  mul.wide.u32 %wide, %item, 4;
  add.u64 %address, %address, %wide;
  red.global.add.u32 [%address], %sum;
  ret;
}
)";

}  // namespace berth::tool
