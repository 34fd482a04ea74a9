// SPDX-License-Identifier: MIT
// Saving buffers, whole or not at all as an error says.
#include <berth/disk/file.hpp>
#include <berth/disk/writable_file.hpp>
#include <berth/host/allocator.hpp>
#include <berth/io/exact.hpp>

#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <limits>

#include "disk/small_disk.hpp"
#include "disk/temporary.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"

using namespace berth;
using disk::WritableFile;
using disk::WriteMode;
using models::Counts;
using temporary::Folder;
using temporary::random_bytes;
using temporary::read_file;

namespace {

Buffer buffer_with(const PackedAllocator& allocator, std::span<const std::byte> bytes) {
  auto buffer = Buffer::create(allocator, bytes.size());
  REQUIRE(message(buffer) == "ok");
  REQUIRE(message(buffer->copyin(bytes)) == "ok");
  return std::move(*buffer);
}
Buffer host_buffer_with(std::span<const std::byte> bytes) {
  auto host = host::Allocator::open();
  REQUIRE(message(host) == "ok");
  return buffer_with(pack(*host), bytes);
}

std::vector<std::byte> with(std::vector<std::byte> bytes, std::span<const std::byte> part, std::size_t at) {
  bytes.resize(std::max(bytes.size(), at + part.size()));
  std::ranges::copy(part, bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return bytes;
}

TEST_CASE("a file is opened as the mode says") {
  const Folder folder;
  const auto old = random_bytes(50, 1);
  temporary::write_file(folder / "old", old);
  CHECK(message(WritableFile::open(folder / "new")) == "open: ENOENT (2) (no such file or directory)");
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  CHECK(message(WritableFile::open(folder / "old")) == "ok");
  CHECK((read_file(folder / "old") == old));
  CHECK(message(WritableFile::open(folder / "old", WriteMode::create)) == "ok");
  CHECK((read_file(folder / "old") == old));
  CHECK(message(WritableFile::open(folder / "made", WriteMode::create)) == "ok");
  CHECK(read_file(folder / "made").empty());
  CHECK(message(WritableFile::open(folder / "old", WriteMode::replace)) == "ok");
  CHECK(read_file(folder / "old").empty());
  CHECK(message(WritableFile::open(folder / "other", WriteMode::replace)) == "ok");
  CHECK(read_file(folder / "other").empty());

  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  for (const WriteMode mode : {WriteMode::existing, WriteMode::create, WriteMode::replace}) {
    CHECK(message(WritableFile::open(folder.path(), mode)) ==
          "disk open: invalid argument (a directory, not a regular file)");
    CHECK(message(WritableFile::open(folder / "fifo", mode)) ==
          "disk open: invalid argument (a pipe or FIFO, not a regular file)");
    CHECK(outcome(WritableFile::open("/dev/full", mode)) == "invalid_argument");
  }
}

TEST_CASE("descriptors must be of a regular file, writable, and where the offset counts") {
  const Folder folder;
  const std::string path = folder / "data";
  temporary::write_file(path, random_bytes(10, 2));
  const auto refused = [&](int fd) {
    const std::string borrowed = message(WritableFile::borrow(fd));
    CHECK(message(WritableFile::adopt(fd)) == borrowed);
    CHECK(::close(fd) == 0);
    return borrowed;
  };
  CHECK(refused(::open(path.c_str(), O_RDONLY)) ==
        "disk adopt: invalid argument (the descriptor is not open for writing)");
  CHECK(refused(::open(path.c_str(), O_RDWR | O_APPEND)) ==
        "disk adopt: invalid argument (the descriptor is open for appending (O_APPEND))");
  CHECK(refused(::open("/dev/null", O_WRONLY)) ==
        "disk adopt: invalid argument (a character device, not a regular file)");

  const std::size_t before = temporary::open_descriptors();
  const int own = ::open(path.c_str(), O_WRONLY);
  const auto part = random_bytes(4, 3);
  {
    const auto borrowed = WritableFile::borrow(own);
    REQUIRE(message(borrowed) == "ok");
    CHECK(message(borrowed->write(host_buffer_with(part), 3)) == "ok");
  }
  CHECK((read_file(path) == with(random_bytes(10, 2), part, 3)));
  {
    CHECK(message(WritableFile::adopt(own)) == "ok");
  }
  CHECK(temporary::open_descriptors() == before);
}

TEST_CASE("a buffer is saved where it should be, and nothing else changes") {
  const Folder folder;
  const std::string path = folder / "data";
  for (const std::size_t nbytes :
       {std::size_t{1}, std::size_t{4095}, std::size_t{4097}, (std::size_t{9} << 20U) + 5}) {
    for (const std::size_t at : {0, 1, 511, 4096, 70001}) {
      CAPTURE(nbytes, at);
      const auto old = random_bytes(60000, 4);
      const auto bytes = random_bytes(nbytes, 5);
      // Through its own bytes, and through copies.
      models::Rich<'a'> model;
      for (const Buffer& buffer : {host_buffer_with(bytes), buffer_with(pack(model), bytes)}) {
        temporary::write_file(path, old);
        const auto file = WritableFile::open(path);
        REQUIRE(message(file) == "ok");
        CHECK(message(file->write(buffer, at)) == "ok");
        CHECK(message(file->sync()) == "ok");
        CHECK((read_file(path) == with(old, bytes, at)));
      }
    }
  }
}

TEST_CASE("a gap is zeros; a place over 4 GiB is a place") {
  constexpr std::uint64_t far = (std::uint64_t{5} << 30U) + 7;
  const Folder folder;
  const auto bytes = random_bytes(100, 6);
  const auto file = WritableFile::open(folder / "data", WriteMode::create);
  REQUIRE(message(file) == "ok");
  CHECK(message(file->write(host_buffer_with(bytes), far)) == "ok");
  const auto saved = disk::File::open(folder / "data");
  REQUIRE(message(saved) == "ok");
  CHECK((saved->nbytes() == far + 100));
  std::vector<std::byte> seen(200);
  CHECK(message(io::read_exact(saved->extent(), far - 100, seen, "test")) == "ok");
  CHECK((std::ranges::all_of(std::span(seen).first(100), [](std::byte b) { return b == std::byte{0}; })));
  CHECK(std::ranges::equal(std::span(seen).subspan(100), bytes));
  CHECK(outcome(file->write(host_buffer_with(bytes), io::max_file_bytes - 99)) == "out_of_range");
  CHECK(outcome(file->write(host_buffer_with(bytes), std::numeric_limits<std::uint64_t>::max())) ==
        "out_of_range");
}

TEST_CASE("how the bytes are fetched depends on what the buffer can") {
  const Folder folder;
  const std::size_t nbytes = (std::size_t{9} << 20U) + 1;
  const auto bytes = random_bytes(nbytes, 7);
  const auto file = WritableFile::open(folder / "data", WriteMode::create);
  REQUIRE(message(file) == "ok");
  models::Rich<'a'> model;
  Buffer buffer = buffer_with(pack(model), bytes);
  static_cast<void>(model.state().calls());
  CHECK(message(file->write(buffer, 0)) == "ok");
  CHECK(model.state().calls() == Counts{{"offset", 3}, {"copyout", 3}});

  model.state().info.shares_host_memory = true;
  CHECK(message(file->write(buffer, 0)) == "ok");
  CHECK(model.state().calls() == Counts{{"map", 1}, {"unmap", 1}});
  CHECK(model.state().open_maps() == 0);

  models::Plain<models::MoveOnlyBuffer> plain;
  const Buffer whole = buffer_with(pack(plain), bytes);
  static_cast<void>(plain.state().calls());
  CHECK(message(file->write(whole, 0)) == "ok");
  CHECK(plain.state().calls() == Counts{{"copyout", 1}});
  CHECK((read_file(folder / "data") == bytes));

  auto view = buffer.view(1000, nbytes - 1001);
  REQUIRE(message(view) == "ok");
  CHECK(message(file->write(*view, 5)) == "ok");
  CHECK((read_file(folder / "data") == with(bytes, std::span(bytes).subspan(nbytes - 1001, 1000), 5)));
}

TEST_CASE("nothing to save, and nothing at all") {
  const Folder folder;
  const auto file = WritableFile::open(folder / "data", WriteMode::create);
  REQUIRE(message(file) == "ok");
  CHECK(message(file->write(host_buffer_with({}), 1000)) == "ok");
  CHECK(read_file(folder / "data").empty());
  CHECK(message(file->write(Buffer(), 0)) == "disk write: invalid argument (the Buffer is empty)");
}

TEST_CASE("a failing allocator's error has the numbers of the whole") {
  const Folder folder;
  const std::size_t nbytes = std::size_t{9} << 20U;
  const auto file = WritableFile::open(folder / "data", WriteMode::create);
  REQUIRE(message(file) == "ok");
  models::Rich<'a'> model;
  const Buffer buffer = buffer_with(pack(model), random_bytes(nbytes, 8));
  model.state().refuse("copyout", Errc::device_lost, 1);
  CHECK(message(file->write(buffer, 0)) ==
        "a copyout: the device is lost (told to refuse), asked 9437184 bytes, 4194304 bytes done");
  CHECK(read_file(folder / "data").size() == 4194304);
  model.state().refuse_nothing();
  model.state().refuse("offset", Errc::device_lost, 2);
  CHECK(file->write(buffer, 0).error().done() == 8388608U);
  model.state().refuse_nothing();
  model.state().info.shares_host_memory = true;
  model.state().refuse("map", Errc::mapped);
  CHECK(outcome(file->write(buffer, 0)) == "mapped");
  model.state().refuse_nothing();
  model.state().refuse("unmap", Errc::device_lost);
  CHECK(outcome(file->write(buffer, 0)) == "device_lost");
  CHECK(model.state().open_maps() == 0);
  CHECK(message(file->write(buffer, 0)) != "ok");
  model.state().refuse_nothing();
  CHECK(message(file->write(buffer, 0)) == "ok");
}

TEST_CASE("a limit on the file's size cuts a save off") {
  const Folder folder;
  const auto file = WritableFile::open(folder / "data", WriteMode::create);
  REQUIRE(message(file) == "ok");
  const Buffer buffer = host_buffer_with(random_bytes(100000, 9));
  struct rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 65536;
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const auto cut = file->write(buffer, 1000);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(message(cut) == "pwrite: EFBIG (27), asked 100000 bytes, at byte 1000, 64536 bytes done");
  CHECK(message(file->write(buffer, 1000)) == "ok");
  CHECK(read_file(folder / "data").size() == 101000);
}

TEST_CASE("a full disk cuts a save off") {
  // The child has a disk of 1 MiB; what berth is used for before the fork would forbid it there.
  const std::string said = small_disk::run("writable_file: a full disk");
  if (said.starts_with("cannot")) {
    WARN(said);
    return;
  }
  CHECK(said == "pwrite: ENOSPC (28), asked 2097152 bytes, at byte 0, 1048576 bytes done");
}

}  // namespace

// In a process of its own, on a disk of 1 MiB.
TEST_CASE("writable_file: a full disk", "[.]") {
  small_disk::enter([](const std::string& folder) {
    const auto file = WritableFile::open(folder + "/data", WriteMode::create);
    const Buffer buffer = host_buffer_with(random_bytes(2 << 20, 10));
    return message(file->write(buffer, 0));
  });
}
