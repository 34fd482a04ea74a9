// SPDX-License-Identifier: MIT
// The table loaded from a library: what is missing is told apart. And what is found there.
#include <berth/core/buffer.hpp>
#include <berth/cuda/discovery.hpp>
#include <berth/cuda/framework.hpp>

#include <cstdlib>

#include "support/child.hpp"
#include "support/cuda_fixture.hpp"
#include "support/reports.hpp"
#include "support/skip.hpp"

using namespace berth;

namespace {

// Where the fake driver is, as a library, and as one of a driver before CUDA 12.
constexpr const char* library = FAKE_CUDA_FOLDER "/libcuda.so.1";
constexpr const char* old_library = FAKE_CUDA_FOLDER "/libcuda_before_12.so";

/// Hides one entry point of the library while it lives.
class Hidden {
 public:
  explicit Hidden(const char* symbol) { ::setenv("FAKE_CUDA_HIDES", symbol, 1); }
  ~Hidden() { ::unsetenv("FAKE_CUDA_HIDES"); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
};

native::Finished with_fake_library(const char* test_case, std::vector<std::string> environment = {}) {
  environment.emplace_back("LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER);
  return native::run_child(test_case, environment);
}

}  // namespace

TEST_CASE("a library that is not there is library_missing") {
  const auto loaded = cuda::load_driver("libberth_no_such_library.so.1");
  REQUIRE(outcome(loaded) == "library_missing");
  CHECK(loaded.error().backend() == "cuda");
  CHECK(loaded.error().message().find("does not load") != std::string::npos);
}

TEST_CASE("a library that is no driver is symbol_missing") {
  const auto loaded = cuda::load_driver("libm.so.6");
  REQUIRE(outcome(loaded) == "symbol_missing");
  CHECK(loaded.error().call() == "cuGetProcAddress");
}

TEST_CASE("a driver is found through cuGetProcAddress, of either signature") {
  for (const char* path : {library, old_library}) {
    CAPTURE(path);
    const auto loaded = cuda::load_driver(path);
    REQUIRE(message(loaded) == "ok");
    CHECK(loaded->mem_alloc != nullptr);
    CHECK(loaded->mem_set_access != nullptr);
    int version = 0;
    CHECK(loaded->driver_get_version(&version) == native::abi::success);
    CHECK(version == 13000);
  }
}

TEST_CASE("an entry point that is not there is symbol_missing, by its name; some may lack") {
  {
    const Hidden hidden("cuMemcpyPeerAsync");
    const auto loaded = cuda::load_driver(library);
    REQUIRE(outcome(loaded) == "symbol_missing");
    CHECK(loaded.error().call() == "cuMemcpyPeerAsync");
  }
  const Hidden hidden("cuMemAddressReserve");
  const auto loaded = cuda::load_driver(library);
  REQUIRE(message(loaded) == "ok");
  CHECK(loaded->mem_address_reserve == nullptr);
}

TEST_CASE("child: what the process's own driver answers", "[.]") {
  const auto driver = cuda::driver();
  native::say("driver: " + message(driver));
  native::say("devices: " + message(cuda::devices()));
  native::say("version: " + message(cuda::driver_version()));
  native::say("framework: " + message(cuda::framework()->devices()));
  native::say("open: " + message(cuda::Allocator::open(0)));
  if (driver) CHECK(*cuda::driver() == *driver);
}

TEST_CASE("without the library, without a device and with one: three answers") {
  if (!native::real()) {
    const auto missing =
        native::run_child("child: what the process's own driver answers", {"LD_LIBRARY_PATH=/nonexistent"});
    INFO(missing.output);
    CHECK(missing.status == 0);
    if (!cuda::load_driver()) {
      for (const char* call : {"driver", "devices", "version", "framework", "open"}) {
        CHECK(missing.output.find(std::string(call) + ": cuda dlopen: ") != std::string::npos);
      }
    }
  }
  const auto none =
      with_fake_library("child: what the process's own driver answers", {"FAKE_CUDA_DEVICES=0"});
  INFO(none.output);
  CHECK(none.status == 0);
  CHECK(none.output.find("driver: cuInit: CUDA_ERROR_NO_DEVICE (100)") != std::string::npos);
  CHECK(none.output.find("framework: cuInit: CUDA_ERROR_NO_DEVICE (100)") != std::string::npos);
  const auto old =
      with_fake_library("child: what the process's own driver answers", {"FAKE_CUDA_HIDES=cuStreamGetCtx"});
  INFO(old.output);
  CHECK(old.output.find("driver: cuda cuStreamGetCtx: ") != std::string::npos);
  const auto there = with_fake_library("child: what the process's own driver answers");
  INFO(there.output);
  CHECK(there.status == 0);
  for (const char* call : {"driver", "devices", "version", "framework", "open"}) {
    CHECK(there.output.find(std::string(call) + ": ok") != std::string::npos);
  }
}

TEST_CASE("devices are described") {
  native::Machine machine({.devices = 2});
  const auto devices = cuda::devices(&native::driver());
  REQUIRE(message(devices) == "ok");
  REQUIRE(!devices->empty());
  for (std::size_t i = 0; i < devices->size(); ++i) {
    const cuda::DeviceDescription& device = (*devices)[i];
    CHECK(device.ordinal == static_cast<int>(i));
    CHECK(!device.name.empty());
    CHECK(device.total_bytes > 0);
    CHECK(device.multiprocessors > 0);
    CHECK(device.compute_capability.major > 0);
    CHECK((i == 0 || !(device.key == devices->front().key)));
  }
  const auto version = cuda::driver_version(&native::driver());
  REQUIRE(message(version) == "ok");
  CHECK(*version >= cuda::Version{11, 4});
  CHECK(outcome(cuda::describe(static_cast<int>(devices->size()), &native::driver())) == "no_device");
}

TEST_CASE("a device that does not answer is left out, and told") {
  if (native::real()) return left_out("only the fake driver fails on demand");
  native::Machine machine({.devices = 3});
  Reports reports;
  machine->fail({.symbol = "cuDeviceGetUuid", .nth = 2, .times = 1, .status = native::abi::unknown});
  const auto some = cuda::devices(&native::driver());
  REQUIRE(message(some) == "ok");
  REQUIRE(some->size() == 2);
  CHECK((*some)[0].ordinal == 0);
  CHECK((*some)[1].ordinal == 2);
  CHECK(reports.take().size() == 1);
  machine->fail({.symbol = "cuDeviceGetUuid", .nth = 1, .times = 9, .status = native::abi::unknown});
  CHECK(outcome(cuda::devices(&native::driver())) == "driver");
}

TEST_CASE("a driver that sees no device says so") {
  native::Machine machine({.devices = 1});
  if (!machine.fake()) return left_out("only the fake driver can be told to do this");
  cuda::Driver none = native::driver();
  none.device_get_count = [](int* count) {
    *count = 0;
    return native::abi::success;
  };
  CHECK(outcome(cuda::devices(&none)) == "no_device");
}

TEST_CASE("child: the framework", "[.]") {
  const auto framework = cuda::framework();
  CHECK(framework->name() == "CUDA");
  CHECK(cuda::framework() == framework);
  const auto devices = framework->devices();
  REQUIRE(message(devices) == "ok");
  REQUIRE(devices->size() == 2);
  for (std::size_t i = 0; i < devices->size(); ++i) {
    device::Device device = (*devices)[i];
    CHECK(device.framework() == "CUDA");
    CHECK(device.index() == i);
    auto allocator = device.allocator();
    CHECK(allocator.unpack<cuda::Allocator>() != nullptr);
    auto buf = Buffer::create(allocator, 100, {.zero = true});
    CHECK(message(buf) == "ok");
  }
  const auto again = framework->devices();
  REQUIRE(message(again) == "ok");
  CHECK(again->front() == devices->front());
  native::say("the framework works");
}

TEST_CASE("the framework lists every device, opened once") {
  const auto child = with_fake_library("child: the framework", {"FAKE_CUDA_DEVICES=2"});
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("the framework works") != std::string::npos);
}
