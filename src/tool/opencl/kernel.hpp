// SPDX-License-Identifier: MIT
#pragma once

namespace berth::tool {

/// A histogram of bytes in OpenCL C 1.2.
///
/// `memory` and `residual` are what `kernel_arg` gives: the bytes start `residual` after `memory`. Each
/// work-group counts a segment of them in local memory, in one column of 256 counters for each of its
/// work-items, so that no two touch one counter; then it adds its sums to `totals`.
inline constexpr const char* histogram_source = R"(
__kernel void histogram(__global const uchar* memory, ulong residual, ulong nbytes, ulong segment,
                        __global uint* totals, __local uint* columns) {
  const uint item = get_local_id(0);
  const uint items = get_local_size(0);
  __global const uchar* bytes = memory + residual;
  const ulong begin = get_group_id(0) * segment;
  const ulong end = min(begin + segment, nbytes);

  for (uint value = 0; value < 256; ++value) columns[value * items + item] = 0;

  ulong at = begin + item * 16;
  for (; at + 16 <= end; at += items * 16) {
    uchar run[16];
    vstore16(vload16(0, bytes + at), 0, run);
    for (uint i = 0; i < 16; ++i) ++columns[run[i] * items + item];
  }
  for (; at < end; ++at) ++columns[bytes[at] * items + item];

  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint value = item; value < 256; value += items) {
    uint sum = 0;
    for (uint column = 0; column < items; ++column) sum += columns[value * items + column];
    if (sum != 0) atomic_add(&totals[value], sum);
  }
}
)";

}  // namespace berth::tool
