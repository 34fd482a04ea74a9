// SPDX-License-Identifier: MIT
#include <berth/host/allocator.hpp>

#include "support/conformance.hpp"

namespace {

using berth_test::Skips;
namespace host = berth::host;

const Skips typed{"queues", "buffers_of_another_backend", "above_4_gib"};
const Skips packed{"queues", "above_4_gib"};

TEST_CASE("host memory conforms") {
  berth_test::require_conformance_in_every_form<host::Allocator>([] { return host::Allocator::open(); },
                                                                 typed, packed);
}

TEST_CASE("host memory conforms at a page's alignment, with huge pages") {
  berth_test::require_conformance<host::Allocator>(
      [] { return host::Allocator::open({.alignment = 4096, .huge_pages = true}); }, typed);
}

}  // namespace
