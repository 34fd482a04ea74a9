// SPDX-License-Identifier: MIT
// What can be opened, what cannot, and why; extents.
#include <berth/disk/file.hpp>
#include <berth/host/allocator.hpp>
#include <berth/io/exact.hpp>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <limits>

#include "disk/temporary.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"

using namespace berth;
using disk::File;
using temporary::Folder;
using temporary::Nameless;
using temporary::random_bytes;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST_CASE("a file gives its bytes, and stays as it is") {
  const Folder folder;
  const std::string path = folder / "data";
  const auto content = random_bytes(10000, 1);
  temporary::write_file(path, content);
  auto file = File::open(path);
  REQUIRE(message(file) == "ok");
  CHECK(file->nbytes() == 10000);
  const FileExtent all = file->extent();
  CHECK(all.offset == 0);
  CHECK(all.nbytes == 10000);
  std::vector<std::byte> seen(10000);
  CHECK(message(io::read_exact(all, 0, seen, "test")) == "ok");
  CHECK((seen == content));
  CHECK(::pwrite(all.fd, seen.data(), 1, 0) < 0);
  CHECK((temporary::read_file(path) == content));
}

TEST_CASE("extents are held to the file") {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const Nameless source(random_bytes(100, 2));
  const auto file = File::borrow(source.fd());
  REQUIRE(message(file) == "ok");
  const auto part = file->extent(40, 60);
  REQUIRE(message(part) == "ok");
  CHECK(*part == FileExtent{file->extent().fd, 40, 60});
  CHECK(message(file->extent(100, 0)) == "ok");
  CHECK(message(file->extent(40, 61)) ==
        "disk extent: out of range, asked 61 bytes, at byte 40, there are 100 bytes");
  CHECK(outcome(file->extent(101, 0)) == "out_of_range");
  CHECK(outcome(file->extent(0, most)) == "out_of_range");
  CHECK(outcome(file->extent(most, 1)) == "out_of_range");
  CHECK(outcome(file->extent(most, most)) == "out_of_range");
}

TEST_CASE("what is no regular file is refused by what it is, and nothing is made") {
  const Folder folder;
  CHECK(message(File::open(folder.path())) ==
        "disk open: invalid argument (a directory, not a regular file)");

  const std::string fifo = folder / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(message(File::open(fifo)) == "disk open: invalid argument (a pipe or FIFO, not a regular file)");

  const std::string socket_path = folder / "socket";
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(message(File::open(socket_path)) == "disk open: invalid argument (a socket, not a regular file)");
  ::close(socket);

  CHECK(message(File::open("/dev/null")) ==
        "disk open: invalid argument (a character device, not a regular file)");

  CHECK(message(File::open(folder / "missing")) == "open: ENOENT (2) (no such file or directory)");
  CHECK_FALSE(std::filesystem::exists(folder / "missing"));
  CHECK(message(File::open(folder / "missing/below")) == "open: ENOENT (2) (no such file or directory)");
  CHECK(File::open(fifo + "/below").error().status_name() == "ENOTDIR");
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(File::open(folder / "loop").error().status_name() == "ELOOP");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  CHECK(File::open(folder / "dangling").error().status() == ENOENT);
  CHECK(message(File::open("")) == "disk open: invalid argument (the path is empty)");
  temporary::write_file(folder / "a", {});
  CHECK(message(File::open((folder / "a") + std::string("\0b", 2))) ==
        "disk open: invalid argument (the path holds a zero byte)");
}

TEST_CASE("symbolic links are followed") {
  const Folder folder;
  temporary::write_file(folder / "data", random_bytes(10, 3));
  std::filesystem::create_symlink("data", folder / "link");
  const auto file = File::open(folder / "link");
  REQUIRE(message(file) == "ok");
  CHECK(file->nbytes() == 10);
}

TEST_CASE("a file of 0 bytes is a file") {
  const Folder folder;
  temporary::write_file(folder / "empty", {});
  const auto file = File::open(folder / "empty");
  REQUIRE(message(file) == "ok");
  CHECK(file->nbytes() == 0);
  CHECK(message(file->extent(0, 0)) == "ok");
  CHECK(outcome(file->extent(0, 1)) == "out_of_range");
  auto host = host::Allocator::open();
  const auto buf = host->alloc(4);
  CHECK(message(host->copy_from_disk(*buf, file->extent(), 0)) == "ok");
  CHECK(outcome(host->copy_from_disk(*buf, file->extent(), 1)) == "out_of_range");
  host->free(*buf, 4);
}

TEST_CASE("without permission there is no file") {
  const Folder folder;
  temporary::write_file(folder / "secret", random_bytes(10, 4));
  REQUIRE(::chmod((folder / "secret").c_str(), 0) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  // As nobody, in this thread alone: the system call, unlike the C library's, changes no other.
  constexpr uid_t nobody = 65534;
  const uid_t before = ::geteuid();
  const bool root = before == 0;
  if (root) REQUIRE(::syscall(SYS_setresuid, -1, nobody, -1) == 0);
  const std::string said = message(File::open(folder / "secret"));
  if (root) REQUIRE(::syscall(SYS_setresuid, -1, before, -1) == 0);
  CHECK(said == "open: EACCES (13) (no permission)");
}

TEST_CASE("descriptors are closed with the file") {
  const Folder folder;
  temporary::write_file(folder / "data", random_bytes(10, 5));
  const std::size_t before = temporary::open_descriptors();
  {
    auto first = File::open(folder / "data");
    auto second = File::open(folder / "data");
    REQUIRE(message(first) == "ok");
    REQUIRE(message(second) == "ok");
    const int fd = first->extent().fd;
    const int replaced = second->extent().fd;
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    *second = std::move(*first);
    CHECK_FALSE(is_open(replaced));
    CHECK(is_open(fd));
    CHECK(second->nbytes() == 10);
    CHECK(first->nbytes() == 0);
    CHECK(first->extent() == FileExtent{-1, 0, 0});
    File& same = *second;
    *second = std::move(same);
    CHECK(second->extent() == FileExtent{fd, 0, 10});
  }
  CHECK(outcome(File::open(folder.path())) == "invalid_argument");
  CHECK(temporary::open_descriptors() == before);
}

TEST_CASE("descriptors of the caller's are adopted or borrowed") {
  const Folder folder;
  const std::string path = folder / "data";
  temporary::write_file(path, random_bytes(10, 6));
  const std::size_t before = temporary::open_descriptors();
  const int own = ::open(path.c_str(), O_RDONLY);
  {
    const auto borrowed = File::borrow(own);
    REQUIRE(message(borrowed) == "ok");
    CHECK(borrowed->extent().fd != own);
    CHECK(borrowed->nbytes() == 10);
  }
  CHECK(is_open(own));
  {
    const auto adopted = File::adopt(own);
    REQUIRE(message(adopted) == "ok");
    CHECK(adopted->extent().fd == own);
  }
  CHECK_FALSE(is_open(own));

  const auto refused = [&](int fd) {
    const std::string borrowed = message(File::borrow(fd));
    CHECK(message(File::adopt(fd)) == borrowed);
    CHECK(is_open(fd));  // the caller keeps what was not adopted
    ::close(fd);
    return borrowed;
  };
  CHECK(refused(::open(path.c_str(), O_WRONLY)) ==
        "disk adopt: invalid argument (the descriptor is not open for reading)");
  CHECK(refused(::open(path.c_str(), O_PATH)) ==
        "disk adopt: invalid argument (the descriptor is not open for reading)");
  CHECK(refused(::open(folder.path().c_str(), O_RDONLY)) ==
        "disk adopt: invalid argument (a directory, not a regular file)");
  CHECK(refused(::open("/dev/null", O_RDONLY)) ==
        "disk adopt: invalid argument (a character device, not a regular file)");
  if (const int direct = ::open(path.c_str(), O_RDONLY | O_DIRECT); direct >= 0) {
    CHECK(refused(direct) ==
          "disk adopt: invalid argument (the descriptor is open for direct transfers (O_DIRECT))");
  }
  CHECK(File::adopt(-1).error().status_name() == "EBADF");
  CHECK(File::borrow(-1).error().status_name() == "EBADF");
  CHECK(temporary::open_descriptors() == before);
}

TEST_CASE("a file is as large as it was when it was opened") {
  const Folder folder;
  const std::string path = folder / "data";
  const auto content = random_bytes(1000, 7);
  temporary::write_file(path, content);
  const auto file = File::open(path);
  REQUIRE(message(file) == "ok");
  std::filesystem::resize_file(path, 2000);
  CHECK(outcome(file->extent(0, 1001)) == "out_of_range");
  std::filesystem::resize_file(path, 600);
  std::vector<std::byte> seen(1000);
  const auto read = io::read_exact(file->extent(), 0, seen, "test");
  REQUIRE(outcome(read) == "short_read");
  CHECK(read.error().done() == 600U);
}

TEST_CASE("a sparse file of more than 4 GiB") {
  constexpr std::uint64_t size = (std::uint64_t{6} << 30U) + 1;
  const Folder folder;
  const std::string path = folder / "sparse";
  const auto content = random_bytes(5000, 8);
  {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    REQUIRE(::pwrite(fd, content.data(), content.size(), static_cast<off_t>(size - content.size())) == 5000);
    ::close(fd);
  }
  const auto file = File::open(path);
  REQUIRE(message(file) == "ok");
  CHECK(file->nbytes() == size);
  const auto tail = file->extent(size - 6000, 6000);
  REQUIRE(message(tail) == "ok");
  auto host = host::Allocator::open();
  const auto buf = host->alloc(6000);
  CHECK(host->copy_from_disk(*buf, *tail, 6000) == DiskCopy{.direct = 6000});
  CHECK((std::ranges::all_of(buf->bytes().first(1000), [](std::byte b) { return b == std::byte{0}; })));
  CHECK(std::ranges::equal(buf->bytes().subspan(1000), content));
  host->free(*buf, 6000);
  CHECK(std::filesystem::file_size(path) == size);
}

}  // namespace
