// SPDX-License-Identifier: MIT
// Every driver call that a link makes fails once, one after the other, those that try the device first: the
// failure is told, the newest elements survive it, and nothing is left behind. On the fake driver only.
#include "host_ptr/life.hpp"
#include "support/host_ptr_cuda_fixture.hpp"
#include "support/reports.hpp"

using namespace berth;
using namespace host_ptr_test;

namespace {

/// Memory at an address of its own for each run: what the driver does not let go of stays claimed.
Array fresh_array() {
  static auto& all = *new std::vector<std::unique_ptr<native::Pages>>;
  all.push_back(std::make_unique<native::Pages>(length * sizeof(std::int32_t)));
  return Array::over({reinterpret_cast<std::int32_t*>(all.back()->data()), length});
}

/// Whether something may be left when this call fails: berth could not give it back.
bool refuses_to_end(std::string_view symbol) {
  return symbol == "cuMemFree" || symbol == "cuMemHostUnregister" || symbol == "cuStreamDestroy" ||
         symbol == "cuEventDestroy" || symbol.starts_with("cuCtx") || symbol == "cuStreamSynchronize";
}

}  // namespace

TEST_CASE("each driver call of a link fails in turn, and the newest elements survive") {
  const auto status = GENERATE(native::abi::out_of_memory, native::abi::unknown);
  CAPTURE(status);
  std::uint64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    CAPTURE(nth);
    Rig rig;
    auto allocator = cuda::Allocator::borrow(rig.user.context, rig.user.stream, native::options());
    REQUIRE(message(allocator) == "ok");
    Reports reports;
    std::string symbol;
    rig.machine.leave_unchecked();
    const fake_cuda::Balance before = rig.machine->balance();
    {
      // A device of its own, so that it has yet to be tried.
      const Device device("CUDA", 0, "untried", pack(std::move(*allocator)));
      Life life(device, fresh_array());
      rig.machine->reset();
      rig.machine->fail({.symbol = {}, .nth = nth, .times = 1, .status = status});
      life.run();
      failed = rig.machine->failed() != 0;
      symbol = rig.machine->last_failed();
      rig.machine->disarm();
      auto said = reports.take();
      said.insert(said.end(), life.failures.begin(), life.failures.end());
      CAPTURE(symbol);
      CHECK(said.empty() == !failed);
      if (failed)
        CHECK(std::ranges::any_of(said, [&](const auto& text) { return text.starts_with(symbol); }));
      CHECK(life.comes_home());
    }
    CAPTURE(symbol);
    CHECK(rig.machine->violations() == "");
    if (!refuses_to_end(symbol)) CHECK(rig.machine->balance() == before);
  }
  CHECK(nth > 40);
}
