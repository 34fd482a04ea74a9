// SPDX-License-Identifier: MIT
#include "device_tour.hpp"

#include <fmt/format.h>
#include <berth/core/buffer.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include "text.hpp"

namespace berth::tool {
namespace {

constexpr std::uint64_t reference_piece_bytes = std::uint64_t{8} << 20U;
constexpr std::uint64_t default_piece_bytes = std::uint64_t{64} << 20U;

/// Host memory, touched already, so that no step of the tour pays for its first use.
class HostMemory {
 public:
  [[nodiscard]] static Outcome<HostMemory> make(std::uint64_t nbytes) {
    HostMemory memory;
    memory.bytes_.reset(new (std::nothrow) std::byte[nbytes]());
    if (!memory.bytes_)
      return complain(fmt::format("the host has no {} of memory to spare", binary_size(nbytes)));
    return memory;
  }
  [[nodiscard]] std::span<std::byte> first(std::uint64_t nbytes) const noexcept {
    return {bytes_.get(), nbytes};
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

void show(Progress& progress, std::string_view what, std::uint64_t done, std::uint64_t whole) {
  if (!progress.due() || whole == 0) return;
  progress.show(
      fmt::format("{}: {} of {} ({} %)", what, binary_size(done), binary_size(whole),
                  static_cast<unsigned>(100.0 * static_cast<double>(done) / static_cast<double>(whole))));
}

// Bytes that differ from `bytes` everywhere, so that what was there before is never taken for a copy.
void fill_with_others(std::span<std::byte> other, std::span<const std::byte> bytes) {
  std::ranges::transform(bytes, other.begin(), [](std::byte byte) { return ~byte; });
}

Outcome<std::uint64_t> piece_bytes_for(const AllocatorInfo& info, std::uint64_t file_bytes,
                                       std::optional<std::uint64_t> wanted) {
  // The device counts in 32 bits.
  const auto most = std::clamp<std::uint64_t>(info.max_bytes, 1, std::numeric_limits<std::uint32_t>::max());
  if (wanted) {
    if (*wanted >= 1 && *wanted <= most) return std::min(*wanted, file_bytes);
    return complain(fmt::format("a piece of {} is out of bounds: this device takes 1 to {} bytes at a time",
                                counted(*wanted, "byte"), grouped(most)));
  }
  std::uint64_t budget = std::min(most, default_piece_bytes);
  if (info.total_bytes != 0) budget = std::min(budget, std::max<std::uint64_t>(info.total_bytes / 4, 1));
  return std::min(budget, file_bytes);
}

/// One tour under way.
class Traveller {
 public:
  Traveller(const FoundDevice& device, const InputFile& file, Progress& progress) noexcept
      : device_(device), file_(file), progress_(progress) {}

  Outcome<DeviceTour> travel(std::optional<std::uint64_t> wanted_piece) {
    if (auto ready = set_up(wanted_piece); !ready) return complain(ready.error());
    if (auto done = take_file(); !done) return complain(done.error());
    if (auto done = stay_in_place(); !done) return complain(done.error());
    return std::move(tour_);
  }

 private:
  Outcome<void> set_up(std::optional<std::uint64_t> wanted_piece) {
    const TimedStep timed(tour_.times, Step::set_up);
    show(progress_, fmt::format("{}, {}", device_.title(), label(Step::set_up)), 0, file_.nbytes());
    auto allocator = device_.open();
    if (!allocator) return complain(allocator.error());
    allocator_ = std::move(*allocator);
    const auto piece = piece_bytes_for(allocator_.info(), file_.nbytes(), wanted_piece);
    if (!piece) return complain(piece.error());
    tour_.piece_bytes = *piece;

    auto histogram = device_.histogram(allocator_);
    if (!histogram) return complain(histogram.error());
    histogram_ = std::move(*histogram);
    tour_.means = histogram_->means();

    for (HostMemory* memory : {&expected_, &returned_}) {
      auto made = HostMemory::make(tour_.piece_bytes);
      if (!made) return complain(made.error());
      *memory = std::move(*made);
    }
    return {};
  }

  Outcome<void> take_file() {
    const TimedStep whole(tour_.times, Step::whole);
    for (std::uint64_t offset = 0; offset < file_.nbytes(); offset += tour_.piece_bytes) {
      const std::uint64_t nbytes = std::min(tour_.piece_bytes, file_.nbytes() - offset);
      if (auto done = take_piece(offset, nbytes); !done) {
        return complain(fmt::format("{} (at byte {} of the file)", done.error(), grouped(offset)));
      }
      ++tour_.pieces;
    }
    return {};
  }

  // A file that has shrunk would end the program here, so one that has changed is left alone.
  Outcome<void> stay_in_place() {
    const device::Device device(device_.framework, device_.number, device_.name, allocator_);
    for (std::uint64_t offset = 0; offset < file_.nbytes() && tour_.in_place.refused.empty();
         offset += tour_.piece_bytes) {
      if (file_.changed()) return {};
      const std::uint64_t nbytes = std::min(tour_.piece_bytes, file_.nbytes() - offset);
      show(progress_, fmt::format("{}, {}", device_.title(), label(Step::count_in_place)), offset,
           file_.nbytes());
      if (auto done = count_in_place(device, file_, offset, nbytes, *histogram_, tour_.times, tour_.in_place);
          !done) {
        return complain(fmt::format("{} (in place, at byte {} of the file)", done.error(), grouped(offset)));
      }
    }
    return {};
  }

  Outcome<void> take_piece(std::uint64_t offset, std::uint64_t nbytes) {
    const auto expected = expected_.first(nbytes);
    const auto returned = returned_.first(nbytes);
    done_ = offset;

    Buffer buffer;
    if (auto allocated = step(Step::allocate, [&] { return allocate(buffer, nbytes); }); !allocated)
      return allocated;
    if (auto in = step(Step::load, [&] { return load(buffer, offset, nbytes); }); !in) return in;
    if (auto ran = step(Step::count, [&] { return histogram_->run(buffer); }); !ran) return ran;
    const auto counts = histogram_->take();
    if (!counts) return complain(counts.error());
    tour_.counts += *counts;

    if (auto read = step(Step::read_file, [&] { return file_.read(offset, expected); }); !read) return read;
    {
      const TimedStep timed(tour_.times, Step::compare);
      fill_with_others(returned, expected);
    }
    if (auto out = step(Step::device_to_host, [&] { return plain(buffer.copyout(returned)); }); !out)
      return out;
    const TimedStep timed(tour_.times, Step::compare);
    tour_.bytes_equal = tour_.bytes_equal && std::memcmp(expected.data(), returned.data(), nbytes) == 0;
    return {};
  }

  Outcome<void> load(Buffer& buffer, std::uint64_t offset, std::uint64_t nbytes) {
    if (allocator_.supports_copy_from_disk()) {
      const auto copied = buffer.copy_from_disk(file_.extent(offset, nbytes));
      if (!copied) return complain(copied.error());
      tour_.loaded += *copied;
      return {};
    }
    const auto bytes = returned_.first(nbytes);
    if (auto read = file_.read(offset, bytes); !read) return read;
    tour_.copied_in += nbytes;
    return plain(buffer.copyin(bytes));
  }

  Outcome<void> allocate(Buffer& buffer, std::uint64_t nbytes) {
    auto created = Buffer::create(allocator_, nbytes);
    if (!created) return complain(created.error());
    buffer = std::move(*created);
    return {};
  }

  static Outcome<void> plain(const Result<void>& result) {
    if (!result) return complain(result.error());
    return {};
  }

  Outcome<void> step(Step step, auto work) {
    show(progress_, fmt::format("{}, {}", device_.title(), label(step)), done_, file_.nbytes());
    const TimedStep timed(tour_.times, step);
    return work();
  }

  const FoundDevice& device_;
  const InputFile& file_;
  Progress& progress_;
  PackedAllocator allocator_;
  std::unique_ptr<Histogram> histogram_;
  HostMemory expected_;
  HostMemory returned_;
  std::uint64_t done_ = 0;
  DeviceTour tour_;
};

}  // namespace

Outcome<Reference> make_reference(const InputFile& file, Progress& progress) {
  const std::uint64_t piece = std::min(file.nbytes(), reference_piece_bytes);
  const auto memory = HostMemory::make(piece);
  if (!memory) return complain(memory.error());
  Reference reference;
  for (std::uint64_t offset = 0; offset < file.nbytes(); offset += piece) {
    const auto bytes = memory->first(std::min(piece, file.nbytes() - offset));
    show(progress, "host histogram", offset, file.nbytes());
    if (auto read = file.read(offset, bytes); !read) return complain(read.error());
    const Stopwatch stopwatch;
    reference.counts += count_bytes(bytes);
    reference.time += stopwatch.elapsed();
  }
  return reference;
}

Outcome<DeviceTour> tour_device(const FoundDevice& device, const InputFile& file,
                                std::optional<std::uint64_t> wanted_piece, Progress& progress) {
  return Traveller(device, file, progress).travel(wanted_piece);
}

}  // namespace berth::tool
