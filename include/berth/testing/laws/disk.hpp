// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/packed_buffer.hpp>
#include <berth/testing/context.hpp>
#include <berth/testing/laws/identity.hpp>
#include <berth/testing/scratch_file.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>

/// Laws of `copy_from_disk` and `load`.
namespace berth::inline BERTH_ABI::testing::laws {

/// More than any staging chunk holds, and no multiple of one.
inline constexpr std::size_t several_chunks = (std::size_t{9} << 20U) + 13;

/// A file that holds `bytes`; without a place for one the law is skipped.
template <Allocator A>
[[nodiscard]] std::optional<ScratchFile> file_with(Context<A>& t, std::span<const std::byte> bytes) {
  auto file = ScratchFile::holding(bytes);
  if (file) return std::move(*file);
  t.skipped("no temporary file: " + file.error().message());
  return std::nullopt;
}

template <DiskCopyAllocator A>
void copies_from_disk(Context<A>& t) {
  A& a = t.allocator();
  const auto content = pattern(several_chunks + 100, 1);
  const std::span<const std::byte> all(content);
  const auto file = file_with(t, content);
  if (!file) return;

  // Any offset in the file, any length, any offset in the buffer.
  auto expected = pattern(6000, 2);
  const auto lease = t.alloc_with(expected);
  if (!lease) return;
  const auto copy_to = [&](const buffer_t<A>& dest, std::size_t at, std::size_t first, std::size_t nbytes) {
    const auto copied = a.copy_from_disk(dest, file->extent(first, nbytes), nbytes);
    if (!t.expect(copied,
                  "copy_from_disk of " + std::to_string(nbytes) + " bytes at " + std::to_string(first)))
      return false;
    t.expect(copied->total() == nbytes, "the bytes by path add up");
    std::ranges::copy(all.subspan(first, nbytes), expected.begin() + static_cast<std::ptrdiff_t>(at));
    return t.expect_holds(lease->buf(), expected, "the file's bytes, and no other byte changed");
  };
  for (const std::size_t first : {0, 1, 63, 511, 512, 4095, 4096, 4097, 70001}) {
    for (const std::size_t nbytes : {0, 1, 3, 64, 511, 4096, 4097, 6000}) {
      if (!copy_to(lease->buf(), 0, first, nbytes)) return;
    }
  }
  if constexpr (OffsetAllocator<A>) {
    for (std::size_t at = 1; a.supports_offset() && at < 5000; at = at * 3 + 1) {
      const auto view = a.offset(lease->buf(), 777, at);
      if (!t.expect(view, "a view")) return;
      if (!copy_to(*view, at, 12345 - at, 777)) return;
      t.expect_error(a.copy_from_disk(*view, file->extent(0, 778), 778), Errc::out_of_range,
                     "beyond the view, within the buffer");
    }
  }
  const auto copied = a.copy_from_disk(lease->buf(), file->extent(9, 5000), 321);
  std::ranges::copy(all.subspan(9, 321), expected.begin());
  t.expect(copied, "a prefix of the extent");
  t.expect_holds(lease->buf(), expected, "a prefix of the extent is a prefix of the buffer");

  if (const auto large = t.alloc(several_chunks)) {
    const auto moved = a.copy_from_disk(large->buf(), file->extent(7, several_chunks), several_chunks);
    if (t.expect(moved, "several chunks")) {
      t.expect(moved->total() == several_chunks, "the bytes of several chunks add up");
      t.expect_holds(large->buf(), all.subspan(7, several_chunks), "several chunks");
    }
  }

  // What is refused changes nothing.
  const auto beyond = a.copy_from_disk(lease->buf(), file->extent(0, 100), 101);
  if (t.expect_error(beyond, Errc::out_of_range, "beyond the extent, within the file")) {
    t.expect(beyond.error().limit() == 100, "the limit is the extent's");
  }
  t.expect_error(a.copy_from_disk(lease->buf(), file->extent(), 6001), Errc::out_of_range,
                 "beyond the buffer, within the extent");
  t.expect_error(a.copy_from_disk(lease->buf(), {file->extent().fd, ~std::uint64_t{0}, 10}, 10),
                 Errc::out_of_range, "an extent that no file has");
  t.expect_error(a.copy_from_disk(lease->buf(), {-1, 0, 10}, 10), Errc::io, "no open file");
  const auto nothing = a.copy_from_disk(lease->buf(), FileExtent{}, 0);
  if (t.expect(nothing, "0 bytes of no file")) t.expect(*nothing == DiskCopy{}, "0 bytes take no path");
  if (auto other = t.another(); t.expect(other, "a second allocator")) {
    if (other->info().instance != a.info().instance) {
      auto foreign = other->alloc(16, BufferSpec{});
      if (!t.expect(foreign, "alloc of the second allocator")) return;
      t.expect_error(a.copy_from_disk(*foreign, file->extent(), 16), Errc::wrong_allocator,
                     "a buffer of another instance");
      other->free(std::move(*foreign), 16, BufferSpec{});
    }
  }
  if constexpr (std::same_as<buffer_t<A>, PackedBuffer>) {
    t.expect_error(a.copy_from_disk(PackedBuffer{StrangeBuffer{}}, file->extent(), 16), Errc::wrong_backend,
                   "a buffer of another backend");
  }
  t.expect_holds(lease->buf(), expected, "refused copies write nothing");
}

template <DiskCopyAllocator A>
void short_files(Context<A>& t) {
  A& a = t.allocator();
  const auto content = pattern(several_chunks, 3);
  for (const std::size_t left : {std::size_t{0}, std::size_t{1000}, several_chunks / 2, several_chunks - 1}) {
    const auto file = file_with(t, content);
    if (!file) return;
    const auto lease = t.alloc_with(std::vector<std::byte>(several_chunks, std::byte{0xEE}));
    if (!lease) return;
    if (!t.expect(file->truncate(left), "truncate")) return;
    const auto copied = a.copy_from_disk(lease->buf(), file->extent(), several_chunks);
    if (!t.expect_error(copied, Errc::short_read, "a file that ends early")) return;
    t.expect(copied.error().asked() == several_chunks, "the error has the bytes asked");
    if (!t.expect(copied.error().done() == left, "the error has the bytes done")) return;
    t.expect_holds(lease->buf(), std::span(content).first(left), "what was done is there");
    const auto newer = pattern(several_chunks, 4);
    t.expect(a.copyin(lease->buf(), newer), "copyin after a short read");
    t.expect_holds(lease->buf(), newer, "usable after a short read");
  }
}

template <DiskCopyAllocator A>
void disk_copies_keep_the_order(Context<A>& t) {
  A& a = t.allocator();
  constexpr std::size_t nbytes = 100000;
  const auto first = pattern(nbytes, 5);
  const auto file = file_with(t, first);
  const auto lease = t.alloc(nbytes);
  const auto saved = t.alloc(nbytes);
  if (!file || !lease || !saved) return;
  for (std::size_t round = 0; round < t.scaled(20); ++round) {
    const auto bytes = pattern(nbytes, static_cast<std::uint32_t>(100 + round));
    if (!t.expect(file->write(bytes, 0), "write to the file")) return;
    // Earlier work must not come after it.
    if (!t.expect(a.copyin(lease->buf(), first), "copyin")) return;
    if constexpr (FillAllocator<A>) {
      if (a.supports_fill()) t.expect(a.fill(lease->buf(), std::byte{0x11}), "fill before");
    }
    if (!t.expect(a.copy_from_disk(lease->buf(), file->extent(), nbytes), "copy_from_disk")) return;
    // On return the file may change.
    t.expect(file->write(first, 0), "write to the file");
    // Later work sees the bytes, and must not come before.
    if constexpr (TransferAllocator<A>) {
      if (a.supports_transfer()) {
        t.expect(a.transfer(saved->buf(), lease->buf(), nbytes), "transfer after");
        if constexpr (FillAllocator<A>) {
          if (a.supports_fill()) t.expect(a.fill(lease->buf(), std::byte{0x22}), "fill after");
        }
        if (!t.expect_holds(saved->buf(), bytes, "work queued later sees the file's bytes")) return;
        continue;
      }
    }
    if (!t.expect_holds(lease->buf(), bytes, "a copy out sees the file's bytes")) return;
  }
}

template <DiskCopyAllocator A>
void loads(Context<A>& t) {
  A& a = t.allocator();
  using Buf = buffer_t<A>;
  const auto content = pattern(300001, 6);
  const std::span<const std::byte> all(content);
  const auto file = file_with(t, content);
  auto one = pattern(5000, 7);
  auto two = pattern(200000, 8);
  const auto first = t.alloc_with(one);
  const auto second = t.alloc_with(two);
  if (!file || !first || !second) return;

  const std::array<LoadRange<Buf>, 5> ranges{{{file->extent(3, 4000), &first->buf(), 1},
                                              {file->extent(100000, 199999), &second->buf(), 0},
                                              {file->extent(17, 0), &first->buf(), 5000},
                                              {file->extent(1, 999), &first->buf(), 4001},
                                              {file->extent(300000, 1), &second->buf(), 199999}}};
  std::ranges::copy(all.subspan(3, 4000), one.begin() + 1);
  std::ranges::copy(all.subspan(1, 999), one.begin() + 4001);
  std::ranges::copy(all.subspan(100000, 199999), two.begin());
  two.back() = content.back();
  constexpr std::uint64_t total = 4000 + 199999 + 999 + 1;

  std::vector<LoadProgress> seen;
  bool same_thread = true;
  LoadOptions options;
  options.chunk = 30000;
  options.progress = [&, caller = std::this_thread::get_id()](const LoadProgress& progress) {
    same_thread = same_thread && std::this_thread::get_id() == caller;
    seen.push_back(progress);
  };
  const auto loaded = a.load(ranges, options);
  if (!t.expect(loaded, "load")) return;
  t.expect(loaded->total() == total, "the bytes by path add up over the ranges");
  t.expect_holds(first->buf(), one, "several ranges of one buffer");
  t.expect_holds(second->buf(), two, "ranges of another buffer");
  t.expect(same_thread, "progress is told on the caller's thread");
  t.expect(seen.size() >= total / options.chunk, "progress is told once a chunk");
  t.expect(!seen.empty() && seen.back() == LoadProgress{total, total}, "progress ends with everything done");
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::uint64_t before = i != 0 ? seen[i - 1].done : 0;
    t.expect(seen[i].total == total && seen[i].done >= before && seen[i].done - before <= options.chunk,
             "progress grows by at most a chunk");
  }

  seen.clear();
  const auto nothing = a.load(std::span<const LoadRange<Buf>>(), options);
  if (t.expect(nothing, "a load of nothing")) t.expect(*nothing == DiskCopy{}, "nothing takes no path");
  t.expect(seen == std::vector{LoadProgress{0, 0}}, "a load of nothing is done at once");
  t.expect(a.load(ranges, LoadOptions{}), "a load that nobody watches");
}

template <DiskCopyAllocator A>
void refused_loads(Context<A>& t) {
  A& a = t.allocator();
  using Buf = buffer_t<A>;
  const auto content = pattern(4000, 9);
  const auto file = file_with(t, content);
  const auto expected = pattern(1000, 10);
  const auto lease = t.alloc_with(expected);
  if (!file || !lease) return;
  bool told = false;
  LoadOptions options;
  options.progress = [&](const LoadProgress&) { told = true; };
  const auto refused = [&](const LoadRange<Buf>& bad, Errc code, const char* what) {
    const std::array<LoadRange<Buf>, 2> ranges{{{file->extent(0, 500), &lease->buf(), 0}, bad}};
    t.expect_error(a.load(ranges, options), code, what);
    t.expect(!told, "a refused load is no progress");
    t.expect_holds(lease->buf(), expected, "all ranges are checked before the first byte moves");
  };
  refused({file->extent(0, 1001), &lease->buf(), 0}, Errc::out_of_range, "a range larger than its buffer");
  refused({file->extent(0, 501), &lease->buf(), 500}, Errc::out_of_range, "a range beyond its buffer");
  refused({file->extent(0, 2), &lease->buf(), ~std::size_t{0}}, Errc::out_of_range, "a range that wraps");
  refused({file->extent(~std::uint64_t{0} - 1, 4), &lease->buf(), 0}, Errc::out_of_range,
          "an extent that wraps");
  refused({file->extent(0, 500), nullptr, 0}, Errc::invalid_argument, "a range without a buffer");
  if (auto other = t.another(); t.expect(other, "a second allocator")) {
    if (other->info().instance != a.info().instance) {
      auto foreign = other->alloc(500, BufferSpec{});
      if (!t.expect(foreign, "alloc of the second allocator")) return;
      refused({file->extent(0, 500), &*foreign, 0}, Errc::wrong_allocator, "a buffer of another instance");
      other->free(std::move(*foreign), 500, BufferSpec{});
    }
  }
  if constexpr (std::same_as<Buf, PackedBuffer>) {
    const PackedBuffer strange{StrangeBuffer{}};
    refused({file->extent(0, 16), &strange, 0}, Errc::wrong_backend, "a buffer of another backend");
  }
  options.chunk = 0;
  refused({file->extent(0, 500), &lease->buf(), 500}, Errc::invalid_argument, "chunks of 0 bytes");
}

template <DiskCopyAllocator A>
void cancelled_loads(Context<A>& t) {
  A& a = t.allocator();
  using Buf = buffer_t<A>;
  constexpr std::size_t nbytes = 50000;
  constexpr std::uint64_t total = 2 * nbytes;
  const auto content = pattern(total, 11);
  const auto file = file_with(t, content);
  if (!file) return;
  for (const std::size_t chunks_before : {0, 1, 4, 7}) {
    const auto first = t.alloc(nbytes);
    const auto second = t.alloc(nbytes);
    if (!first || !second) return;
    const std::array<LoadRange<Buf>, 2> ranges{
        {{file->extent(0, nbytes), &first->buf(), 0}, {file->extent(nbytes, nbytes), &second->buf(), 0}}};
    std::stop_source source;
    std::size_t chunks = 0;
    std::uint64_t done = 0;
    LoadOptions options;
    options.chunk = 10007;
    options.stop = source.get_token();
    options.progress = [&](const LoadProgress& progress) {
      done = progress.done;
      if (++chunks == chunks_before) source.request_stop();
    };
    if (chunks_before == 0) source.request_stop();
    const auto loaded = a.load(ranges, options);
    if (!t.expect_error(loaded, Errc::cancelled, "a load that is stopped")) return;
    t.expect(chunks == chunks_before, "a stop is seen before the next chunk");
    t.expect(loaded.error().asked() == total && loaded.error().done() == done,
             "the error has the bytes: " + loaded.error().message());
    const auto arrived = static_cast<std::size_t>(done);
    const std::size_t in_first = std::min(arrived, nbytes);
    t.expect_holds(first->buf(), std::span(content).first(in_first), "what was done is there");
    t.expect_holds(second->buf(), std::span(content).subspan(nbytes, arrived - in_first),
                   "what was done of the next range is there");
    options.stop = {};
    t.expect(a.load(ranges, options), "a load after one that was stopped");
    t.expect_holds(second->buf(), std::span(content).subspan(nbytes), "usable after a stop");
  }
}

}  // namespace berth::inline BERTH_ABI::testing::laws
