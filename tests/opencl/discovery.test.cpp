// SPDX-License-Identifier: MIT
#include <berth/opencl/discovery.hpp>
#include <berth/opencl/framework.hpp>

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "support/opencl_fixture.hpp"
#include "support/scale.hpp"

// LLVM, in PoCL, puts a signal stack of its own on the thread that comes first, and the sanitizer would unmap
// that one when the thread ends.
extern "C" const char* __asan_default_options() { return "use_sigaltstack=0"; }

using namespace berth;
using namespace berth::opencl;

namespace {

template <class T>
T ask(cl_device_id device, cl_device_info param) {
  T value{};
  REQUIRE(clGetDeviceInfo(device, param, sizeof value, &value, nullptr) == CL_SUCCESS);
  return value;
}

// As the driver gives it, blanks included.
std::string ask_text(cl_device_id device, cl_device_info param) {
  std::size_t nbytes = 0;
  REQUIRE(clGetDeviceInfo(device, param, 0, nullptr, &nbytes) == CL_SUCCESS);
  std::string text(nbytes, '\0');
  REQUIRE(clGetDeviceInfo(device, param, nbytes, text.data(), nullptr) == CL_SUCCESS);
  return text.c_str();
}

void check_description(const DeviceDescription& described, cl_device_id id) {
  CHECK(described.id == id);
  CHECK_FALSE(described.name.empty());
  CHECK(described.name.front() != ' ');
  CHECK(described.name.back() != ' ');
  CHECK(ask_text(id, CL_DEVICE_NAME).find(described.name) != std::string::npos);
  CHECK(ask_text(id, CL_DEVICE_VENDOR).find(described.vendor) != std::string::npos);
  CHECK(ask_text(id, CL_DRIVER_VERSION).find(described.driver_version) != std::string::npos);
  CHECK(ask_text(id, CL_DEVICE_VERSION).find(described.version_text) != std::string::npos);
  CHECK(ask_text(id, CL_DEVICE_EXTENSIONS).find(described.extensions) != std::string::npos);
  CHECK(described.version >= Version{1, 0});
  CHECK(described.version_text.starts_with("OpenCL " + std::to_string(described.version.major) + "." +
                                           std::to_string(described.version.minor)));

  CHECK(described.base_alignment * 8 == ask<cl_uint>(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN));
  CHECK(described.compute_units == ask<cl_uint>(id, CL_DEVICE_MAX_COMPUTE_UNITS));
  CHECK(described.global_bytes == ask<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE));
  CHECK(described.max_alloc_bytes == ask<cl_ulong>(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  CHECK(described.max_alloc_bytes > 0);
  CHECK(described.unified_memory == (ask<cl_bool>(id, CL_DEVICE_HOST_UNIFIED_MEMORY) != CL_FALSE));
  CHECK(described.available == (ask<cl_bool>(id, CL_DEVICE_AVAILABLE) != CL_FALSE));
  CHECK(described.compiler == (ask<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE) != CL_FALSE));
  CHECK(described.out_of_order == ((ask<cl_command_queue_properties>(id, CL_DEVICE_QUEUE_PROPERTIES) &
                                    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0));
  const auto type = ask<cl_device_type>(id, CL_DEVICE_TYPE);
  CHECK((described.type == DeviceType::cpu) == ((type & CL_DEVICE_TYPE_CPU) != 0));
  CHECK((described.type == DeviceType::gpu) == ((type & CL_DEVICE_TYPE_GPU) != 0));
}

bool same_devices(const std::vector<PlatformDescription>& a, const std::vector<PlatformDescription>& b) {
  return std::ranges::equal(a, b, [](const PlatformDescription& p, const PlatformDescription& q) {
    return p.id == q.id &&
           std::ranges::equal(p.devices, q.devices, {}, &DeviceDescription::id, &DeviceDescription::id);
  });
}

}  // namespace

TEST_CASE("platforms lists what the loader has, in its order") {
  const auto found = platforms();
  REQUIRE(message(found) == "ok");

  cl_uint count = 0;
  REQUIRE(clGetPlatformIDs(0, nullptr, &count) == CL_SUCCESS);
  std::vector<cl_platform_id> ids(count);
  REQUIRE(clGetPlatformIDs(count, ids.data(), nullptr) == CL_SUCCESS);
  REQUIRE(found->size() == count);

  for (std::size_t i = 0; i < ids.size(); ++i) {
    const PlatformDescription& platform = (*found)[i];
    CHECK(platform.id == ids[i]);
    CHECK_FALSE(platform.name.empty());
    CHECK(platform.version_text.starts_with("OpenCL "));
    cl_uint device_count = 0;
    const cl_int status = clGetDeviceIDs(ids[i], CL_DEVICE_TYPE_ALL, 0, nullptr, &device_count);
    CHECK(platform.problem.has_value() == (status != CL_SUCCESS));
    if (status != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(device_count);
    REQUIRE(clGetDeviceIDs(ids[i], CL_DEVICE_TYPE_ALL, device_count, devices.data(), nullptr) == CL_SUCCESS);
    REQUIRE(platform.devices.size() == device_count);
    for (std::size_t j = 0; j < devices.size(); ++j) check_description(platform.devices[j], devices[j]);
  }
}

TEST_CASE("describe gives the facts of one device") {
  const DeviceDescription listed = native::device();
  const auto described = describe(listed.id);
  REQUIRE(message(described) == "ok");
  check_description(*described, listed.id);
  CHECK(described->base_alignment >= 1);
  CHECK((described->base_alignment & (described->base_alignment - 1)) == 0);
}

TEST_CASE("describe of no device is an error with the driver's status") {
  const auto described = describe(nullptr);
  REQUIRE_FALSE(described.has_value());
  CHECK(described.error().status() == CL_INVALID_DEVICE);
  CHECK(described.error().call() == "clGetDeviceInfo");
}

TEST_CASE("device types have names") {
  CHECK(to_string(DeviceType::cpu) == "cpu");
  CHECK(to_string(DeviceType::gpu) == "gpu");
  CHECK(to_string(DeviceType::accelerator) == "accelerator");
  CHECK(to_string(DeviceType::other) == "other");
}

TEST_CASE("child: eight threads race into the first discovery", "[.]") {
  constexpr int threads = 8;
  std::barrier start(threads);
  std::vector<Result<std::vector<PlatformDescription>>> found(threads);
  std::vector<Result<std::vector<device::Device>>> opened(threads);
  {
    std::vector<std::jthread> racers;
    for (std::size_t i = 0; i < threads; ++i) {
      racers.emplace_back([&, i] {
        start.arrive_and_wait();
        if (i % 2 == 0) found[i] = platforms();
        opened[i] = framework()->devices();
        if (i % 2 == 1) found[i] = platforms();
      });
    }
  }
  for (std::size_t i = 0; i < threads; ++i) {
    REQUIRE(message(found[i]) == "ok");
    REQUIRE(message(opened[i]) == "ok");
    CHECK_FALSE(found[i]->empty());
    CHECK(same_devices(*found[i], *found[0]));
    CHECK(*opened[i] == *opened[0]);
  }
  native::say("all found the same");
}

TEST_CASE("threads may race into the first discovery") {
  for (std::size_t run = 0; run < scaled(10); ++run) {
    const auto child = native::run_child("child: eight threads race into the first discovery");
    INFO(child.output);
    REQUIRE(child.status == 0);
    REQUIRE(child.output.find("all found the same") != std::string::npos);
  }
}

TEST_CASE("child: there is no platform", "[.]") {
  const auto found = platforms();
  REQUIRE(outcome(found) == "no_device");
  const auto devices = framework()->devices();
  CHECK(outcome(devices) == "no_device");
  native::say("platforms: " + found.error().message());
}

TEST_CASE("no platform is no_device, and a sentence that says so") {
  const auto empty =
      std::filesystem::temp_directory_path() / ("berth-no-platform-" + std::to_string(::getpid()));
  std::filesystem::create_directory(empty);
  const auto child = native::run_child("child: there is no platform",
                                       {"OCL_ICD_VENDORS=" + empty.string(), "OCL_ICD_FILENAMES="});
  std::filesystem::remove(empty);
  INFO(child.output);
  CHECK(child.status == 0);
  CHECK(child.output.find("no OpenCL driver is installed") != std::string::npos);
}
