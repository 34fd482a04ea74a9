// SPDX-License-Identifier: MIT
#include <berth/io/os_error.hpp>

#include <berth/io/descriptor.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <type_traits>

#include "support/catch.hpp"

using namespace berth;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST_CASE("an errno has its name, and an error of it its sentence") {
  CHECK(std::string(io::errno_name(ENOENT)) == "ENOENT");
  CHECK(std::string(io::errno_name(EDQUOT)) == "EDQUOT");
  CHECK(std::string(io::errno_name(EOPNOTSUPP)) == "EOPNOTSUPP");
  CHECK(std::string(io::errno_name(0)).empty());
  CHECK(std::string(io::errno_name(12345)).empty());
  const Error named = io::os_error(ENOSPC, "pwrite", "disk");
  CHECK(named.code() == Errc::io);
  CHECK(named.status() == ENOSPC);
  CHECK(named.message() == "pwrite: ENOSPC (28)");
  CHECK(io::os_error(12345, "pwrite", "disk").message() == "pwrite: input/output error (status 12345)");
}

TEST_CASE("a descriptor is closed once, by its last owner") {
  static_assert(!std::is_copy_constructible_v<io::Descriptor>);
  const int first = ::open("/dev/null", O_RDONLY);
  const int second = ::open("/dev/null", O_RDONLY);
  REQUIRE(first >= 0);
  REQUIRE(second >= 0);
  {
    io::Descriptor a(first);
    io::Descriptor b(std::move(a));
    CHECK(a.get() == -1);
    CHECK(b.get() == first);
    io::Descriptor c(second);
    c = std::move(b);
    CHECK_FALSE(is_open(second));
    CHECK(is_open(first));
    io::Descriptor& same = c;
    c = std::move(same);
    CHECK(c.get() == first);
    CHECK(c.release() == first);
  }
  CHECK(is_open(first));
  {
    const io::Descriptor closing(first);
  }
  CHECK_FALSE(is_open(first));
  CHECK(io::Descriptor().get() == -1);
}

}  // namespace
