// SPDX-License-Identifier: MIT
// The table of quirks, and what the backend does about each: asked for by option, on a driver that has none.
#include <berth/opencl/allocator.hpp>
#include <berth/opencl/quirks.hpp>

#include <algorithm>
#include <set>

#include "support/conformance.hpp"
#include "support/opencl_fixture.hpp"

using namespace berth;
using opencl::DeviceDescription;
using opencl::DeviceType;
using opencl::Quirk;
using opencl::Quirks;

namespace {

DeviceDescription described(const char* platform, const char* vendor, DeviceType type) {
  DeviceDescription device;
  device.platform = platform;
  device.vendor = vendor;
  device.type = type;
  return device;
}

}  // namespace

TEST_CASE("every quirk has a row that says who saw it and what berth does") {
  std::set<Quirk> quirks;
  for (const auto& row : opencl::quirk_table()) {
    CHECK(quirks.insert(row.quirk).second);
    CHECK_FALSE(to_string(row.quirk).empty());
    CHECK_FALSE(row.devices.empty());
    CHECK_FALSE(row.remedy.empty());
    CHECK_FALSE(row.source.empty());
  }
  CHECK(quirks.size() == 8);
}

TEST_CASE("devices get the quirks of their drivers") {
  CHECK(quirks_of(described("Portable Computing Language", "AuthenticAMD", DeviceType::cpu)) ==
        Quirks{Quirk::racy_discovery});
  CHECK(quirks_of(described("NVIDIA CUDA", "NVIDIA Corporation", DeviceType::gpu)) ==
        Quirks{Quirk::lazy_allocation, Quirk::host_memory_is_copied, Quirk::failed_waits_succeed});
  CHECK(quirks_of(described("Intel(R) OpenCL", "Intel(R) Corporation", DeviceType::cpu)) ==
        Quirks{Quirk::events_order_queues_only});
  CHECK(quirks_of(described("Oclgrind", "Oclgrind", DeviceType::cpu)) == Quirks{Quirk::one_host_thread});
  CHECK(quirks_of(described("Intel(R) OpenCL Graphics", "Intel(R) Corporation", DeviceType::gpu)) ==
        Quirks{Quirk::lazy_allocation, Quirk::writes_past_tail});
  CHECK(quirks_of(described("Apple", "Apple", DeviceType::gpu)) ==
        Quirks{Quirk::lazy_allocation, Quirk::unaligned_host_memory});
}

TEST_CASE("a device is described with its platform's name") {
  const auto found = opencl::platforms();
  REQUIRE(message(found) == "ok");
  for (const auto& platform : *found) {
    for (const auto& device : platform.devices) CHECK(device.platform == platform.name);
  }
}

TEST_CASE("unaligned host memory is copied through aligned memory") {
  native::Stream stream({.quirks = Quirks{Quirk::unaligned_host_memory}});
  constexpr std::size_t size = (std::size_t{1} << 20U) + 333;  // several pieces and a rest
  const auto bytes = native::pattern(size + 64);
  auto buf = stream.allocator.alloc(size);
  REQUIRE(message(buf) == "ok");
  for (const std::size_t off : {0U, 1U, 8U, 15U, 16U}) {
    CAPTURE(off);
    const auto sent = std::span(bytes).subspan(off, size);
    REQUIRE(message(stream.allocator.copyin(*buf, sent)) == "ok");
    std::vector<std::byte> back(size + 64);
    REQUIRE(message(stream.allocator.copyout(std::span(back).subspan(off, size), *buf)) == "ok");
    CHECK(std::ranges::equal(std::span(back).subspan(off, size), sent));
    CHECK(std::ranges::count(std::span(back).first(off), std::byte{0}) == static_cast<std::ptrdiff_t>(off));
  }
  stream.allocator.free(std::move(*buf), size);
}

TEST_CASE("memory whose end a driver would overrun is refused") {
  native::Stream stream({.quirks = Quirks{Quirk::writes_past_tail}});
  const native::Pages pages(4096);
  const auto refused = stream.allocator.alloc(100, {.external_ptr = pages.data()});
  REQUIRE(outcome(refused) == "invalid_size");
  CHECK(refused.error().asked() == 100U);
  CHECK(refused.error().limit() == 64U);
  auto buf = stream.allocator.alloc(128, {.external_ptr = pages.data()});
  REQUIRE(message(buf) == "ok");
  stream.allocator.free(std::move(*buf), 128, {.external_ptr = pages.data()});
}

TEST_CASE("OpenCL conforms with the remedy of every quirk") {
  berth_test::require_conformance<opencl::Allocator>(
      [] {
        return opencl::Allocator::open(native::device().id,
                                       {.quirks = Quirks{Quirk::lazy_allocation, Quirk::unaligned_host_memory,
                                                         Quirk::host_memory_is_copied}});
      },
      {"alignment", "buffers_of_another_backend", "above_4_gib"});
}
