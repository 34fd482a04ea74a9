// SPDX-License-Identifier: MIT
// Files into OpenCL buffers: straight into mapped bytes, and through pinned chunks, which the option forces.
#include <berth/core/buffer.hpp>
#include <berth/core/copy.hpp>
#include <berth/disk/allocator.hpp>
#include <berth/disk/file.hpp>
#include <berth/disk/writable_file.hpp>
#include <berth/io/exact.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "disk/temporary.hpp"
#include "support/conformance.hpp"
#include "support/opencl_fixture.hpp"
#include "support/scale.hpp"

namespace {

using namespace berth;
using native::content;
using native::Stream;
using opencl::ClBuffer;
using temporary::Nameless;
using temporary::random_bytes;

constexpr std::size_t chunk = std::size_t{4} << 20U;  // of the staging
constexpr opencl::Options staged{.stage_disk_copies = true};

/// Both ways into a buffer.
struct Way {
  const char* name;
  opencl::Options options;
  bool direct;
};
std::array<Way, 2> ways() {
  return {{{"mapped", {}, native::device().unified_memory}, {"staged", staged, false}}};
}

DiskCopy moved(const Way& way, std::uint64_t nbytes) {
  return way.direct ? DiskCopy{.direct = nbytes} : DiskCopy{.buffered = nbytes};
}

std::vector<std::byte> first(std::size_t nbytes, std::vector<std::byte> bytes) {
  bytes.resize(nbytes);
  return bytes;
}

// Read by the driver on a queue of its own, once the allocator's is empty.
std::vector<std::byte> arrived(opencl::Allocator& allocator, const ClBuffer& buf) {
  REQUIRE(message(allocator.synchronize()) == "ok");
  return content(buf.root(), buf.nbytes());
}

ClBuffer allocated(opencl::Allocator& allocator, std::span<const std::byte> bytes) {
  auto buf = allocator.alloc(bytes.size());
  REQUIRE(message(buf) == "ok");
  REQUIRE(message(allocator.copyin(*buf, bytes)) == "ok");
  return *buf;
}

TEST_CASE("any offset in the file to any offset in the buffer, and the path is told") {
  const auto bytes = random_bytes(200, 1);
  const Nameless file(bytes);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    auto expected = random_bytes(64, 2);
    const ClBuffer buf = allocated(stream.allocator, expected);
    for (std::size_t offset = 0; offset < 12; ++offset) {
      for (std::size_t at = 0; at < 12; ++at) {
        for (const std::size_t nbytes : {0, 1, 2, 5, 8, 31, 52}) {
          const auto view = stream.allocator.offset(buf, nbytes, at);
          REQUIRE(message(view) == "ok");
          const auto copied = stream.allocator.copy_from_disk(*view, file.extent(offset, nbytes), nbytes);
          REQUIRE(message(copied) == "ok");
          CHECK(*copied == moved(way, nbytes));
          std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), nbytes,
                      expected.begin() + static_cast<std::ptrdiff_t>(at));
          REQUIRE((arrived(stream.allocator, buf) == expected));
        }
      }
    }
    stream.allocator.free(buf, 64);
  }
}

TEST_CASE("random runs of many chunks") {
  const auto bytes = random_bytes(5 * chunk, 3);
  const Nameless file(bytes);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    std::mt19937 random(11);
    auto expected = random_bytes(5 * chunk, 4);
    const ClBuffer buf = allocated(stream.allocator, expected);
    std::vector<std::size_t> sizes{chunk - 1,     chunk,         chunk + 1,    2 * chunk,
                                   2 * chunk + 1, 3 * chunk - 1, 4 * chunk + 7};
    for (std::size_t round = 0; round < scaled(6); ++round) sizes.push_back(1 + random() % (5 * chunk));
    for (const std::size_t nbytes : sizes) {
      const std::size_t offset = random() % (5 * chunk - nbytes + 1);
      const std::size_t at = random() % (5 * chunk - nbytes + 1);
      CAPTURE(nbytes, offset, at);
      const auto view = stream.allocator.offset(buf, nbytes, at);
      const auto copied = stream.allocator.copy_from_disk(*view, file.extent(offset, nbytes), nbytes);
      REQUIRE(message(copied) == "ok");
      CHECK(*copied == moved(way, nbytes));
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), nbytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(at));
      REQUIRE((arrived(stream.allocator, buf) == expected));
    }
    stream.allocator.free(buf, expected.size());
  }
}

TEST_CASE("a copy waits for the work queued before, and the work queued later for the copy") {
  const auto bytes = random_bytes(2 * chunk + 5, 5);
  const Nameless file(bytes);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    const ClBuffer buf = allocated(stream.allocator, std::vector<std::byte>(bytes.size(), std::byte{1}));
    const ClBuffer before = allocated(stream.allocator, std::vector<std::byte>(bytes.size(), std::byte{1}));
    const ClBuffer after = allocated(stream.allocator, std::vector<std::byte>(bytes.size(), std::byte{1}));
    const std::vector<std::byte> filled(bytes.size(), std::byte{0x77});
    native::Gate gate(stream.context);
    gate.close(stream.queue);
    REQUIRE(message(stream.allocator.fill(buf, std::byte{0x77})) == "ok");
    REQUIRE(message(stream.allocator.transfer(before, buf, bytes.size())) == "ok");
    std::string said;
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      gate.open();
    });
    const auto copied = stream.allocator.copy_from_disk(buf, file.extent(), bytes.size());
    file.write(std::vector<std::byte>(bytes.size(), std::byte{9}), 0);  // the file may change now
    opener.join();
    REQUIRE(message(copied) == "ok");
    CHECK((arrived(stream.allocator, before) == filled));
    native::Gate second(stream.context);
    second.close(stream.queue);
    REQUIRE(message(stream.allocator.transfer(after, buf, bytes.size())) == "ok");
    REQUIRE(message(stream.allocator.fill(buf, std::byte{0x78})) == "ok");
    second.open();
    CHECK((arrived(stream.allocator, after) == bytes));
    file.write(bytes, 0);
    for (const ClBuffer& each : {buf, before, after}) stream.allocator.free(each, bytes.size());
  }
}

TEST_CASE("a handle on another queue orders on that queue") {
  const auto bytes = random_bytes(chunk + 5, 6);
  const Nameless file(bytes);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    auto other_queue = stream.another_queue();
    auto other = stream.allocator.on(opencl::borrow_queue(other_queue));
    REQUIRE(message(other) == "ok");
    const ClBuffer buf = allocated(stream.allocator, std::vector<std::byte>(bytes.size()));
    native::Gate gate(stream.context);
    gate.close(stream.queue);  // the first queue is held back, and must not be waited for
    CHECK(message(other->copy_from_disk(buf, file.extent(), bytes.size())) == "ok");
    std::vector<std::byte> seen(bytes.size());
    CHECK(message(other->copyout(seen, buf)) == "ok");
    CHECK((seen == bytes));
    gate.open();
    stream.allocator.free(buf, bytes.size());
  }
}

TEST_CASE("bytes that the host has mapped are refused, before anything moves") {
  const auto bytes = random_bytes(3 * chunk, 7);
  const Nameless file(bytes);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    const auto old = random_bytes(3 * chunk, 8);
    const ClBuffer buf = allocated(stream.allocator, old);
    for (const Access access : {Access::read, Access::write}) {
      auto mapping = stream.allocator.map(buf, access, 10, 3 * chunk - 10);
      REQUIRE(message(mapping) == "ok");
      CHECK(outcome(stream.allocator.copy_from_disk(buf, file.extent(), 3 * chunk)) == "mapped");
      const std::array<LoadRange<ClBuffer>, 1> range{{{file.extent(0, 20), &buf, 3 * chunk - 20}}};
      CHECK(outcome(stream.allocator.load(range)) == "mapped");
      REQUIRE(message(mapping->unmap()) == "ok");
      CHECK((content(stream.allocator, buf) == old));
    }
    auto mapping = stream.allocator.map(buf, Access::read, 10, 3 * chunk - 10);
    CHECK(message(stream.allocator.copy_from_disk(buf, file.extent(), chunk)) == "ok");
    REQUIRE(message(mapping->unmap()) == "ok");
    CHECK(message(stream.allocator.copy_from_disk(buf, file.extent(), 3 * chunk)) == "ok");
    CHECK((content(stream.allocator, buf) == bytes));
    stream.allocator.free(buf, 3 * chunk);
  }
}

TEST_CASE("a copy that fails half-way says how far it came, and leaves all usable") {
  const auto bytes = random_bytes(5 * chunk, 9);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    const ClBuffer buf = allocated(stream.allocator, random_bytes(5 * chunk, 10));
    const auto queues = native::at_rest(stream.queue.get());
    const auto buffers = native::at_rest(buf.root());
    for (const std::size_t left : {std::size_t{0}, std::size_t{1}, chunk, 2 * chunk + 77, 5 * chunk - 1}) {
      CAPTURE(left);
      const Nameless file(bytes);
      file.resize(left);
      const auto copied = stream.allocator.copy_from_disk(buf, file.extent(0, 5 * chunk), 5 * chunk);
      REQUIRE(outcome(copied) == "short_read");
      CHECK(copied.error().asked() == 5 * chunk);
      CHECK(copied.error().done() == left);
      CHECK((first(left, content(stream.allocator, buf)) == first(left, bytes)));
      file.write(bytes, 0);
      CHECK(message(stream.allocator.copy_from_disk(buf, file.extent(), 5 * chunk)) == "ok");
      CHECK((content(stream.allocator, buf) == bytes));
    }
    CHECK(message(stream.allocator.copy_from_disk(buf, {-1, 0, 10}, 10)) ==
          "pread: EBADF (9), asked 10 bytes, at byte 0, 0 bytes done");
    CHECK(native::settled(buf.root(), buffers) == buffers);
    CHECK(native::settled(stream.queue.get(), queues) == queues);
    stream.allocator.free(buf, 5 * chunk);
  }
}

TEST_CASE("a file that is truncated while it is loaded") {
  const auto bytes = random_bytes(4 * chunk, 11);
  for (const Way& way : ways()) {
    INFO(way.name);
    const Nameless file(bytes);
    Stream stream(way.options);
    const ClBuffer buf = allocated(stream.allocator, random_bytes(4 * chunk, 12));
    const std::array<LoadRange<ClBuffer>, 2> ranges{
        {{file.extent(0, 2 * chunk), &buf, 0}, {file.extent(2 * chunk, 2 * chunk), &buf, 2 * chunk}}};
    LoadOptions options;
    options.chunk = chunk + 1;
    options.progress = [&](const LoadProgress& progress) {
      if (progress.done == 2 * chunk) file.resize(3 * chunk - 10);
    };
    const auto loaded = stream.allocator.load(ranges, options);
    REQUIRE(outcome(loaded) == "short_read");
    CHECK(loaded.error().asked() == 4 * chunk);
    CHECK(loaded.error().done() == 3 * chunk - 10);
    CHECK((first(3 * chunk - 10, content(stream.allocator, buf)) == first(3 * chunk - 10, bytes)));
    stream.allocator.free(buf, 4 * chunk);
  }
}

TEST_CASE("nothing is left of the chunks when the allocator is gone") {
  const Nameless file(random_bytes(3 * chunk, 13));
  const auto description = native::device();
  auto context = native::make_context(description.id);
  auto queue = native::make_queue(context, description.id);
  const auto contexts = native::references(context.get());
  const auto queues = native::references(queue.get());
  {
    auto allocator = opencl::Allocator::borrow(context, queue, staged);
    REQUIRE(message(allocator) == "ok");
    const ClBuffer buf = allocated(*allocator, std::vector<std::byte>(3 * chunk));
    CHECK(message(allocator->copy_from_disk(buf, file.extent(), 3 * chunk)) == "ok");
    const auto kept = native::at_rest(context.get());
    CHECK(message(allocator->copy_from_disk(buf, file.extent(), 3 * chunk)) == "ok");
    CHECK(native::settled(context.get(), kept) == kept);  // the chunks are used again
    allocator->free(buf, 3 * chunk);
  }
  CHECK(native::settled(queue.get(), queues) == queues);
  CHECK(native::settled(context.get(), contexts) == contexts);
}

TEST_CASE("threads copy at the same time") {
  const auto bytes = random_bytes(2 * chunk + 333, 14);
  const Nameless file(bytes);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (std::size_t worker = 0; worker < 4; ++worker) {
      threads.emplace_back([&, worker] {
        for (std::size_t round = 0; round < scaled(5); ++round) {
          auto buf = stream.allocator.alloc(bytes.size() - worker);
          if (!buf) return void(++wrong);
          std::vector<std::byte> seen(buf->nbytes());
          if (!stream.allocator.copy_from_disk(*buf, file.extent(worker, seen.size()), seen.size()) ||
              !stream.allocator.copyout(seen, *buf) ||
              !std::ranges::equal(seen, std::span(bytes).subspan(worker))) {
            ++wrong;
          }
          stream.allocator.free(*buf, seen.size());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("memory of the host's own, and of the caller's, is loaded too") {
  const auto bytes = random_bytes(70000, 15);
  const Nameless file(bytes);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    const native::Pages pages(1 << 17);
    for (const BufferSpec& spec : {BufferSpec{.host = true}, BufferSpec{.external_ptr = pages.data()}}) {
      auto buf = stream.allocator.alloc(70000, spec);
      REQUIRE(message(buf) == "ok");
      CHECK(stream.allocator.copy_from_disk(*buf, file.extent(), 70000) == moved(way, 70000));
      CHECK((content(stream.allocator, *buf) == bytes));
      stream.allocator.free(*buf, 70000, spec);
    }
  }
}

TEST_CASE("what lies behind 4 GiB of a sparse file") {
  constexpr std::uint64_t far = (std::uint64_t{5} << 30U) + 1;
  const auto bytes = random_bytes(3000, 16);
  const Nameless file;
  file.write(bytes, far);
  const auto opened = disk::File::borrow(file.fd());
  REQUIRE(message(opened) == "ok");
  const auto extent = opened->extent(far - 1000, 4000);
  REQUIRE(message(extent) == "ok");
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    const ClBuffer buf = allocated(stream.allocator, std::vector<std::byte>(4000, std::byte{1}));
    CHECK(stream.allocator.copy_from_disk(buf, *extent, 4000) == moved(way, 4000));
    const auto seen = content(stream.allocator, buf);
    CHECK((std::ranges::all_of(std::span(seen).first(1000), [](std::byte b) { return b == std::byte{0}; })));
    CHECK(std::ranges::equal(std::span(seen).subspan(1000), bytes));
    stream.allocator.free(buf, 4000);
  }
}

TEST_CASE("a buffer is spilled to disk, comes back, and is saved") {
  const temporary::Folder folder;
  const auto bytes = random_bytes(2 * chunk + 17, 17);
  for (const Way& way : ways()) {
    INFO(way.name);
    Stream stream(way.options);
    auto scratch = disk::Allocator::open(folder.path());
    REQUIRE(message(scratch) == "ok");
    auto on_device = Buffer::create(pack(stream.allocator), bytes.size());
    auto back = Buffer::create(pack(stream.allocator), bytes.size());
    auto spilled = Buffer::create(pack(*scratch), bytes.size());
    REQUIRE(message(on_device) == "ok");
    REQUIRE(message(back) == "ok");
    REQUIRE(message(spilled) == "ok");
    REQUIRE(message(on_device->copyin(bytes)) == "ok");
    CHECK(outcome(copy(*spilled, *on_device)) == "ok");
    CHECK(copy(*back, *spilled) == CopyPath::disk);
    CHECK((arrived(stream.allocator, *back->as<ClBuffer>()) == bytes));

    const auto file = disk::WritableFile::open(folder / "saved", disk::WriteMode::replace);
    REQUIRE(message(file) == "ok");
    CHECK(message(file->write(*back, 3)) == "ok");
    const auto saved = temporary::read_file(folder / "saved");
    CHECK(std::ranges::equal(std::span(saved).subspan(3), bytes));
  }
}

TEST_CASE("OpenCL conforms when disk copies are staged") {
  berth_test::require_conformance<opencl::Allocator>(
      [] { return opencl::Allocator::open(native::device().id, staged); },
      {"alignment", "buffers_of_another_backend", "above_4_gib"});
}

}  // namespace
