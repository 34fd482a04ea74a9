// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/buffer.hpp>
#include <berth/core/copy.hpp>
#include <berth/testing/context.hpp>

#include <thread>

/// Laws of lifetime, and of threads.
namespace berth::inline BERTH_ABI::testing::laws {

template <Allocator A>
void buffers_outlive_handles(Context<A>& t) {
  const auto bytes = pattern(3000, 1);
  Buffer buffer;
  {
    auto allocator = t.another();
    if (!t.expect(allocator, "an allocator")) return;
    auto created = Buffer::create(pack(std::move(*allocator)), bytes.size());
    if (!t.expect(created, "create")) return;
    buffer = std::move(*created);
  }
  t.expect(buffer.copyin(bytes), "copyin after the last handle is gone");
  std::vector<std::byte> seen(bytes.size());
  t.expect(buffer.copyout(seen), "copyout after the last handle is gone");
  t.expect(seen == bytes, "round trip after the last handle is gone");

  if (!buffer.allocator().supports_offset()) return;
  auto view = buffer.view(1000, 17);
  if (!t.expect(view, "a view")) return;
  buffer = Buffer();
  auto inner = view->view(100, 900);
  if (!t.expect(inner, "a view of a view whose root was dropped")) return;
  view = Buffer();
  std::vector<std::byte> part(100);
  t.expect(inner->copyout(part), "copyout through the last view");
  t.expect(std::ranges::equal(part, std::span(bytes).subspan(917, 100)), "the last view keeps the bytes");
}

template <Allocator A>
void copies_between_buffers(Context<A>& t) {
  auto one = t.another();
  auto two = t.another();
  if (!t.expect(one, "an allocator") || !t.expect(two, "an allocator")) return;
  const PackedAllocator first = pack(std::move(*one));
  const PackedAllocator second = pack(std::move(*two));
  const auto bytes = pattern(100001, 1);
  auto src = Buffer::create(first, bytes.size());
  auto same = Buffer::create(first, bytes.size());
  auto other = Buffer::create(second, bytes.size());
  if (!t.expect(src, "create") || !t.expect(same, "create") || !t.expect(other, "create")) return;
  t.expect(src->copyin(bytes), "copyin");
  const auto within = copy(*same, *src);
  const auto across = copy(*other, *same);
  if (!t.expect(within, "copy within an allocator") || !t.expect(across, "copy between allocators")) return;
  t.expect(!first.supports_transfer() || *within == CopyPath::transfer,
           "transfer is taken where there is one");
  std::vector<std::byte> seen(bytes.size());
  t.expect(other->copyout(seen), "copyout");
  t.expect(seen == bytes, "copies arrive");
}

template <Allocator A>
void threads(Context<A>& t) {
  if (!t.options.threads) return t.skipped("the driver cannot stand host threads");
  constexpr unsigned workers = 4;
  A& shared = t.allocator();
  const auto work = [&](unsigned worker) {
    for (std::size_t round = 0; round < t.scaled(100); ++round) {
      const std::size_t nbytes = 1 + (round * 7919 + worker * 104729) % 20000;
      auto buf = shared.alloc(nbytes, BufferSpec{.zero = round % 5 == 0});
      if (!buf && buf.error().code() == Errc::unsupported) continue;
      if (!t.expect(buf, "alloc on a thread")) return;
      const Lease<A> lease(shared, std::move(*buf), nbytes, {.zero = round % 5 == 0});
      const auto bytes = pattern(nbytes, worker * 1000 + static_cast<std::uint32_t>(round));
      if (!t.expect(shared.copyin(lease.buf(), bytes), "copyin on a thread")) return;
      if constexpr (OffsetAllocator<A>) {
        if (shared.supports_offset()) {
          const auto view = shared.offset(lease.buf(), 1, nbytes - 1);
          if (!t.expect(view, "a view on a thread")) return;
          t.expect_holds(*view, std::span(bytes).last(1), "a view on a thread");
        }
      }
      if (!t.expect_holds(lease.buf(), bytes, "threads share no buffer")) return;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < workers; ++worker) threads.emplace_back(work, worker);
  for (std::thread& thread : threads) thread.join();
  t.expect(shared.synchronize(), "synchronize after the threads");
}

}  // namespace berth::inline BERTH_ABI::testing::laws
