// SPDX-License-Identifier: MIT
#pragma once

#include <berth/testing/context.hpp>

#include <array>
#include <random>

/// Laws of transfer, fill, map and of the order in which work happens.
namespace berth::inline BERTH_ABI::testing::laws {

template <TransferAllocator A>
void transfers(Context<A>& t) {
  A& a = t.allocator();
  const auto bytes = pattern(3000, 1);
  auto expected = pattern(4000, 2);
  const auto src = t.alloc_with(bytes);
  const auto dest = t.alloc_with(expected);
  if (!src || !dest) return;
  t.expect(a.transfer(dest->buf(), src->buf(), 2999), "transfer");
  std::ranges::copy(std::span(bytes).first(2999), expected.begin());
  t.expect_holds(dest->buf(), expected, "transfer writes its prefix only");
  t.expect_holds(src->buf(), bytes, "transfer leaves the source");
  t.expect(a.transfer(dest->buf(), src->buf(), 0), "transfer of 0 bytes");
  t.expect_error(a.transfer(dest->buf(), src->buf(), 3001), Errc::out_of_range, "transfer beyond the source");
  t.expect_error(a.transfer(src->buf(), dest->buf(), 3001), Errc::out_of_range,
                 "transfer beyond the destination");
  t.expect_error(a.transfer(dest->buf(), dest->buf(), 1), Errc::overlap, "transfer of a buffer to itself");
  t.expect_holds(dest->buf(), expected, "refused transfers write nothing");

  if (auto other = t.another(); t.expect(other, "a second allocator")) {
    auto foreign = other->alloc(3000, BufferSpec{});
    if (!t.expect(foreign, "alloc of the second allocator")) return;
    const auto newer = pattern(3000, 7);
    t.expect(other->copyin(*foreign, newer), "copyin of the second allocator");
    const auto across = a.transfer(dest->buf(), *foreign, 3000);
    if (across) {
      std::ranges::copy(newer, expected.begin());
    } else {
      t.expect(across.error().code() == Errc::wrong_allocator,
               "an instance out of reach: " + across.error().message());
    }
    t.expect_holds(dest->buf(), expected, "transfer from another instance");
    other->free(std::move(*foreign), 3000, BufferSpec{});
  }
}

template <class A>
  requires TransferAllocator<A> && OffsetAllocator<A>
void transfers_between_views(Context<A>& t) {
  A& a = t.allocator();
  auto expected = pattern(1000, 3);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  const auto view = [&](std::size_t nbytes, std::size_t byte_offset) {
    return a.offset(lease->buf(), nbytes, byte_offset);
  };
  const auto low = view(100, 1);
  const auto next = view(100, 101);
  const auto meets = view(100, 100);
  if (!t.expect(low, "a view") || !t.expect(next, "a view") || !t.expect(meets, "a view")) return;
  t.expect_error(a.transfer(*meets, *low, 100), Errc::overlap, "views that share a byte, upwards");
  t.expect_error(a.transfer(*low, *meets, 100), Errc::overlap, "views that share a byte, downwards");
  t.expect(a.transfer(*next, *low, 100), "adjacent views");
  std::copy_n(expected.begin() + 1, 100, expected.begin() + 101);
  t.expect_holds(lease->buf(), expected, "transfer between views");
}

template <FillAllocator A>
void fills(Context<A>& t) {
  A& a = t.allocator();
  auto expected = pattern(777, 1);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  if constexpr (OffsetAllocator<A>) {
    if (a.supports_offset()) {
      const auto view = a.offset(lease->buf(), 101, 33);
      if (!t.expect(view, "a view")) return;
      t.expect(a.fill(*view, std::byte{0x5A}), "fill of a view");
      std::fill_n(expected.begin() + 33, 101, std::byte{0x5A});
      t.expect_holds(lease->buf(), expected, "fill of a view touches its bytes only");
    }
  }
  t.expect(a.fill(lease->buf(), std::byte{0xC3}), "fill");
  t.expect_holds(lease->buf(), std::vector<std::byte>(777, std::byte{0xC3}), "fill sets every byte");
}

template <MappableAllocator A>
void maps(Context<A>& t) {
  A& a = t.allocator();
  auto expected = pattern(5000, 1);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  {
    auto mapping = a.map(lease->buf(), Access::read, 1000, 7);
    if (!t.expect(mapping, "map for reading")) return;
    t.expect(std::ranges::equal(mapping->bytes(), std::span(expected).subspan(7, 1000)),
             "a map shows the bytes");
    t.expect(mapping->unmap(), "unmap");
    t.expect(mapping->unmap(), "a second unmap does nothing");
    t.expect(mapping->bytes().empty(), "an unmapped guard shows nothing");
  }
  for (const Access access : {Access::write, Access::overwrite}) {
    auto mapping = a.map(lease->buf(), access, 500, 4500);
    if (!t.expect(mapping, "map for writing")) return;
    if (access == Access::write) {
      t.expect(std::ranges::equal(mapping->bytes(), std::span(expected).subspan(4500)),
               "a write map is current");
    }
    const auto part = pattern(500, access == Access::write ? 2 : 3);
    std::ranges::copy(part, mapping->bytes().begin());
    std::ranges::copy(part, expected.begin() + 4500);
    t.expect(mapping->unmap(), "unmap");
    t.expect_holds(lease->buf(), expected, "the device sees what was written in the map");
  }
  t.expect_error(a.map(lease->buf(), Access::read, 5001, 0), Errc::out_of_range, "a map beyond the buffer");
  t.expect_error(a.map(lease->buf(), Access::read, 1, 5000), Errc::out_of_range, "a map after the buffer");
  t.expect_error(a.map(lease->buf(), Access::read, ~std::size_t{0}, 1), Errc::out_of_range,
                 "a map that wraps");
  if (auto first = a.map(lease->buf(), Access::read, 10, 0); t.expect(first, "map")) {
    auto second = a.map(lease->buf(), Access::read, 10, 20);
    t.expect(second, "a second map of other bytes");
  }
  t.expect_holds(lease->buf(), expected, "usable after its maps");
}

template <QueueAllocator A>
void queues(Context<A>& t) {
  A& a = t.allocator();
  static constexpr HandleKind nobody{"nobody", nullptr, nullptr};
  int object = 0;
  const Queue strange_queue = Queue::adopt(nobody, &object);
  const Event strange_event = Event::adopt(nobody, &object);
  t.expect_error(a.on(strange_queue), Errc::wrong_backend, "on() of another backend's queue");
  t.expect_error(a.on(Queue()), Errc::invalid_argument, "on() of an empty queue");
  t.expect_error(a.wait(strange_event), Errc::wrong_backend, "wait for another backend's event");
  t.expect_error(a.wait(Event()), Errc::invalid_argument, "wait for an empty event");
  const auto bytes = pattern(100, 1);
  const auto lease = t.alloc_with(bytes);
  if (!lease) return;
  t.expect_error(a.record_use(lease->buf(), strange_queue), Errc::wrong_backend,
                 "record_use on a strange queue");
  const auto event = a.record();
  if (!t.expect(event, "record")) return;
  t.expect(static_cast<bool>(*event), "a recorded event is not empty");
  t.expect(a.wait(*event), "wait for an event of one's own");
  t.expect_holds(lease->buf(), bytes, "usable after a wait");
}

/// What was queued before a free still sees the memory, although the next allocation may get it.
template <class A>
  requires TransferAllocator<A> && FillAllocator<A>
void freed_while_queued(Context<A>& t) {
  A& a = t.allocator();
  constexpr std::size_t nbytes = 1 << 16;
  const auto dest = t.alloc(nbytes);
  if (!dest) return;
  for (std::size_t round = 0; round < t.scaled(50); ++round) {
    const auto value = static_cast<std::byte>(round + 1);
    {
      const auto source = t.alloc(nbytes);
      if (!source) return;
      t.expect(a.fill(source->buf(), value), "fill");
      t.expect(a.transfer(dest->buf(), source->buf(), nbytes), "transfer");
    }
    const auto next = t.alloc(nbytes);
    if (!next) return;
    t.expect(a.fill(next->buf(), std::byte{0}), "fill of the next allocation");
    if (!t.expect_holds(dest->buf(), std::vector<std::byte>(nbytes, value),
                        "work queued before a free is whole")) {
      return;
    }
  }
}

/// Random work on a few buffers, against a reference kept on the host.
template <Allocator A>
void random_work(Context<A>& t) {
  A& a = t.allocator();
  std::mt19937 random(t.options.seed);
  const std::string seed = " (seed " + std::to_string(t.options.seed) + ")";
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::array<std::size_t, 4> sizes{257, 4096, 1000, 70000};
  std::vector<std::vector<std::byte>> reference;
  std::vector<Lease<A>> leases;
  leases.reserve(sizes.size());
  for (const std::size_t nbytes : sizes) {
    reference.push_back(pattern(nbytes, random()));
    auto lease = t.alloc_with(reference.back());
    if (!lease) return;
    leases.push_back(std::move(*lease));
  }
  for (std::size_t step = 0; step < t.scaled(400); ++step) {
    const std::size_t i = below(sizes.size());
    const std::size_t j = (i + 1 + below(sizes.size() - 1)) % sizes.size();
    const std::size_t nbytes = 1 + below(std::min(sizes[i], sizes[j]));
    switch (below(5)) {
      case 0: {
        const auto part = pattern(nbytes, random());
        if (!t.expect(a.copyin(leases[i].buf(), part), "copyin" + seed)) return;
        std::ranges::copy(part, reference[i].begin());
        break;
      }
      case 1:
        if constexpr (TransferAllocator<A>) {
          if (!a.supports_transfer()) break;
          if (!t.expect(a.transfer(leases[i].buf(), leases[j].buf(), nbytes), "transfer" + seed)) return;
          std::copy_n(reference[j].begin(), nbytes, reference[i].begin());
        }
        break;
      case 2:
        if constexpr (FillAllocator<A>) {
          if (!a.supports_fill()) break;
          const auto value = static_cast<std::byte>(random());
          if (!t.expect(a.fill(leases[i].buf(), value), "fill" + seed)) return;
          std::ranges::fill(reference[i], value);
        }
        break;
      case 3:
        if constexpr (MappableAllocator<A>) {
          if (!a.supports_map()) break;
          const std::size_t byte_offset = below(sizes[i] - nbytes + 1);
          auto mapping = a.map(leases[i].buf(), Access::write, nbytes, byte_offset);
          if (!t.expect(mapping, "map" + seed)) return;
          for (std::byte& byte : mapping->bytes()) byte ^= std::byte{0x3C};
          for (std::size_t k = 0; k < nbytes; ++k) reference[i][byte_offset + k] ^= std::byte{0x3C};
          if (!t.expect(mapping->unmap(), "unmap" + seed)) return;
        }
        break;
      default:
        if (!t.expect_holds(leases[i].buf(), reference[i], "random work" + seed)) return;
    }
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    t.expect_holds(leases[i].buf(), reference[i], "after random work" + seed);
  }
}

}  // namespace berth::inline BERTH_ABI::testing::laws
