// SPDX-License-Identifier: MIT
// A host array and two devices, of one context or of two: one of them has it linked, the other a copy. Runs
// where a platform has two devices: tests/CMakeLists.txt asks PoCL for them.
#include <array>
#include <random>

#include "support/host_ptr_opencl_fixture.hpp"
#include "support/scale.hpp"

using namespace berth;
using namespace host_ptr_test;
using host_ptr::acquire_device_writes;
using host_ptr::attach;
using host_ptr::detach;
using host_ptr::host_link;
using host_ptr::HostAccess;
using host_ptr::publish_host_writes;

namespace {

constexpr std::size_t count = 1024;

/// One of the devices, with kernels.
class Side {
 public:
  Side(std::size_t index, const opencl::Allocator& allocator)
      : device("OpenCL", index, "device " + std::to_string(index), pack(allocator)),
        allocator_(allocator),
        program_(allocator.context(), allocator.device(), source),
        add_(program_.kernel("add")),
        put_(program_.kernel("put")),
        copy_(program_.kernel("copy")) {}

  /// Announced.
  void adds(Words& vector, std::uint32_t value) {
    auto launch = launching(device, inout(vector));
    REQUIRE(message(launch) == "ok");
    adds_unannounced(vector, value);
    launch->done();
  }
  void adds_unannounced(const Words& vector, std::uint32_t value) {
    native::launch(allocator_.queue(), add_, vector.size(), Rig::mem(vector, device), value);
  }
  void puts(Words& vector, std::uint32_t value) {
    auto launch = launching(device, out(vector));
    REQUIRE(message(launch) == "ok");
    native::launch(allocator_.queue(), put_, vector.size(), Rig::mem(vector, device), value);
    launch->done();
  }
  /// By a kernel and past the vector.
  [[nodiscard]] std::vector<std::int32_t> sees(const Words& vector) const {
    const auto beside = native::make_buffer(allocator_.context(), vector.nbytes());
    native::launch(allocator_.queue(), copy_, vector.size(), Rig::mem(vector, device), beside.get());
    std::vector<std::int32_t> seen(vector.size());
    REQUIRE(clEnqueueReadBuffer(allocator_.queue(), beside, CL_TRUE, 0, vector.nbytes(), seen.data(), 0,
                                nullptr, nullptr) == CL_SUCCESS);
    return seen;
  }
  [[nodiscard]] bool has_newest(const Words& vector) const {
    return vector.location().names(device) && vector.location().state != Location::State::stale_gpu;
  }

  Device device;

 private:
  opencl::Allocator allocator_;
  native::Program program_;
  native::Owned<cl_kernel> add_;
  native::Owned<cl_kernel> put_;
  native::Owned<cl_kernel> copy_;
};

struct Pair {
  explicit Pair(bool one_context) : sides(made(one_context)), first(sides[0]), second(sides[1]) {
    REQUIRE(message(device::register_framework(opencl::framework())) == "ok");
  }
  ~Pair() { device::unregister_framework("OpenCL"); }
  Pair(const Pair&) = delete;

  std::vector<Side> sides;
  Side& first;
  Side& second;

 private:
  static std::vector<Side> made(bool one_context) {
    const auto found = opencl::platforms();
    REQUIRE(message(found) == "ok");
    native::require_layers();
    for (const auto& platform : *found) {
      if (platform.devices.size() < 2) continue;
      const std::array ids{platform.devices[0].id, platform.devices[1].id};
      std::vector<Side> sides;
      if (one_context) {
        auto allocators = opencl::Allocator::open(ids);
        REQUIRE(message(allocators) == "ok");
        for (const opencl::Allocator& allocator : *allocators) sides.emplace_back(sides.size(), allocator);
      } else {
        for (const cl_device_id id : ids) {
          auto allocator = opencl::Allocator::open(id);
          REQUIRE(message(allocator) == "ok");
          sides.emplace_back(sides.size(), *allocator);
        }
      }
      return sides;
    }
    FAIL("no platform has two devices");
    return {};
  }
};

host_ptr::Refusal refusal_of(const host_ptr::HostPtrResult<void>& result) {
  REQUIRE_FALSE(result);
  INFO(message(result));
  const auto* const refused = std::get_if<host_ptr::Refused>(&result.error());
  REQUIRE(refused != nullptr);
  return refused->reason;
}

}  // namespace

TEST_CASE("what one device has linked the other is refused, with the numbers") {
  Pair pair(GENERATE(false, true));
  const Array array = Rig::zeros(count);
  Words vector = Words::over(array);
  REQUIRE(message(attach(vector, pair.first.device)) == "ok");
  pair.first.adds(vector, 1);
  const Location before = vector.location();
  const auto reason = refusal_of(attach(vector, pair.second.device));
  CHECK(reason.cause == host_ptr::Refusal::Cause::overlap);
  CHECK(reason.address == reinterpret_cast<std::uintptr_t>(array.data()));
  CHECK(reason.nbytes == array.nbytes());
  CHECK(reason.other_address == reason.address);
  CHECK(reason.limit >= array.nbytes());
  CHECK(vector.location() == before);
  CHECK(vector.buffer(pair.second.device) == nullptr);
  CHECK(vector.buffer(pair.first.device) != nullptr);

  Words part = Words::over(Array::over(array.writable_elements().subspan(512, 16)));
  CHECK(refusal_of(attach(part, pair.second.device)).cause == host_ptr::Refusal::Cause::overlap);

  REQUIRE(message(attach(vector, pair.second.device, {.policy = host_ptr::Policy::copy})) == "ok");
  CHECK(host_link(vector, pair.second.device)->kind == LinkKind::separate);
  CHECK(pair.second.sees(vector) == all(1, count));
  const auto again = attach(vector, pair.second.device);
  REQUIRE_FALSE(again);
  CHECK(std::holds_alternative<host_ptr::BufferExists>(again.error()));
}

TEST_CASE("after a detach the other device has its turn") {
  Pair pair(GENERATE(false, true));
  const Array array = Rig::zeros(count);
  Words vector = Words::over(array);
  std::uint32_t expected = 0;
  for (int round = 0; round < 4; ++round) {
    Side& side = pair.sides[round % 2];
    Side& other = pair.sides[(round + 1) % 2];
    REQUIRE(message(attach(vector, side.device)) == "ok");
    CHECK(side.sees(vector) == all(static_cast<std::int32_t>(expected), count));
    side.adds(vector, 1);
    other.adds(vector, 10);
    side.adds(vector, 100);
    expected += 111;
    REQUIRE(message(other.device.synchronize()) == "ok");
    REQUIRE(message(detach(vector, other.device)) == "ok");
    REQUIRE(message(detach(vector, side.device)) == "ok");
    CHECK(vector.location() == Location{});
    CHECK(host_sees(array) == all(static_cast<std::int32_t>(expected), count));
  }
}

TEST_CASE("the link keeps up with a copy that is newest on the other device") {
  Pair pair(GENERATE(false, true));
  auto& [sides, linked, copied] = pair;
  const Array array = Rig::zeros(count);
  Words vector = Words::over(array);

  // Attach while the other has the newest.
  copied.puts(vector, 4);
  REQUIRE(message(attach(vector, linked.device)) == "ok");
  CHECK(host_sees(array) == all(4, count));
  CHECK(linked.sees(vector) == all(4, count));

  // An acquire of the link finds the newest elsewhere, and leaves it there.
  copied.adds(vector, 1);
  REQUIRE(message(acquire_device_writes(vector, linked.device)) == "ok");
  CHECK(vector.location() == Location{Location::State::stale_cpu, copied.device});
  CHECK(host_sees(array) == all(4, count));
  REQUIRE(message(acquire_device_writes(vector, copied.device)) == "ok");
  CHECK(host_sees(array) == all(5, count));

  // A publish to the link replaces it; of some bytes, those alone.
  copied.adds(vector, 1);
  write(array, 7);
  REQUIRE(message(publish_host_writes(vector, linked.device)) == "ok");
  CHECK(linked.sees(vector) == all(7, count));
  copied.adds(vector, 1);
  std::ranges::fill(array.writable_elements().first(16), 1);
  REQUIRE(message(publish_host_writes(vector, linked.device, 64, 0)) == "ok");
  auto expected = all(8, count);
  std::fill_n(expected.begin(), 16, 1);
  CHECK(linked.sees(vector) == expected);
  CHECK(host_sees(array) == expected);

  // The other way about: what the link has newest goes to the copy, or is replaced there.
  linked.adds(vector, 1);
  REQUIRE(message(acquire_device_writes(vector, copied.device)) == "ok");
  CHECK(vector.location() == Location{Location::State::stale_cpu, linked.device});
  for (std::int32_t& element : expected) ++element;
  REQUIRE(message(vector.to_device(copied.device)) == "ok");
  CHECK(copied.sees(vector) == expected);
  linked.adds(vector, 1);
  REQUIRE(message(linked.device.synchronize()) == "ok");
  write(array, 3);
  REQUIRE(message(publish_host_writes(vector, copied.device)) == "ok");
  CHECK(copied.sees(vector) == all(3, count));
  REQUIRE(message(vector.to_device(linked.device)) == "ok");
  CHECK(linked.sees(vector) == all(3, count));

  // An access maps the link, with what the copy has.
  copied.puts(vector, 9);
  {
    auto access = HostAccess<std::int32_t>::open(vector, Access::write, 64, 0);
    REQUIRE(message(access) == "ok");
    CHECK(access->elements()[0] == 9);
    CHECK(outcome(launching(copied.device, in(vector))) == "mapped");
    access->writable_elements()[0] = 2;
  }
  REQUIRE(message(vector.to_device(copied.device)) == "ok");
  expected = all(9, count);
  expected[0] = 2;
  CHECK(copied.sees(vector) == expected);

  // Whichever is freed, nothing is lost.
  copied.adds(vector, 1);
  REQUIRE(message(detach(vector, linked.device)) == "ok");
  CHECK(vector.location() == Location{Location::State::stale_cpu, copied.device});
  REQUIRE(message(detach(vector, copied.device)) == "ok");
  for (std::int32_t& element : expected) ++element;
  CHECK(host_sees(array) == expected);
}

TEST_CASE("neighbours linked to different devices do not disturb each other") {
  Pair pair(GENERATE(false, true));
  const Array array = Rig::zeros(2 * count);
  std::vector<Words> halves;
  for (std::size_t i = 0; i < 2; ++i) {
    halves.push_back(Words::over(Array::over(array.writable_elements().subspan(i * count, count))));
    REQUIRE(message(attach(halves[i], pair.sides[i].device)) == "ok");
  }
  CHECK(host_link(halves[0], pair.first.device)->kind == host_link(halves[1], pair.second.device)->kind);
  for (std::uint32_t round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < 2; ++i) pair.sides[i].adds(halves[i], 1 + static_cast<std::uint32_t>(i));
  }
  for (Words& half : halves) REQUIRE(message(half.to_host()) == "ok");
  auto expected = all(10, 2 * count);
  std::fill_n(expected.begin() + count, count, 20);
  CHECK(host_sees(array) == expected);
}

TEST_CASE("any order of calls on both devices is that of a plain array") {
  Pair pair(GENERATE(false, true));
  const Array array = Rig::zeros(count);
  Words vector = Words::over(array);
  REQUIRE(message(attach(vector, pair.first.device)) == "ok");
  std::size_t linked = 0;
  std::vector<std::int32_t> expected = all(0, count);
  std::mt19937 random(20260117);
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  const auto ok = [](const auto& result) { REQUIRE(message(result) == "ok"); };
  for (std::size_t step = 0, steps = scaled(1000); step < steps; ++step) {
    Side& side = pair.sides[pick(2)];
    const std::size_t what = pick(14);
    const auto value = static_cast<std::int32_t>(pick(100));
    const std::size_t first = pick(count);
    const std::size_t some = pick(count - first) + 1;
    const auto part = [&](auto&& all) { return std::span(all).subspan(first, some); };
    const std::size_t nbytes = some * sizeof(std::int32_t);
    const std::size_t byte_offset = first * sizeof(std::int32_t);
    INFO("step " << step << ", call " << what << ", on " << side.device.name());
    switch (what) {
      case 0:
      case 1:
        side.adds(vector, static_cast<std::uint32_t>(value));
        for (std::int32_t& element : expected) element += value;
        break;
      case 2:
        side.puts(vector, static_cast<std::uint32_t>(value));
        std::ranges::fill(expected, value);
        break;
      case 3:
        if (!side.has_newest(vector)) break;
        side.adds_unannounced(vector, static_cast<std::uint32_t>(value));
        for (std::int32_t& element : expected) element += value;
        ok(acquire_device_writes(vector, side.device));
        break;
      case 4:
        ok(vector.set(first, value));
        expected[first] = value;
        break;
      case 5:
        ok(vector.fill(value));
        std::ranges::fill(expected, value);
        break;
      case 6:
        for (Side& each : pair.sides) ok(each.device.synchronize());
        write(array, value);
        ok(publish_host_writes(vector, side.device));
        std::ranges::fill(expected, value);
        break;
      case 7:
        for (Side& each : pair.sides) ok(each.device.synchronize());
        std::ranges::fill(part(array.writable_elements()), value);
        ok(publish_host_writes(vector, side.device, nbytes, byte_offset));
        std::ranges::fill(part(expected), value);
        break;
      case 8:
        ok(acquire_device_writes(vector, side.device));
        break;
      case 9:
        ok(acquire_device_writes(vector, side.device, nbytes, byte_offset));
        break;
      case 10: {
        const Access how = std::array{Access::read, Access::write, Access::overwrite}[pick(3)];
        auto access = HostAccess<std::int32_t>::open(vector, how, nbytes, byte_offset);
        ok(access);
        if (how != Access::overwrite) CHECK(std::ranges::equal(access->elements(), part(expected)));
        if (how == Access::read) break;
        std::ranges::fill(access->writable_elements(), value);
        std::ranges::fill(part(expected), value);
        ok(access->close());
        break;
      }
      case 11:
        ok(pick(2) == 0 ? vector.to_device(side.device) : vector.sync());
        break;
      case 12:
        ok(vector.to_host(pick(2) == 0));
        break;
      case 13:  // the link goes over, or is made anew
        ok(vector.free_all_buffers());
        linked = pick(2);
        ok(attach(vector, pair.sides[linked].device));
        break;
      default:
        break;
    }
    if (!vector.location().device_is_newest()) CHECK(host_sees(array) == expected);
    for (const Side& each : pair.sides) {
      if (each.has_newest(vector)) CHECK(each.sees(vector) == expected);
    }
    CHECK(host_link(vector, pair.sides[linked].device)->kind != LinkKind::separate);
  }
  ok(vector.free_all_buffers());
  CHECK(host_sees(array) == expected);
}
