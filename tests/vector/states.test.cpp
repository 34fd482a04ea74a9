// SPDX-License-Identifier: MIT
// Every event at every location, on devices made of host memory: with copies, and linked by a framework of
// the user's own that shadows.
#include "support/state_table.hpp"
#include "support/toy_framework.hpp"

using namespace berth;

TEST_CASE("the table holds for a vector with copies") {
  state_table::check({.first = toy::device("a"), .second = toy::device("b"), .attach = {}});
}

TEST_CASE("the table holds for a vector that a user's own framework shadows") {
  const toy::Framework framework;
  state_table::check({.first = framework.first,
                      .second = framework.second,
                      .attach = [](state_table::Bytes& vector, const device::Device& device) {
                        REQUIRE(state_table::message(host_ptr::attach(vector, device)) == "ok");
                      }});
  CHECK(framework.links->live == 0);
}

TEST_CASE("a location is told in words") {
  const device::Device device = toy::device("toy");
  CHECK(to_string(Location{}) == "CPU");
  CHECK(to_string(Location{Location::State::stale_cpu, device}) == "Stale_CPU toy 0");
  CHECK(to_string(Location{Location::State::gpu, device}) == "GPU toy 0");
}
