// SPDX-License-Identifier: MIT
// Scratch space in a file: where it lies, what it holds, what it costs, and when it ends.
#include <berth/adaptors/statistics.hpp>
#include <berth/core/buffer.hpp>
#include <berth/core/copy.hpp>
#include <berth/disk/allocator.hpp>
#include <berth/disk/file.hpp>
#include <berth/host/allocator.hpp>

#include <sys/wait.h>

#include <map>
#include <thread>

#include "disk/small_disk.hpp"
#include "disk/temporary.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"
#include "support/scale.hpp"

using namespace berth;
using Scratch = disk::Allocator;
using disk::DiskBuffer;
using temporary::Folder;
using temporary::Nameless;
using temporary::random_bytes;

namespace {

constexpr std::uint64_t step = 4096;

Scratch opened(const Folder& folder, std::uint64_t limit_bytes = io::max_file_bytes) {
  auto allocator = Scratch::open(folder.path(), {.limit_bytes = limit_bytes});
  REQUIRE(message(allocator) == "ok");
  return *allocator;
}
DiskBuffer allocated(Scratch& allocator, std::size_t nbytes, const BufferSpec& spec = {}) {
  auto buf = allocator.alloc(nbytes, spec);
  REQUIRE(message(buf) == "ok");
  return *buf;
}
std::uint64_t place(Scratch& allocator, const DiskBuffer& buf) {
  const auto extent = allocator.extent(buf);
  REQUIRE(message(extent) == "ok");
  return extent->offset;
}
std::vector<std::byte> content(Scratch& allocator, const DiskBuffer& buf) {
  std::vector<std::byte> bytes(buf.nbytes());
  REQUIRE(message(allocator.copyout(bytes, buf)) == "ok");
  return bytes;
}
struct stat status_of(Scratch& allocator, const DiskBuffer& buf) {
  struct stat status{};
  REQUIRE(::fstat(allocator.extent(buf)->fd, &status) == 0);
  return status;
}

TEST_CASE("the file has no name, and goes with the last handle") {
  const Folder folder;
  const std::size_t before = temporary::open_descriptors();
  Buffer kept;
  {
    Scratch allocator = opened(folder);
    CHECK(folder.empty());
    auto buffer = Buffer::create(pack(allocator), 100);
    REQUIRE(message(buffer) == "ok");
    kept = std::move(*buffer);
    CHECK(folder.empty());
  }
  CHECK(message(kept.copyin(random_bytes(100, 1))) == "ok");
  CHECK(temporary::open_descriptors() == before + 1);
  kept = Buffer();
  CHECK(temporary::open_descriptors() == before);
  CHECK(message(Scratch::open(folder / "missing")) == "open: ENOENT (2) (no such file or directory)");
  temporary::write_file(folder / "file", {});
  CHECK(Scratch::open(folder / "file").error().status_name() == "ENOTDIR");
}

TEST_CASE("space is taken first fit, and free neighbours become one") {
  const Folder folder;
  Scratch allocator = opened(folder);
  std::vector<DiskBuffer> bufs;
  for (int i = 0; i < 6; ++i) bufs.push_back(allocated(allocator, i % 2 == 0 ? 1 : step));
  for (std::size_t i = 0; i < bufs.size(); ++i) CHECK(place(allocator, bufs[i]) == i * step);

  // Holes of one step; what is larger goes to the end.
  allocator.free(bufs[1], step);
  allocator.free(bufs[3], step);
  const DiskBuffer two = allocated(allocator, step + 1);
  CHECK(place(allocator, two) == 6 * step);
  const DiskBuffer one = allocated(allocator, 5);
  CHECK(place(allocator, one) == 1 * step);
  // 2 joins 3 behind it; then 4 joins both.
  allocator.free(bufs[2], 1);
  allocator.free(bufs[4], 1);
  const DiskBuffer three = allocated(allocator, 3 * step);
  CHECK(place(allocator, three) == 2 * step);
  // A hole is cut, and its rest used.
  allocator.free(three, 3 * step);
  const DiskBuffer first = allocated(allocator, step);
  const DiskBuffer rest = allocated(allocator, 2 * step);
  CHECK(place(allocator, first) == 2 * step);
  CHECK(place(allocator, rest) == 3 * step);
  // When all is free the space begins anew.
  for (const auto& buf : {bufs[0], one, first, rest, bufs[5], two}) allocator.free(buf, buf.nbytes());
  const DiskBuffer again = allocated(allocator, 20 * step);
  CHECK(place(allocator, again) == 0);
  allocator.free(again, 20 * step);
}

TEST_CASE("zero is zero, in fresh space and in used") {
  const Folder folder;
  Scratch allocator = opened(folder);
  for (const std::size_t nbytes :
       {std::size_t{1}, std::size_t{4096}, std::size_t{70001}, (std::size_t{3} << 20U) + 1}) {
    const DiskBuffer fresh = allocated(allocator, nbytes, {.zero = true});
    CHECK((content(allocator, fresh) == std::vector<std::byte>(nbytes)));
    REQUIRE(message(allocator.copyin(fresh, std::vector<std::byte>(nbytes, std::byte{0xFF}))) == "ok");
    const DiskBuffer wall = allocated(allocator, 1);
    allocator.free(fresh, nbytes, {.zero = true});
    const DiskBuffer used = allocated(allocator, nbytes, {.zero = true});
    CHECK(place(allocator, used) == 0);
    CHECK((content(allocator, used) == std::vector<std::byte>(nbytes)));
    REQUIRE(message(allocator.fill(used, std::byte{0xFF})) == "ok");
    allocator.free(used, nbytes, {.zero = true});
    allocator.free(wall, 1);
    // Everything is free, yet not as new.
    const DiskBuffer longer = allocated(allocator, nbytes + step, {.zero = true});
    CHECK((content(allocator, longer) == std::vector<std::byte>(nbytes + step)));
    REQUIRE(message(allocator.fill(longer, std::byte{0xFF})) == "ok");
    allocator.free(longer, nbytes + step, {.zero = true});
  }
}

TEST_CASE("a limit is out_of_memory, with the accounts") {
  const Folder folder;
  Scratch allocator = opened(folder, 10 * step + 100);
  const DiskBuffer most = allocated(allocator, 9 * step);
  CHECK(message(allocator.alloc(step + 1)) ==
        "disk alloc: out of memory, asked 4097 bytes, the limit is 41060 bytes, 36864 bytes live");
  const DiskBuffer last = allocated(allocator, step);
  CHECK(outcome(allocator.alloc(1)) == "out_of_memory");
  allocator.free(most, 9 * step);
  const DiskBuffer low = allocated(allocator, 4 * step);
  CHECK(outcome(allocator.alloc(6 * step)) == "out_of_memory");
  const DiskBuffer high = allocated(allocator, 5 * step);
  CHECK(status_of(allocator, high).st_size <= static_cast<off_t>(10 * step));
  for (const auto& buf : {last, low, high}) allocator.free(buf, buf.nbytes());
  CHECK(outcome(allocator.alloc(allocator.info().max_bytes + 1)) == "exceeds_device_maximum");
  CHECK(outcome(allocator.alloc(allocator.info().max_bytes)) == "out_of_memory");
  Scratch nothing = opened(folder, 0);
  CHECK(outcome(nothing.alloc(1)) == "out_of_memory");
  CHECK(message(nothing.alloc(0)) == "ok");
}

TEST_CASE("what a file cannot be") {
  const Folder folder;
  Scratch allocator = opened(folder);
  int word = 0;
  CHECK(message(allocator.alloc(8, {.host = true})) ==
        "disk alloc: not supported (a file is no host memory), asked 8 bytes");
  CHECK(message(allocator.alloc(8, {.external_ptr = &word})) ==
        "disk alloc: not supported (a file wraps no memory), asked 8 bytes");
  CHECK(outcome(allocator.alloc(8, {.zero = true, .external_ptr = &word})) == "invalid_argument");
  const DiskBuffer buf = allocated(allocator, 8, {.uncached = true, .cpu_access = true, .nolru = true});
  CHECK(outcome(allocator.addr(buf)) == "unsupported");
  static_assert(!MappableAllocator<Scratch> && !QueueAllocator<Scratch>);
  allocator.free(buf, 8);
  const AllocatorInfo info = allocator.info();
  CHECK(std::string(info.backend) == "disk");
  CHECK(info.alignment == step);
  CHECK(info.total_bytes > (1U << 20U));
  CHECK_FALSE(info.shares_host_memory);
  CHECK(opened(folder).info().device == info.device);
  CHECK(opened(folder).info().instance != info.instance);
}

TEST_CASE("space is there when it is handed out") {
  const Folder folder;
  Scratch allocator = opened(folder);
  const DiskBuffer buf = allocated(allocator, 1 << 20);
  const auto status = status_of(allocator, buf);
  CHECK(status.st_size == 1 << 20);
  CHECK(status.st_blocks * 512 >= 1 << 20);  // reserved, where the file system can
  CHECK(content(allocator, buf).size() == 1 << 20);
  allocator.free(buf, 1 << 20);
}

TEST_CASE("a file of the caller's keeps its bytes and gets back its size") {
  const Folder folder;
  const std::string path = folder / "scratch";
  const auto old = random_bytes(5001, 2);
  temporary::write_file(path, old);
  const int fd = ::open(path.c_str(), O_RDWR);
  const bool adopted = GENERATE(true, false);
  {
    auto allocator = adopted ? Scratch::adopt(fd) : Scratch::borrow(fd);
    REQUIRE(message(allocator) == "ok");
    const DiskBuffer buf = allocated(*allocator, 10000);
    CHECK(place(*allocator, buf) == 2 * step);
    CHECK(message(allocator->fill(buf, std::byte{0xFF})) == "ok");
    CHECK(std::filesystem::file_size(path) == 5 * step);
    const DiskBuffer zeros = allocated(*allocator, 10000, {.zero = true});
    CHECK((content(*allocator, zeros) == std::vector<std::byte>(10000)));
    allocator->free(zeros, 10000);
    allocator->free(buf, 10000);
  }
  CHECK((temporary::read_file(path) == old));
  CHECK((::fcntl(fd, F_GETFD) >= 0) == !adopted);
  if (!adopted) ::close(fd);

  const auto refused = [&](int flags) {
    const int other = ::open(path.c_str(), flags);
    const std::string said = message(Scratch::adopt(other));
    CHECK(message(Scratch::borrow(other)) == said);
    CHECK(::close(other) == 0);
    return said;
  };
  CHECK(refused(O_RDONLY) == "disk adopt: invalid argument (the descriptor is not open for writing)");
  CHECK(refused(O_WRONLY) == "disk adopt: invalid argument (the descriptor is not open for reading)");
  CHECK(refused(O_RDWR | O_APPEND) ==
        "disk adopt: invalid argument (the descriptor is open for appending (O_APPEND))");
}

TEST_CASE("a second free, and a free of what is not a block, do nothing and are reported") {
  const Folder folder;
  Scratch allocator = opened(folder);
  const DiskBuffer buf = allocated(allocator, 100);
  const DiskBuffer other = allocated(allocator, 100);
  Reports reports;
  allocator.free(buf, 100);
  CHECK(reports.take().empty());
  allocator.free(buf, 100);
  CHECK(reports.take() ==
        std::vector<std::string>{
            "disk free: invalid argument (the buffer is not allocated; left alone), asked 100 bytes"});
  CHECK(place(allocator, allocated(allocator, 100)) == 0);
  allocator.free(*allocator.offset(other, 10, 0), 10);
  CHECK(reports.take().size() == 1);
  CHECK(message(allocator.fill(other, std::byte{1})) == "ok");
}

TEST_CASE("buffers are extents of the file") {
  const Folder folder;
  Scratch allocator = opened(folder);
  const auto bytes = random_bytes(9000, 3);
  const DiskBuffer wall = allocated(allocator, 1);
  const DiskBuffer buf = allocated(allocator, 9000);
  REQUIRE(message(allocator.copyin(buf, bytes)) == "ok");
  const auto view = allocator.offset(buf, 500, 77);
  REQUIRE(message(view) == "ok");
  const auto extent = allocator.extent(*view);
  REQUIRE(message(extent) == "ok");
  CHECK(extent->nbytes == 500);
  std::vector<std::byte> seen(500);
  REQUIRE(::pread(extent->fd, seen.data(), 500, static_cast<off_t>(extent->offset)) == 500);
  CHECK(std::ranges::equal(seen, std::span(bytes).subspan(77, 500)));
  CHECK(allocator.extent(*allocator.alloc(0))->nbytes == 0);
  Scratch other = opened(folder);
  CHECK(outcome(other.extent(buf)) == "wrong_allocator");
  CHECK(buf.block() != 0);
  CHECK(buf.block() == view->block());
  CHECK(buf.block() != wall.block());
  CHECK(allocator.alloc(0)->block() == 0);
  CHECK(buf.resized(10).nbytes() == 10);
  CHECK(place(allocator, buf.resized(10)) == place(allocator, buf));
  allocator.free(buf.resized(10), 10);
  allocator.free(wall, 1);
}

TEST_CASE("files are copied into files") {
  const Folder folder;
  const auto bytes = random_bytes((3 << 20) + 11, 4);
  const Nameless source(bytes);
  Scratch allocator = opened(folder);
  Scratch other = opened(folder);
  const DiskBuffer buf = allocated(allocator, bytes.size() - 5);
  CHECK(allocator.copy_from_disk(buf, source.extent(5, bytes.size() - 5), bytes.size() - 5) ==
        DiskCopy{.direct = bytes.size() - 5});
  CHECK(std::ranges::equal(content(allocator, buf), std::span(bytes).subspan(5)));
  const DiskBuffer copy = allocated(other, bytes.size());
  REQUIRE(message(other.fill(copy, std::byte{7})) == "ok");
  CHECK(message(other.transfer(copy, buf, 100000)) == "ok");
  auto expected = std::vector<std::byte>(bytes.size(), std::byte{7});
  std::copy_n(bytes.begin() + 5, 100000, expected.begin());
  CHECK((content(other, copy) == expected));

  // To and from the same file.
  CHECK(outcome(allocator.copy_from_disk(buf, *allocator.extent(buf), 10)) == "overlap");
  CHECK(outcome(allocator.transfer(*allocator.offset(buf, 100, 50), *allocator.offset(buf, 100, 0), 100)) ==
        "overlap");
  CHECK(message(allocator.transfer(*allocator.offset(buf, 50, 50), *allocator.offset(buf, 50, 0), 50)) ==
        "ok");

  source.resize(100000);
  const auto cut = allocator.copy_from_disk(buf, source.extent(0, 200000), 200000);
  REQUIRE(outcome(cut) == "short_read");
  CHECK(cut.error().asked() == 200000U);
  CHECK(cut.error().done() == 100000U);
  const auto done = content(allocator, *allocator.offset(buf, 100000, 0));
  CHECK(std::ranges::equal(done, std::span(bytes).first(100000)));
  allocator.free(buf, buf.nbytes());
  other.free(copy, copy.nbytes());
}

TEST_CASE("copy takes the path of the disk, and comes back") {
  const Folder folder;
  const auto bytes = random_bytes(300000, 5);
  StatisticsAllocator on_disk(opened(folder));
  auto memory = host::Allocator::open();
  REQUIRE(message(memory) == "ok");
  auto spilled = Buffer::create(pack(on_disk), bytes.size());
  auto source = Buffer::create(pack(*memory), bytes.size());
  auto back = Buffer::create(pack(*memory), bytes.size());
  REQUIRE(message(spilled) == "ok");
  REQUIRE(message(source) == "ok");
  REQUIRE(message(back) == "ok");
  REQUIRE(message(source->copyin(bytes)) == "ok");
  CHECK(copy(*spilled, *source) == CopyPath::shared_host);
  CHECK(copy(*back, *spilled) == CopyPath::disk);
  std::vector<std::byte> seen(bytes.size());
  CHECK(message(back->copyout(seen)) == "ok");
  CHECK((seen == bytes));
  CHECK(on_disk.statistics().copyout_bytes == 0);

  auto view = spilled->view(1000, 4321);
  auto part = back->view(1000, 1);
  REQUIRE(message(view) == "ok");
  REQUIRE(message(part) == "ok");
  CHECK(copy(*part, *view) == CopyPath::disk);
  CHECK(message(part->copyout(std::span(seen).first(1000))) == "ok");
  CHECK(std::ranges::equal(std::span(seen).first(1000), std::span(bytes).subspan(4321, 1000)));
}

TEST_CASE("random work against a reference") {
  const Folder folder;
  const unsigned seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  std::mt19937 random(seed);
  constexpr std::uint64_t limit = 64 * step;
  Scratch allocator = opened(folder, limit);
  struct Live {
    DiskBuffer buf;
    std::vector<std::byte> bytes;
  };
  std::vector<Live> live;
  std::size_t refused = 0;
  for (std::size_t round = 0; round < scaled(4000); ++round) {
    if (live.empty() || random() % 5 < 3) {
      const std::size_t nbytes = 1 + random() % (12 * step);
      const bool zero = random() % 3 == 0;
      auto buf = allocator.alloc(nbytes, {.zero = zero});
      if (!buf) {
        REQUIRE(outcome(buf) == "out_of_memory");
        ++refused;
      } else {
        if (zero) REQUIRE(content(allocator, *buf) == std::vector<std::byte>(nbytes));
        auto bytes = random_bytes(nbytes, random());
        REQUIRE(message(allocator.copyin(*buf, bytes)) == "ok");
        live.push_back({*buf, std::move(bytes)});
        continue;
      }
    }
    const std::size_t i = random() % live.size();
    REQUIRE((content(allocator, live[i].buf) == live[i].bytes));
    allocator.free(live[i].buf, live[i].bytes.size());
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
  }
  CHECK(refused > 0);
  std::map<std::uint64_t, std::uint64_t> places;
  for (const Live& kept : live) {
    CHECK((content(allocator, kept.buf) == kept.bytes));
    places[place(allocator, kept.buf)] = kept.bytes.size();
    allocator.free(kept.buf, kept.bytes.size());
  }
  for (auto run = places.begin(); run != places.end(); ++run) {
    CHECK(run->first % step == 0);
    if (std::next(run) != places.end()) CHECK(run->first + run->second <= std::next(run)->first);
  }
  // Nothing is lost: all of it can be had at once.
  const DiskBuffer all = allocated(allocator, limit);
  allocator.free(all, limit);
}

TEST_CASE("threads share the space") {
  const Folder folder;
  Scratch allocator = opened(folder);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      std::mt19937 random(worker);
      for (std::size_t round = 0; round < scaled(300); ++round) {
        const std::size_t nbytes = 1 + random() % 30000;
        auto buf = allocator.alloc(nbytes, {.zero = round % 2 == 0});
        if (!buf) return void(++wrong);
        std::vector<std::byte> seen(nbytes);
        if (round % 2 == 0 && (!allocator.copyout(seen, *buf) || seen != std::vector<std::byte>(nbytes)))
          ++wrong;
        const std::vector<std::byte> bytes(nbytes, static_cast<std::byte>(worker + 1));
        if (!allocator.copyin(*buf, bytes) || !allocator.copyout(seen, *buf) || seen != bytes) ++wrong;
        allocator.free(*buf, nbytes, {.zero = round % 2 == 0});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("in a forked child calls answer forked, and the file is left alone") {
  const Folder folder;
  const std::string path = folder / "scratch";
  temporary::write_file(path, random_bytes(100, 6));
  auto allocator = std::make_unique<Scratch>(*Scratch::adopt(::open(path.c_str(), O_RDWR)));
  const DiskBuffer buf = allocated(*allocator, 100);
  const auto file = disk::File::open(path);
  REQUIRE(message(file) == "ok");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::byte byte{};
    const bool forked =
        outcome(allocator->alloc(1)) == "forked" && outcome(allocator->alloc(0)) == "forked" &&
        outcome(allocator->copyin(buf, {&byte, 1})) == "forked" &&
        outcome(allocator->copyout({&byte, 1}, buf)) == "forked" &&
        outcome(allocator->fill(buf, byte)) == "forked" &&
        outcome(allocator->transfer(buf, buf, 1)) == "forked" &&
        outcome(allocator->extent(buf)) == "forked" && outcome(allocator->load({})) == "forked" &&
        outcome(allocator->copy_from_disk(buf, {}, 0)) == "forked" &&
        outcome(allocator->offset(buf, 1, 0)) == "forked" && outcome(allocator->addr(buf)) == "forked" &&
        outcome(allocator->synchronize()) == "forked" && outcome(Scratch::open(folder.path())) == "forked" &&
        outcome(disk::File::open(path)) == "forked";
    allocator->free(buf, 100);
    allocator.reset();
    ::_exit(forked ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(std::filesystem::file_size(path) == 2 * step);
  CHECK(message(allocator->fill(buf, std::byte{1})) == "ok");
  allocator->free(buf, 100);
}

TEST_CASE("a full disk is out_of_memory from alloc") {
  const std::string said = small_disk::run("disk::Allocator: a full disk");
  if (said.starts_with("cannot")) {
    WARN(said);
    return;
  }
  CHECK(said == "fallocate: ENOSPC (28), asked 819200 bytes|out_of_memory|ok|ok");
}

}  // namespace

// In a process of its own, on a disk of 1 MiB.
TEST_CASE("disk::Allocator: a full disk", "[.]") {
  small_disk::enter([](const std::string& folder) {
    auto allocator = Scratch::open(folder);
    auto first = allocator->alloc(400 << 10U);
    const auto full = allocator->alloc(800 << 10U);
    std::string said =
        message(full) + "|" + outcome(full) + "|" + message(allocator->fill(*first, std::byte{1}));
    auto second = allocator->alloc(400 << 10U);
    said += "|" + message(second);
    if (second) allocator->free(*second, 400 << 10U);
    allocator->free(*first, 400 << 10U);
    return said;
  });
}
