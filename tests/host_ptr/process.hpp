// SPDX-License-Identifier: MIT
// Links in forked children, and at the end of the process, on the driver of the fixture that was included
// before.
#pragma once

#include <optional>

#include "support/host_ptr_words.hpp"
#include "support/reports.hpp"

using namespace berth;
using namespace host_ptr_test;
using host_ptr::HostAccess;

namespace {

/// Destroyed past berth's exit hook.
struct Late {
  std::optional<Words> vector;
  std::optional<HostAccess<std::int32_t>> access;
  ~Late() {
    if (!vector) return;
    native::say("late read: " + outcome(vector->get(0)));
    access.reset();
    vector.reset();
    native::say("late links: done");
  }
} late;

template <class T>
bool forked(const Result<T>& result) {
  return outcome(result) == "forked";
}
bool forked(const host_ptr::HostPtrResult<void>& result) {
  const auto* const error = result ? nullptr : std::get_if<Error>(&result.error());
  if (error != nullptr && error->code() == Errc::forked) return true;
  native::say("in the child: " + message(result));
  return false;
}

}  // namespace

TEST_CASE("child: a fork with an attached vector", "[.]") {
  Rig rig;
  const Array array = Rig::zeros();
  auto vector = std::make_unique<Words>(rig.attached(array));
  {
    auto launch = launching(rig.device, inout(*vector));
    REQUIRE(message(launch) == "ok");
    rig.run(rig.put, *vector, 5);
  }
  auto other = std::make_unique<Words>(rig.attached(Rig::zeros()));
  auto access = HostAccess<std::int32_t>::open(*other, Access::read, 64, 0);
  REQUIRE(message(access) == "ok");
  Words fresh = Words::over(Rig::zeros());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good = forked(vector->get(2000)) && forked(vector->to_host()) &&
                      forked(host_ptr::acquire_device_writes(*vector, rig.device, 64, 1024)) &&
                      forked(host_ptr::publish_host_writes(*vector, rig.device, 64, 1024)) &&
                      forked(launching(rig.device, in(*vector))) && forked(vector->to_device(rig.device)) &&
                      forked(vector->fill(1)) && forked(vector->free_buffer(rig.device)) &&
                      forked(vector->free_all_buffers()) && forked(host_ptr::detach(*vector, rig.device)) &&
                      forked(HostAccess<std::int32_t>::open(*vector, Access::read)) &&
                      forked(rig.device.synchronize()) && rig.device.queues().empty() &&
                      forked(host_ptr::attach(fresh, rig.device)) &&
                      forked(host_ptr::attach(fresh, rig.device, {.policy = host_ptr::Policy::copy}));
    {
      const auto gone = std::move(*access);
    }
    vector.reset();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  REQUIRE(message(access->close()) == "ok");
  CHECK(vector->get(2000).value_or(0) == 5);
  native::say("the parent went on");
}

TEST_CASE("in a forked child calls answer forked, and the end of a link does nothing") {
  Rig::require_driver();
  const auto child = native::run_child("child: a fork with an attached vector");
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("the parent went on") != std::string::npos);
}

TEST_CASE("child: links outlive main", "[.]") {
  static const Rig* const rig = new Rig;  // the driver's objects are not the test's to end either
  static const Array array = Rig::zeros();
  late.vector = rig->attached(array);
  auto access = HostAccess<std::int32_t>::open(*late.vector, Access::write, 64, 0);
  REQUIRE(message(access) == "ok");
  late.access = std::move(*access);
  native::say("main is over");
}

TEST_CASE("a static link may be destroyed after main: no driver is called") {
  // What cannot be given back to a driver any more is left to the end of the process, which is no leak.
  Rig::require_driver();
  const auto child = native::run_child("child: links outlive main", {"ASAN_OPTIONS=detect_leaks=0"});
  INFO(child.output);
  CHECK(child.status == 0);
  for (const char* line : {"main is over", "late links: done"}) {
    CAPTURE(line);
    CHECK(child.output.find(line) != std::string::npos);
  }
}
