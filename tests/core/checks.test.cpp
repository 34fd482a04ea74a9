// SPDX-License-Identifier: MIT
#include <berth/core/checks.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"

using namespace berth;

namespace {

AllocatorInfo info_of(InstanceId instance) {
  AllocatorInfo info;
  info.backend = "test";
  info.instance = instance;
  return info;
}
models::SmallBuffer buffer(std::size_t nbytes, InstanceId instance, bool view = false) {
  return {{nullptr, nbytes, instance, view}};
}

}  // namespace

TEST_CASE("a range is inside exactly when its sum is, in numbers that cannot wrap") {
  const auto inside = [](std::uint64_t nbytes, std::uint64_t byte_offset, std::uint64_t available) {
    return outcome(checks::range(nbytes, byte_offset, available, "test", "call"));
  };
  for (std::uint64_t available = 0; available < 6; ++available) {
    for (std::uint64_t nbytes = 0; nbytes < 8; ++nbytes) {
      for (std::uint64_t byte_offset = 0; byte_offset < 8; ++byte_offset) {
        INFO(nbytes << " at " << byte_offset << " of " << available);
        CHECK(inside(nbytes, byte_offset, available) ==
              (nbytes + byte_offset <= available ? "ok" : "out_of_range"));
        CHECK(inside(UINT64_MAX - nbytes, byte_offset, available) == "out_of_range");
        CHECK(inside(nbytes, UINT64_MAX - byte_offset, available) == "out_of_range");
      }
    }
  }
  CHECK(inside(UINT64_MAX, 0, UINT64_MAX) == "ok");
  CHECK(inside(0, UINT64_MAX, UINT64_MAX) == "ok");
  CHECK(inside(1, UINT64_MAX, UINT64_MAX) == "out_of_range");
  CHECK(inside(UINT64_MAX, 1, UINT64_MAX) == "out_of_range");
  CHECK(message(checks::range(9, 4, 8, "test", "call")) ==
        "test call: out of range, asked 9 bytes, at byte 4, there are 8 bytes");
}

TEST_CASE("a buffer of another instance is told before its bounds") {
  const AllocatorInfo info = info_of({1});
  CHECK(outcome(checks::own(buffer(8, {1}), info, "call")) == "ok");
  CHECK(message(checks::own(buffer(8, {2}), info, "call")) ==
        "test call: wrong allocator (the buffer is of another instance)");
  CHECK(outcome(checks::own(buffer(8, {}), info, "call")) == "wrong_allocator");
  CHECK(outcome(checks::access(buffer(8, {1}), 4, 4, info, "call")) == "ok");
  CHECK(outcome(checks::access(buffer(8, {1}), 4, 5, info, "call")) == "out_of_range");
  CHECK(outcome(checks::access(buffer(8, {2}), 4, 5, info, "call")) == "wrong_allocator");
}

TEST_CASE("only a root of this instance is freeable; of others the reason is reported") {
  Reports reports;
  const AllocatorInfo info = info_of({1});
  CHECK(checks::freeable(buffer(8, {1}), info));
  CHECK(reports.take().empty());
  CHECK_FALSE(checks::freeable(buffer(8, {2}), info));
  CHECK(reports.take() ==
        std::vector<std::string>{
            "test free: wrong allocator (the buffer is of another instance; left alone), asked 8 bytes"});
  CHECK_FALSE(checks::freeable(buffer(8, {1}, true), info));
  CHECK(reports.take() ==
        std::vector<std::string>{
            "test free: invalid argument (a view owns nothing; left alone), asked 8 bytes"});
}

TEST_CASE("two runs of bytes overlap when they share one") {
  for (std::uint64_t a = 0; a < 6; ++a) {
    for (std::uint64_t b = 0; b < 6; ++b) {
      for (std::uint64_t nbytes = 0; nbytes < 6; ++nbytes) {
        bool shared = false;
        for (std::uint64_t i = 0; i < nbytes; ++i) shared = shared || (a + i >= b && a + i < b + nbytes);
        INFO(a << " and " << b << ", " << nbytes << " bytes");
        CHECK(checks::overlapping(a, b, nbytes) == shared);
      }
    }
  }
  CHECK_FALSE(checks::overlapping(0, UINT64_MAX, UINT64_MAX));
  CHECK(checks::overlapping(1, UINT64_MAX, UINT64_MAX));
  CHECK(checks::overlapping(UINT64_MAX, UINT64_MAX - 1, 2));
}
