// SPDX-License-Identifier: MIT
// Every driver call that a link makes fails once, one after the other, those that try the device first: the
// failure is told, the newest elements survive it, and nothing is left behind. Runs under the layer "faults".
#include "host_ptr/life.hpp"
#include "layers/faults_helpers.hpp"
#include "support/host_ptr_opencl_fixture.hpp"
#include "support/reports.hpp"

using namespace berth;
using namespace host_ptr_test;

namespace {

/// A part of an array that owns nothing behind it. Devices are tried once for each kind of address and size.
struct Part {
  std::size_t first;
  std::size_t count;
};

/// Fails call after call from `first` on, until a run meets no failure; returns which call that run looked
/// for.
std::uint64_t fail_in_turn(const Part& part, std::uint64_t first, cl_int status) {
  const layers::Faults faults;
  const Rig rig;
  std::uint64_t nth = first;
  for (bool failed = true; failed; ++nth) {
    const layers::Balance before = faults.balance();
    faults.reset();
    Reports reports;
    const Array block = Rig::zeros();
    {
      const Array array = Array::over(block.writable_elements().subspan(part.first, part.count));
      Life life(rig.device, array);
      faults.fail(nullptr, nth, 1, status);
      life.run();
      failed = faults.failed() != 0;
      const std::string entry = faults.last_failed();
      faults.disarm();
      faults.settle();
      auto said = reports.take();
      INFO("call " << nth << ", " << entry);
      CHECK((life.failures.empty() && said.empty()) == !failed);
      said.insert(said.end(), life.failures.begin(), life.failures.end());
      if (failed) CHECK(std::ranges::any_of(said, [&](const auto& text) { return text.starts_with(entry); }));
      // Where the driver never unmaps it has the range for good.
      if (entry != "clEnqueueUnmapMemObject") CHECK(life.comes_home());
    }
    static_cast<void>(clFinish(rig.stream.queue));
    faults.settle();
    CHECK(faults.balance() == before);
    CHECK(faults.violations().empty());
    // The next array may lie at the same address.
    CHECK(native::unclaimed(std::as_bytes(block.elements())));
  }
  return nth - 1;
}

}  // namespace

TEST_CASE("each driver call of a link fails in turn, and the newest elements survive") {
  // A release that fails in a trial is reported and does not spoil it, so the device is known from then on;
  // the next kind takes the calls behind.
  std::uint64_t call = 1;
  cl_int status = CL_OUT_OF_RESOURCES;
  for (const Part& part : {Part{0, 4080}, Part{0, 4081}, Part{1, 4080}, Part{1, 4081}}) {
    call = fail_in_turn(part, call, status);
    status = status == CL_OUT_OF_RESOURCES ? CL_OUT_OF_HOST_MEMORY : CL_OUT_OF_RESOURCES;
  }
  CHECK(call > 60);
  for (const cl_int known : {CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY}) {
    CHECK(fail_in_turn({0, 4080}, 1, known) > 20);
  }
}

TEST_CASE("an empty vector makes no call that a driver could fail") {
  const layers::Faults faults;
  const Rig rig;
  auto none = Array::create(0);
  REQUIRE(message(none) == "ok");
  faults.reset();
  auto vector = host_ptr::of_bigarray(rig.device, *none);
  REQUIRE(message(vector) == "ok");
  CHECK(outcome(launching(rig.device, inout(*vector))) == "ok");
  CHECK(message(host_ptr::acquire_device_writes(*vector, rig.device)) == "ok");
  CHECK(message(host_ptr::publish_host_writes(*vector, rig.device)) == "ok");
  CHECK(outcome(HostAccess<std::int32_t>::open(*vector, Access::write)) == "ok");
  CHECK(message(vector->to_host(true)) == "ok");
  CHECK(message(vector->fill(1)) == "ok");
  CHECK(message(vector->sync()) == "ok");
  CHECK(message(host_ptr::detach(*vector, rig.device)) == "ok");
  CHECK(faults.calls() == 0);
}

TEST_CASE("memory of a lost device stays claimed, unless the driver says that it is done with it") {
  const layers::Faults faults;
  const bool done_with_it = GENERATE(true, false);
  Reports reports;
  const Rig rig;
  const Array array = Rig::zeros();
  const std::span bytes = std::as_writable_bytes(array.writable_elements());
  {
    Words vector = rig.attached(array);
    const native::Owned<cl_mem> kept =
        done_with_it ? native::Owned<cl_mem>() : native::retained(rig.mem(vector));
    faults.fail("clFinish", 1, 100, CL_OUT_OF_RESOURCES);
    CHECK(message(host_ptr::detach(vector, rig.device)) == "ok");
    faults.disarm();
    CHECK(vector.buffer(rig.device) == nullptr);
    const auto told = reports.take();
    CHECK(std::ranges::any_of(told, [](const auto& text) {
            return text.find("stays claimed") != std::string::npos;
          }) == !done_with_it);
    CHECK(outcome(HostRange::claim(bytes, "test")) == (done_with_it ? "ok" : "overlap"));
    Words again = Words::over(array);
    CHECK(cause(host_ptr::attach(again, rig.device)) == (done_with_it ? "ok" : "overlap"));
  }
  static_cast<void>(clFinish(rig.stream.queue));
  CHECK(native::unclaimed(bytes));
  CHECK(reports.take().empty());
}
