// SPDX-License-Identifier: MIT
// From a file to a device: through two pinned chunks, in order, with exact accounts of what went wrong.
#include <berth/adaptors/lru.hpp>
#include <berth/cuda/allocator.hpp>
#include <berth/testing/scratch_file.hpp>

#include <unistd.h>

#include <array>
#include <thread>

#include "support/cuda_fixture.hpp"
#include "support/skip.hpp"

using namespace berth;
using cuda::CudaBuffer;
using native::content;
using testing::ScratchFile;

namespace {

constexpr std::size_t chunk = std::size_t{4} << 20U;

ScratchFile file_holding(std::span<const std::byte> bytes) {
  auto file = ScratchFile::holding(bytes);
  REQUIRE(message(file) == "ok");
  return std::move(*file);
}

CudaBuffer allocated(cuda::Allocator& allocator, std::size_t nbytes, const BufferSpec& spec = {}) {
  auto buf = allocator.alloc(nbytes, spec);
  REQUIRE(message(buf) == "ok");
  return *buf;
}

}  // namespace

TEST_CASE("a file arrives whole, at sizes around the chunk") {
  native::Machine machine;
  native::Borrowed user;
  const auto bytes = native::pattern(3 * chunk + 777);
  const ScratchFile file = file_holding(bytes);
  const CudaBuffer buf = allocated(user.allocator, bytes.size());
  for (const std::size_t nbytes : {std::size_t{1}, chunk - 1, chunk, chunk + 1, 2 * chunk, bytes.size()}) {
    CAPTURE(nbytes);
    REQUIRE(message(user.allocator.fill(buf, std::byte{0xEE})) == "ok");
    const auto copied = user.allocator.copy_from_disk(buf, file.extent(), nbytes);
    REQUIRE(message(copied) == "ok");
    CHECK(*copied == DiskCopy{.buffered = nbytes});
    const auto seen = content(user.allocator, buf);
    CHECK(std::ranges::equal(std::span(seen).first(nbytes), std::span(bytes).first(nbytes)));
    CHECK(native::all(std::span(seen).subspan(nbytes), 0xEE));
  }
  if (machine.fake()) CHECK(machine->balance().pinned == 2);  // the chunks, made once
  user.allocator.free(buf, bytes.size());
}

TEST_CASE("a view of the file and a view of the buffer") {
  const native::Machine machine;
  native::Borrowed user;
  const auto bytes = native::pattern(10'000);
  const ScratchFile file = file_holding(bytes);
  const CudaBuffer buf = allocated(user.allocator, 10'000, {.zero = true});
  const auto view = user.allocator.offset(buf, 5000, 2501);
  REQUIRE(message(view) == "ok");
  FileExtent extent = file.extent();
  extent.offset += 1001;
  extent.nbytes = 6000;
  REQUIRE(message(user.allocator.copy_from_disk(*view, extent, 5000)) == "ok");
  const auto seen = content(user.allocator, buf);
  CHECK(std::ranges::equal(std::span(seen).subspan(2501, 5000), std::span(bytes).subspan(1001, 5000)));
  CHECK(native::all(std::span(seen).first(2501), 0));
  CHECK(native::all(std::span(seen).subspan(7501), 0));
  CHECK(outcome(user.allocator.copy_from_disk(*view, extent, 5001)) == "out_of_range");
  CHECK(outcome(user.allocator.copy_from_disk(buf, extent, 6001)) == "out_of_range");
  user.allocator.free(buf, 10'000, {.zero = true});
}

TEST_CASE("a file that ends early is short_read, with what arrived") {
  const native::Machine machine;
  native::Borrowed user;
  const auto bytes = native::pattern(2 * chunk + 100);
  const ScratchFile file = file_holding(bytes);
  FileExtent extent = file.extent();
  extent.nbytes = 3 * chunk;  // a lie
  const CudaBuffer buf = allocated(user.allocator, 3 * chunk);
  const auto copied = user.allocator.copy_from_disk(buf, extent, 3 * chunk);
  REQUIRE(outcome(copied) == "short_read");
  CHECK(copied.error().asked() == 3 * chunk);
  CHECK(copied.error().done() == bytes.size());
  const auto seen = content(user.allocator, buf);
  CHECK(std::ranges::equal(std::span(seen).first(bytes.size()), bytes));
  user.allocator.free(buf, 3 * chunk);
}

TEST_CASE("a file that cannot be read is io") {
  const native::Machine machine;
  native::Borrowed user;
  const CudaBuffer buf = allocated(user.allocator, 100);
  CHECK(outcome(user.allocator.copy_from_disk(buf, {.fd = -1, .offset = 0, .nbytes = 100}, 100)) == "io");
  user.allocator.free(buf, 100);
}

TEST_CASE("a disk copy comes after the work queued so far and before later work") {
  const native::Machine machine;
  native::Borrowed user;
  const auto bytes = native::pattern(chunk + 10);
  const ScratchFile file = file_holding(bytes);
  const CudaBuffer buf = allocated(user.allocator, bytes.size());
  const CudaBuffer kept = allocated(user.allocator, bytes.size());
  REQUIRE(message(user.allocator.fill(buf, std::byte{1})) == "ok");
  REQUIRE(message(user.allocator.transfer(kept, buf, bytes.size())) == "ok");
  REQUIRE(message(user.allocator.copy_from_disk(buf, file.extent(), bytes.size())) == "ok");
  REQUIRE(::ftruncate(file.extent().fd, 0) == 0);  // the file may change now
  CHECK(native::all(content(user.allocator, kept), 1));
  CHECK(content(user.allocator, buf) == bytes);
  user.allocator.free(buf, bytes.size());
  user.allocator.free(kept, bytes.size());
}

TEST_CASE("a disk copy goes on where no memory, or too little, can be pinned") {
  if (native::real()) return left_out("only the fake driver can be told to do this");
  for (const std::size_t pinned_bytes : {std::size_t{0}, chunk + 100}) {  // no chunk, and one of the two
    CAPTURE(pinned_bytes);
    native::Machine machine({.pinned_bytes = pinned_bytes});
    native::Borrowed user;
    const auto bytes = native::pattern(3 * chunk + 1000);
    const ScratchFile file = file_holding(bytes);
    const CudaBuffer buf = allocated(user.allocator, bytes.size());
    for (int round = 0; round < 2; ++round) {
      const auto copied = user.allocator.copy_from_disk(buf, file.extent(), bytes.size());
      REQUIRE(message(copied) == "ok");
      CHECK(*copied == DiskCopy{.buffered = bytes.size()});
      CHECK(content(user.allocator, buf) == bytes);
      CHECK(machine->balance().pinned == 0);  // nothing is kept: there may be memory the next time
      CHECK(machine->balance().events == 0);
    }
    user.allocator.free(buf, bytes.size());
  }
}

TEST_CASE("loads go to host memory and device memory alike") {
  const native::Machine machine;
  native::Borrowed user;
  const auto bytes = native::pattern(chunk + 5000, 3);
  const ScratchFile file = file_holding(bytes);
  const CudaBuffer device = allocated(user.allocator, chunk);
  const CudaBuffer host = allocated(user.allocator, 5000, {.host = true});
  FileExtent first = file.extent();
  first.nbytes = chunk;
  FileExtent rest = file.extent();
  rest.offset += chunk;
  rest.nbytes = 5000;
  const std::array ranges{LoadRange<CudaBuffer>{first, &device, 0}, LoadRange<CudaBuffer>{rest, &host, 0}};
  std::uint64_t told = 0;
  LoadOptions options;
  options.chunk = 1 << 20;
  options.progress = [&](const LoadProgress& progress) { told = progress.done; };
  REQUIRE(message(user.allocator.load(ranges, options)) == "ok");
  CHECK(told == bytes.size());
  CHECK(std::ranges::equal(content(user.allocator, device), std::span(bytes).first(chunk)));
  CHECK(std::ranges::equal(content(user.allocator, host), std::span(bytes).subspan(chunk)));
  user.allocator.free(device, chunk);
  user.allocator.free(host, 5000, {.host = true});
}

TEST_CASE("a chunk is read while the one before is copied") {
  native::Machine machine;
  if (!machine.fake()) return left_out("only the fake driver tells what was queued");
  native::Borrowed user;
  const auto bytes = native::pattern(2 * chunk);
  const ScratchFile file = file_holding(bytes);
  auto buf = user.allocator.alloc(bytes.size());
  REQUIRE(message(buf) == "ok");
  machine->reset();
  std::string answer;
  {
    native::Gate gate(user.context);
    gate.close(user.stream);
    std::jthread copying(
        [&] { answer = message(user.allocator.copy_from_disk(*buf, file.extent(), bytes.size())); });
    // The second is read and queued although no copy of the first can have run.
    for (int i = 0; i < 5000 && machine->calls("cuMemcpyHtoDAsync") < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(machine->calls("cuMemcpyHtoDAsync") == 2);
    gate.open();
  }
  CHECK(answer == "ok");
  CHECK(content(user.allocator, *buf) == bytes);
  user.allocator.free(*buf, bytes.size());
}

TEST_CASE("idle chunks give way when memory runs out") {
  if (native::real()) return left_out("the machine has more memory than a test may take");
  native::Machine machine({.pinned_bytes = 2 * chunk + 4096});
  native::Borrowed user;
  const auto bytes = native::pattern(100);
  const ScratchFile file = file_holding(bytes);
  auto buf = user.allocator.alloc(bytes.size());
  REQUIRE(message(buf) == "ok");
  REQUIRE(message(user.allocator.copy_from_disk(*buf, file.extent(), bytes.size())) == "ok");
  CHECK(machine->balance().pinned == 2);
  CHECK(outcome(user.allocator.alloc(chunk, {.host = true})) == "out_of_memory");
  auto cached = LruAllocator<cuda::Allocator>::create(user.allocator);
  REQUIRE(message(cached) == "ok");
  auto pinned = cached->alloc(chunk, {.host = true});
  REQUIRE(message(pinned) == "ok");
  CHECK(machine->balance().pinned == 1);
  cached->free(*pinned, chunk, {.host = true});
  user.allocator.free(*buf, bytes.size());
}

TEST_CASE("threads copy from disk at once") {
  native::Machine machine;
  native::Borrowed user;
  const auto bytes = native::pattern(chunk + 321);
  const ScratchFile file = file_holding(bytes);
  std::array<std::string, 3> problems;
  {
    std::vector<std::jthread> workers;
    for (std::string& problem : problems) {
      workers.emplace_back([&] {
        cuda::Allocator allocator = user.allocator;
        auto buf = allocator.alloc(bytes.size());
        if (!buf) {
          problem = "no buffer";
          return;
        }
        const auto copied = allocator.copy_from_disk(*buf, file.extent(), bytes.size());
        std::vector<std::byte> seen(bytes.size());
        const auto out = allocator.copyout(seen, *buf);
        if (!copied || !out) problem = "a call failed";
        if (seen != bytes) problem = "other bytes arrived";
        allocator.free(*buf, bytes.size());
      });
    }
  }
  for (const std::string& problem : problems) CHECK(problem == "");
}
