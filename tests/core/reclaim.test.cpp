// SPDX-License-Identifier: MIT
// The ladder by itself, over holders and attempts that note what is asked of them.
#include <berth/core/reclaim.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"

using namespace berth;
using reclaim::Holds;

namespace {

using Log = std::vector<std::string>;

/// Holds idle bytes, and notes what is reclaimed from it.
class Holder final : public reclaim::Reclaimable {
 public:
  Holder(Log& log, std::string name, std::uint64_t idle) : log_(log), name_(std::move(name)), idle_(idle) {}
  std::uint64_t reclaim(std::uint64_t nbytes) noexcept override {
    log_.push_back(name_ + " " + (nbytes == reclaim::everything ? "all" : std::to_string(nbytes)));
    const std::uint64_t given = std::min(idle_, nbytes);
    idle_ -= given;
    return given;
  }

 private:
  Log& log_;
  std::string name_;
  std::uint64_t idle_;
};

DeviceKey device(std::uint64_t number) { return {.backend = "reclaim test", .high = 0, .low = number}; }

/// One allocation of 100 bytes that fails `failures` times.
Result<int> climb(Log& log, Holder& self, int failures, const reclaim::OutOfMemoryHook& hook = nullptr,
                  Errc code = Errc::out_of_memory) {
  return reclaim::allocate(
      100, device(1), self, hook,
      [&]() -> Result<int> {
        log.push_back("attempt");
        if (failures-- > 0) return fail(Error(code, "reclaim test"));
        return 1;
      },
      [&]() -> Result<void> {
        log.push_back("synchronize");
        return {};
      });
}

}  // namespace

TEST_CASE("an attempt that succeeds asks nothing of anybody") {
  Log log;
  Holder self(log, "self", 1000);
  CHECK(outcome(climb(log, self, 0)) == "ok");
  CHECK(log == Log{"attempt"});
}

TEST_CASE("staging gives way before caches, those before oneself, and only as much as is missing") {
  Log log;
  Holder self(log, "self", 1000);
  const auto cache = std::make_shared<Holder>(log, "cache", 30);
  const auto staging = std::make_shared<Holder>(log, "staging", 20);
  const auto elsewhere = std::make_shared<Holder>(log, "elsewhere", 1000);
  reclaim::announce(device(1), cache);
  reclaim::announce(device(1), staging, Holds::staging);
  reclaim::announce(device(2), elsewhere);
  CHECK(outcome(climb(log, self, 1)) == "ok");
  CHECK(log == Log{"attempt", "staging 100", "cache 80", "synchronize", "self 50", "attempt"});
}

TEST_CASE("nothing more is asked once enough is free") {
  Log log;
  Holder self(log, "self", 1000);
  const auto first = std::make_shared<Holder>(log, "first", 100);
  const auto second = std::make_shared<Holder>(log, "second", 100);
  reclaim::announce(device(1), first);
  reclaim::announce(device(1), second);
  CHECK(outcome(climb(log, self, 1)) == "ok");
  CHECK(log == Log{"attempt", "first 100", "synchronize", "attempt"});
}

TEST_CASE("the second failure takes everything, the third asks the hook for as long as it says so") {
  Log log;
  Holder self(log, "self", 1000);
  const auto cache = std::make_shared<Holder>(log, "cache", 0);
  reclaim::announce(device(1), cache);
  int asked = 0;
  const auto hook = [&](std::uint64_t nbytes) {
    log.push_back("hook " + std::to_string(nbytes));
    return ++asked < 3;
  };
  CHECK(outcome(climb(log, self, 100, hook)) == "out_of_memory");
  CHECK(log == Log{"attempt", "cache 100", "synchronize", "self 100", "attempt", "cache all", "self all",
                   "attempt", "hook 100", "attempt", "hook 100", "attempt", "hook 100"});
}

TEST_CASE("another error ends the climb at once") {
  Log log;
  Holder self(log, "self", 1000);
  CHECK(outcome(climb(log, self, 1, nullptr, Errc::exceeds_device_maximum)) == "exceeds_device_maximum");
  CHECK(log == Log{"attempt"});
}

TEST_CASE("a ladder inside a ladder passes the error up; one inside the hook climbs without the hook") {
  Log log;
  Holder self(log, "self", 0);
  Holder inner(log, "inner", 0);
  int failures = 1;
  const auto outer = reclaim::allocate(
      100, device(1), self, nullptr, [&] { return climb(log, inner, failures-- > 0 ? 1 : 0); },
      [&]() -> Result<void> { return {}; });
  CHECK(outcome(outer) == "ok");
  CHECK(log == Log{"attempt", "self 100", "attempt"});

  log.clear();
  int depth = 0;
  const reclaim::OutOfMemoryHook hook = [&](std::uint64_t) {
    CHECK(++depth == 1);
    CHECK(outcome(climb(log, inner, 100, hook)) == "out_of_memory");
    return false;
  };
  CHECK(outcome(climb(log, self, 100, hook)) == "out_of_memory");
  CHECK(depth == 1);
}

TEST_CASE("a holder that is gone is asked nothing") {
  Log log;
  Holder self(log, "self", 0);
  reclaim::announce(device(1), std::make_shared<Holder>(log, "gone", 100));
  CHECK(outcome(climb(log, self, 1)) == "ok");
  CHECK(log == Log{"attempt", "synchronize", "self 100", "attempt"});
}
