// SPDX-License-Identifier: MIT
// Whole runs are read and written however the system cuts, interrupts or ends them.
#include <berth/io/exact.hpp>

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <functional>

#include "disk/temporary.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/scale.hpp"

using namespace berth;
using temporary::Nameless;
using temporary::random_bytes;

namespace {

/// A system whose answers a test decides; it keeps what it was asked.
struct Scripted {
  struct Call {
    std::size_t nbytes;
    std::uint64_t offset;
  };
  static inline std::vector<Call> calls;
  /// Bytes that one call may move, 0 for the end of the file, or minus an errno.
  static inline std::function<ssize_t(std::size_t nth, std::size_t nbytes)> allow;
  static inline std::function<void(std::size_t nth)> after;

  static void reset(std::function<ssize_t(std::size_t, std::size_t)> rule) {
    calls.clear();
    allow = std::move(rule);
    after = {};
  }

  template <class Move>
  static ssize_t call(std::size_t nbytes, off_t offset, Move move) {
    const std::size_t nth = calls.size();
    calls.push_back({nbytes, static_cast<std::uint64_t>(offset)});
    const ssize_t allowed = allow(nth, nbytes);
    if (allowed < 0) {
      errno = static_cast<int>(-allowed);
      return -1;
    }
    const ssize_t n = allowed == 0 ? 0 : move(std::min(nbytes, static_cast<std::size_t>(allowed)));
    if (after) after(nth);
    errno = EINTR;  // as a call may leave it that succeeds
    return n;
  }
  static ssize_t pread(int fd, void* bytes, std::size_t nbytes, off_t offset) {
    return call(nbytes, offset, [&](std::size_t n) { return ::pread(fd, bytes, n, offset); });
  }
  static ssize_t pwrite(int fd, const void* bytes, std::size_t nbytes, off_t offset) {
    return call(nbytes, offset, [&](std::size_t n) { return ::pwrite(fd, bytes, n, offset); });
  }
};
const io::System scripted{&Scripted::pread, &Scripted::pwrite};

std::span<const std::byte> part(std::span<const std::byte> bytes, std::uint64_t first, std::size_t nbytes) {
  return bytes.subspan(static_cast<std::size_t>(first), nbytes);
}

/// Reads into the middle of a buffer of marks; says what is wrong, or "ok".
std::string read_and_compare(const FileExtent& extent, std::uint64_t at, std::size_t nbytes,
                             std::span<const std::byte> content) {
  std::vector<std::byte> seen(nbytes + 16, std::byte{0xA5});
  const auto read = io::read_exact(extent, at, std::span(seen).subspan(8, nbytes), "test");
  if (!read) return read.error().message();
  std::vector<std::byte> expected(nbytes + 16, std::byte{0xA5});
  std::ranges::copy(part(content, extent.offset + at, nbytes), expected.begin() + 8);
  return seen == expected ? "ok" : "other bytes";
}

TEST_CASE("every offset and length of a small file") {
  const auto content = random_bytes(24, 1);
  const Nameless file(content);
  for (std::uint64_t offset = 0; offset <= 24; ++offset) {
    for (std::uint64_t size = 0; size <= 24 - offset; ++size) {
      for (std::uint64_t at = 0; at <= size; ++at) {
        for (std::size_t nbytes = 0; nbytes <= size - at; ++nbytes) {
          if (read_and_compare(file.extent(offset, size), at, nbytes, content) == "ok") continue;
          CAPTURE(offset, size, at, nbytes);
          CHECK(read_and_compare(file.extent(offset, size), at, nbytes, content) == "ok");
        }
      }
    }
  }
}

TEST_CASE("random runs of a larger file") {
  const auto content = random_bytes(1 << 20, 2);
  const Nameless file(content);
  std::mt19937 random(7);
  for (std::size_t round = 0; round < scaled(300); ++round) {
    const std::uint64_t offset = random() % content.size();
    const std::uint64_t size = random() % (content.size() - offset + 1);
    const std::uint64_t at = random() % (size + 1);
    const std::size_t nbytes = random() % (size - at + 1);
    CAPTURE(offset, size, at, nbytes);
    CHECK(read_and_compare(file.extent(offset, size), at, nbytes, content) == "ok");
  }
}

TEST_CASE("signals and partial reads end nothing") {
  const auto content = random_bytes(5000, 3);
  const Nameless file(content);
  std::vector<std::byte> seen(4000);
  Scripted::reset([](std::size_t nth, std::size_t) -> ssize_t {
    return nth % 3 == 2 ? static_cast<ssize_t>(1 + nth % 97) : -EINTR;
  });
  CHECK(message(io::read_exact(file.extent(500, 4500), 100, seen, "test", scripted)) == "ok");
  CHECK(std::ranges::equal(seen, part(content, 600, 4000)));
  CHECK(Scripted::calls.size() > 100);
  CHECK(Scripted::calls.front().offset == 600);
}

TEST_CASE("a file that ends within its extent is a short read, never zeros") {
  const auto content = random_bytes(1000, 4);
  const Nameless file(content);
  std::vector<std::byte> seen(300, std::byte{0xEE});
  for (const std::uint64_t present : {0, 1, 299}) {
    CAPTURE(present);
    std::ranges::fill(seen, std::byte{0xEE});
    const std::uint64_t offset = 1000 - present;
    const auto read = io::read_exact({file.fd(), offset, 300}, 0, seen, "test");
    REQUIRE(outcome(read) == "short_read");
    CHECK(read.error().asked() == 300U);
    CHECK(read.error().done() == present);
    CHECK(read.error().position() == offset);
    CHECK(std::ranges::equal(part(seen, 0, present), part(content, offset, present)));
    CHECK(std::ranges::count(seen, std::byte{0xEE}) >= static_cast<std::ptrdiff_t>(300 - present));
  }
  CHECK(message(io::read_exact({file.fd(), 990, 20}, 0, std::span(seen).first(20), "test")) ==
        "test pread: the file ended early, asked 20 bytes, at byte 990, 10 bytes done");
}

TEST_CASE("a file that is truncated while it is read is a short read") {
  const auto content = random_bytes(4096, 5);
  const Nameless file(content);
  std::vector<std::byte> seen(4096);
  Scripted::reset([](std::size_t, std::size_t) -> ssize_t { return 1000; });
  Scripted::after = [&](std::size_t nth) {
    if (nth == 1) file.resize(2500);
  };
  const auto read = io::read_exact(file.extent(), 0, seen, "test", scripted);
  REQUIRE(outcome(read) == "short_read");
  CHECK(read.error().done() == 2500U);
  CHECK(std::ranges::equal(part(seen, 0, 2500), part(content, 0, 2500)));
}

TEST_CASE("a system that refuses is an error with its status, and with what was done") {
  const auto content = random_bytes(4096, 6);
  const Nameless file(content);
  std::vector<std::byte> seen(4096);
  Scripted::reset([](std::size_t nth, std::size_t) -> ssize_t { return nth < 2 ? 700 : -EIO; });
  const auto read = io::read_exact(file.extent(), 0, seen, "test", scripted);
  REQUIRE(outcome(read) == "io");
  CHECK(read.error().status() == EIO);
  CHECK(read.error().message() == "pread: EIO (5), asked 4096 bytes, at byte 0, 1400 bytes done");

  CHECK(message(io::read_exact({-1, 0, 5}, 0, std::span(seen).first(5), "test")) ==
        "pread: EBADF (9), asked 5 bytes, at byte 0, 0 bytes done");
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK(io::read_exact({ends[0], 0, 5}, 0, std::span(seen).first(5), "test").error().status_name() ==
        "ESPIPE");
  ::close(ends[0]);
  ::close(ends[1]);
  const int folder = ::open("/tmp", O_RDONLY | O_DIRECTORY);
  CHECK(io::read_exact({folder, 0, 5}, 0, std::span(seen).first(5), "test").error().status_name() ==
        "EISDIR");
  ::close(folder);
}

TEST_CASE("what lies outside is refused before the system is asked") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t end = io::max_file_bytes;
  const Nameless file(random_bytes(100, 7));
  std::vector<std::byte> seen(10);
  Scripted::reset([](std::size_t, std::size_t) -> ssize_t { return 1; });
  const auto read = [&](std::uint64_t offset, std::uint64_t size, std::uint64_t at) {
    return outcome(io::read_exact(file.extent(offset, size), at, seen, "test", scripted));
  };
  CHECK(read(0, 9, 0) == "out_of_range");
  CHECK(read(0, 100, 91) == "out_of_range");
  CHECK(read(0, 100, most) == "out_of_range");
  CHECK(read(0, 100, most - 5) == "out_of_range");
  CHECK(read(most, 100, 0) == "out_of_range");
  CHECK(read(most - 50, 100, 45) == "out_of_range");
  CHECK(read(end, 100, 0) == "out_of_range");
  CHECK(read(end - 99, 100, 0) == "out_of_range");
  CHECK(read(0, most, 0) == "out_of_range");
  CHECK(outcome(io::write_exact(file.fd(), end - 9, seen, "test", scripted)) == "out_of_range");
  CHECK(outcome(io::write_exact(file.fd(), most, seen, "test", scripted)) == "out_of_range");
  CHECK(Scripted::calls.empty());
  CHECK(outcome(io::read_exact(file.extent(end - 10, 10), 0, seen, "test")) == "short_read");
}

TEST_CASE("0 bytes ask nothing") {
  Scripted::reset([](std::size_t, std::size_t) -> ssize_t { return -EIO; });
  CHECK(message(io::read_exact({}, 0, {}, "test", scripted)) == "ok");
  CHECK(message(io::write_exact(-1, 5, {}, "test", scripted)) == "ok");
  CHECK(Scripted::calls.empty());
}

TEST_CASE("holes of a sparse file read as zeros, and what lies behind 4 GiB is there") {
  constexpr std::uint64_t far = (std::uint64_t{5} << 30U) + 3;
  const auto content = random_bytes(1000, 8);
  const Nameless file;
  file.write(content, far);
  std::vector<std::byte> seen(1500);
  CHECK(message(io::read_exact(file.extent(), far - 500, seen, "test")) == "ok");
  CHECK(std::ranges::all_of(part(seen, 0, 500), [](std::byte b) { return b == std::byte{0}; }));
  CHECK(std::ranges::equal(part(seen, 500, 1000), content));
}

/// More address space than memory: the same pages over and over.
class Wheel {
 public:
  static constexpr std::size_t turn = std::size_t{32} << 20U;

  explicit Wheel(std::size_t turns) : nbytes_(turns * turn) {
    void* const reserved =
        ::mmap(nullptr, nbytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(reserved != MAP_FAILED);
    data_ = static_cast<std::byte*>(reserved);
    const Nameless pages;
    pages.resize(turn);
    for (std::size_t i = 0; i < turns; ++i) {
      REQUIRE(::mmap(data_ + i * turn, turn, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages.fd(), 0) !=
              MAP_FAILED);
    }
  }
  Wheel(const Wheel&) = delete;
  ~Wheel() { ::munmap(data_, nbytes_); }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, nbytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t nbytes_;
};

TEST_CASE("more than 2 GiB in one call") {
  const Wheel wheel(66);
  constexpr std::size_t nbytes = 66 * Wheel::turn;
  static_assert(nbytes > (std::size_t{1} << 31U));
  const auto content = random_bytes(4097, 9);
  const Nameless file;
  file.resize(nbytes - content.size());
  file.write(content, nbytes - content.size());

  CHECK(message(io::read_exact(file.extent(), 0, wheel.bytes(), "test")) == "ok");
  CHECK(std::ranges::equal(wheel.bytes().last(content.size()), content));
  CHECK(std::ranges::all_of(wheel.bytes().last(Wheel::turn).first(4096),
                            [](std::byte b) { return b == std::byte{0}; }));

  // Never more at a time than every system takes.
  Scripted::reset([](std::size_t, std::size_t n) { return static_cast<ssize_t>(n); });
  CHECK(message(io::read_exact(file.extent(), 0, wheel.bytes(), "test", scripted)) == "ok");
  for (const auto& call : Scripted::calls) CHECK(call.nbytes <= 0x7ffff000U);
}

TEST_CASE("writes go on after signals and partial writes") {
  const auto content = random_bytes(3000, 10);
  const Nameless file(random_bytes(100, 11));
  Scripted::reset([](std::size_t nth, std::size_t) -> ssize_t { return nth % 2 == 0 ? -EINTR : 61; });
  CHECK(message(io::write_exact(file.fd(), 50, content, "test", scripted)) == "ok");
  CHECK(file.nbytes() == 3050);
  std::vector<std::byte> seen(3050);
  REQUIRE(::pread(file.fd(), seen.data(), seen.size(), 0) == 3050);
  CHECK(std::ranges::equal(part(seen, 50, 3000), content));
  CHECK(std::ranges::equal(part(seen, 0, 50), part(random_bytes(100, 11), 0, 50)));
}

TEST_CASE("a write that the system cuts off is an error, with what was done") {
  const auto content = random_bytes(3000, 12);
  const Nameless file;
  Scripted::reset([](std::size_t nth, std::size_t) -> ssize_t { return nth < 3 ? 400 : -ENOSPC; });
  CHECK(message(io::write_exact(file.fd(), 7, content, "test", scripted)) ==
        "pwrite: ENOSPC (28), asked 3000 bytes, at byte 7, 1200 bytes done");
  Scripted::reset([](std::size_t nth, std::size_t) -> ssize_t { return nth < 1 ? 400 : 0; });
  const auto stuck = io::write_exact(file.fd(), 7, content, "test", scripted);
  CHECK(outcome(stuck) == "io");
  CHECK(stuck.error().done() == 400U);
  CHECK(message(io::write_exact(-1, 0, content, "test")) ==
        "pwrite: EBADF (9), asked 3000 bytes, at byte 0, 0 bytes done");
}

}  // namespace
