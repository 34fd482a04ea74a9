// SPDX-License-Identifier: MIT
#pragma once

#include <berth/adaptors/failing.hpp>
#include <berth/adaptors/limiting.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/core/buffer.hpp>
#include <berth/testing/context.hpp>
#include <berth/testing/scratch_file.hpp>

#include <array>

/// Laws of failure: nothing is lost, nothing leaks, everything stays usable.
namespace berth::inline BERTH_ABI::testing::laws {

/// A day in the life of a buffer; the error of the first step that fails.
[[nodiscard]] inline Result<void> use_everything(PackedAllocator allocator) {
  const auto bytes = pattern(600, 1);
  auto buffer = Buffer::create(allocator, 600);
  if (!buffer) return fail(buffer.error());
  if (auto done = buffer->copyin(bytes); !done) return done;
  auto zeroed = Buffer::create(allocator, 700, {.zero = true});
  if (!zeroed && zeroed.error().code() != Errc::unsupported) return fail(zeroed.error());
  if (allocator.supports_offset()) {
    auto view = buffer->view(100, 50);
    if (!view) return fail(view.error());
    auto inner = view->view(10, 10);
    if (!inner) return fail(inner.error());
    if (auto done = inner->copyin(std::span(bytes).first(10)); !done) return done;
  }
  if (allocator.supports_fill()) {
    if (auto done = buffer->fill(std::byte{1}); !done) return done;
  }
  if (allocator.supports_map()) {
    auto mapping = buffer->map(Access::write);
    if (!mapping) return fail(mapping.error());
    if (auto done = mapping->unmap(); !done) return done;
  }
  if (allocator.supports_transfer()) {
    auto second = Buffer::create(allocator, 600);
    if (!second) return fail(second.error());
    if (auto done = allocator.transfer(second->handle(), buffer->handle(), 600); !done) return done;
  }
  if (allocator.supports_copy_from_disk()) {
    const auto file = ScratchFile::holding(bytes);
    if (!file) return fail(file.error());
    if (auto done = allocator.copy_from_disk(buffer->handle(), file->extent(), 600); !done) {
      return fail(done.error());
    }
    const std::array ranges{LoadRange<PackedBuffer>{file->extent(), &buffer->handle(), 0}};
    if (auto done = allocator.load(ranges); !done) return fail(done.error());
  }
  if (allocator.supports_queues()) {
    const auto event = allocator.record();
    if (!event) return fail(event.error());
    if (auto done = allocator.wait(*event); !done) return done;
  }
  std::vector<std::byte> out(600);
  if (auto done = buffer->copyout(out); !done) return done;
  return allocator.synchronize();
}

template <Allocator A>
void every_step_fails_in_turn(Context<A>& t) {
  auto upstream = t.another();
  if (!t.expect(upstream, "an allocator")) return;
  StatisticsAllocator statistics(pack(std::move(*upstream)));
  FailingAllocator failing(statistics);
  const PackedAllocator packed = pack(failing);

  if (!t.expect(use_everything(packed), "without failures")) return;
  const std::uint64_t steps = failing.plan().calls();
  t.expect(steps >= 5, "the script takes several steps");
  for (const Errc code : {Errc::out_of_memory, Errc::device_lost}) {
    for (std::uint64_t nth = 1; nth <= steps; ++nth) {
      failing.plan().fail_nth(nth, code);
      const std::string what = "call " + std::to_string(nth) + " of " + std::to_string(steps) + " failing";
      t.expect_error(use_everything(packed), code, what);
      t.expect(statistics.statistics().bytes.current == 0, what + " leaks nothing");
      failing.plan().clear();
      if (!t.expect(use_everything(packed), "after " + what)) return;
    }
  }
}

template <Allocator A>
void out_of_memory(Context<A>& t) {
  auto upstream = t.another();
  if (!t.expect(upstream, "an allocator")) return;
  constexpr std::size_t block = 1 << 16;
  constexpr std::size_t limit = 10 * block + 100;
  LimitingAllocator limited(pack(std::move(*upstream)), limit);
  const PackedAllocator packed = pack(limited);

  std::vector<Buffer> buffers;
  std::vector<std::vector<std::byte>> bytes;
  for (;;) {
    auto buffer = Buffer::create(packed, block);
    if (!buffer) {
      t.expect_error(buffer, Errc::out_of_memory, "the budget is spent");
      t.expect(buffer.error().asked() == block && buffer.error().limit() == limit &&
                   buffer.error().live() == buffers.size() * block,
               "the error has the accounts: " + buffer.error().message());
      break;
    }
    if (!t.expect(buffers.size() < 10, "the budget holds")) return;
    bytes.push_back(pattern(block, static_cast<std::uint32_t>(buffers.size())));
    if (!t.expect(buffer->copyin(bytes.back()), "copyin")) return;
    buffers.push_back(std::move(*buffer));
  }
  t.expect(buffers.size() == 10, "the budget can be spent");
  t.expect(Buffer::create(packed, 100), "what is left can still be had");
  std::vector<std::byte> seen(block);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    t.expect(buffers[i].copyout(seen), "copyout");
    t.expect(seen == bytes[i], "running out changes no buffer");
  }
  buffers.pop_back();
  t.expect(Buffer::create(packed, block), "what was freed can be had again");
  buffers.clear();
  t.expect(limited.live_bytes() == 0, "nothing is left live");
}

}  // namespace berth::inline BERTH_ABI::testing::laws
