// SPDX-License-Identifier: MIT
#include <berth/disk/allocator.hpp>

#include "disk/temporary.hpp"
#include "support/conformance.hpp"
#include "support/outcome.hpp"

namespace {

using namespace berth;
using berth_test::Skips;

// A file has no addresses, no maps, no queue, and is no host memory.
const Skips typed{"alignment",  "maps", "queues", "external_memory", "buffers_of_another_backend",
                  "above_4_gib"};
const Skips packed{"alignment", "maps", "queues", "external_memory", "above_4_gib"};

TEST_CASE("scratch space on disk conforms") {
  const temporary::Folder folder;
  berth_test::require_conformance_in_every_form<disk::Allocator>(
      [&] { return disk::Allocator::open(folder.path()); }, typed, packed);
}

TEST_CASE("scratch space behind the bytes of the caller's file conforms") {
  const auto content = temporary::random_bytes(5001, 1);
  std::vector<std::unique_ptr<temporary::Nameless>> files;
  berth_test::require_conformance<disk::Allocator>(
      [&] {
        files.push_back(std::make_unique<temporary::Nameless>(content));
        return disk::Allocator::borrow(files.back()->fd(), {.limit_bytes = std::uint64_t{1} << 30U});
      },
      typed);
  for (const auto& file : files) {
    CHECK(file->nbytes() == content.size());
    std::vector<std::byte> seen(content.size());
    REQUIRE(::pread(file->fd(), seen.data(), seen.size(), 0) == static_cast<ssize_t>(seen.size()));
    CHECK((seen == content));
  }
}

}  // namespace
