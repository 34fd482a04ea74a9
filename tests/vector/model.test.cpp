// SPDX-License-Identifier: MIT
// A vector, two sub-vectors that overlap, and four devices (two that shadow, one with copies only, the host
// itself) against a plain array: whatever is done in whatever order, nobody ever reads anything but the
// newest elements.
#include <berth/host/framework.hpp>
#include <berth/host_ptr/host_access.hpp>

#include <array>
#include <optional>
#include <random>

#include "support/scale.hpp"
#include "support/state_table.hpp"
#include "support/toy_framework.hpp"

using namespace berth;
using state_table::Bytes;

namespace {

constexpr std::size_t length = 256;
constexpr std::size_t operations = 1'000'000;

struct Member {
  std::size_t first;
  std::size_t count;
  Bytes vector;
};

class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {
    REQUIRE(message(device::register_framework(host::framework())) == "ok");
    const auto native = host::framework()->devices();
    REQUIRE(message(native) == "ok");
    devices_ = {framework_.first, framework_.second, toy::device("plain"), native->front()};
    auto array = BigArray<std::uint8_t>::create(length);
    REQUIRE(message(array) == "ok");
    array_ = *array;
    members_[0] = {0, length, Bytes::over(array_)};
    members_[1] = {64, 128, Bytes()};
    members_[2] = {128, 64, Bytes()};
    renew(members_[1]);
    renew(members_[2]);
  }
  ~Model() { device::unregister_framework("Native"); }
  Model(const Model&) = delete;

  void step() {
    Member& member = members_[below(members_.size())];
    const device::Device& device = devices_[below(devices_.size())];
    const auto value = static_cast<std::uint8_t>(random_());
    const auto [count, first] = part(member);
    switch (below(18)) {
      case 0:
        ok(member.vector.set(first, value));
        expected_[member.first + first] = value;
        break;
      case 1:
        ok(member.vector.fill(value));
        std::fill_n(expected_.begin() + offset(member), member.count, value);
        break;
      case 2: {
        auto launch = launching(device, inout(member.vector));
        ok(launch);
        look();
        for (std::uint8_t& element : kernel(member, device)) element += value;
        for (std::uint8_t& element : slice(member, member.count, 0)) element += value;
        if (below(2) == 0) late_ = std::move(*launch);
        break;
      }
      case 3: {
        auto launch = launching(device, out(member.vector));
        ok(launch);
        look();
        std::ranges::fill(kernel(member, device), value);
        std::ranges::fill(slice(member, member.count, 0), value);
        if (below(2) == 0) late_ = std::move(*launch);
        break;
      }
      case 4:
        ok(launching(device, in(member.vector)));
        same(kernel(member, device), slice(member, member.count, 0));
        break;
      case 5:
        if (const auto read = member.vector.get(first); !read || *read != expected_[member.first + first])
          ++wrong;
        break;
      case 6:
        ok(member.vector.to_device(device));
        same(kernel(member, device), slice(member, member.count, 0));
        break;
      case 7:
        ok(member.vector.to_host(below(2) == 0));
        break;
      case 8:
        ok(member.vector.sync());
        break;
      case 9:
        ok(member.vector.free_buffer(device));
        break;
      case 10:
        ok(member.vector.free_all_buffers());
        break;
      case 11:
      case 12:
        attached += host_ptr::attach(member.vector, device, {.lenient = true}) ? 1U : 0U;
        break;
      case 13: {
        const auto host = array_.writable_elements().subspan(member.first, member.count);
        std::ranges::fill(host, value);
        ok(host_ptr::publish_host_writes(member.vector, device));
        std::ranges::fill(slice(member, member.count, 0), value);
        break;
      }
      case 14: {
        std::ranges::fill(array_.writable_elements().subspan(member.first + first, count), value);
        ok(host_ptr::publish_host_writes(member.vector, device, count, first));
        std::ranges::fill(slice(member, count, first), value);
        break;
      }
      case 15:
        late_.reset();  // whose results an acquire elsewhere replaces
        ok(host_ptr::acquire_device_writes(member.vector, device, count, first));
        break;
      case 16: {
        auto access = open(member, count, first);
        ok(access);
        // Another beside it, where there may be one; they end in either order.
        Member& beside = members_[below(members_.size())];
        const auto [beside_count, beside_first] = part(beside);
        if (auto second = open(beside, beside_count, beside_first)) {
          ++together;
          write(*access, member, first, value);
          write(*second, beside, beside_first, static_cast<std::uint8_t>(value + 1));
          if (below(2) == 0) ok(access->close());
        } else {
          REQUIRE(outcome(second) == "mapped");
          write(*access, member, first, value);
        }
        break;
      }
      default:
        if (&member != &members_[0]) renew(member);
        break;
    }
  }
  /// Everything once more, from the host.
  void finish() {
    late_.reset();
    for (Member& member : members_) ok(member.vector.free_all_buffers());
    if (!std::ranges::equal(array_.elements(), expected_)) ++wrong;
  }
  [[nodiscard]] int live_links() const { return framework_.links->live; }

  std::size_t wrong = 0;
  std::size_t attached = 0;
  std::size_t together = 0;

 private:
  using HostAccess = host_ptr::HostAccess<std::uint8_t>;

  [[nodiscard]] std::size_t below(std::size_t limit) { return random_() % limit; }
  static std::ptrdiff_t offset(const Member& member) { return static_cast<std::ptrdiff_t>(member.first); }

  std::pair<std::size_t, std::size_t> part(const Member& member) {
    const std::size_t first = below(member.count);
    const bool all = below(4) == 0;
    return {all ? member.count : 1 + below(member.count - first), all ? 0 : first};
  }
  std::span<std::uint8_t> slice(const Member& member, std::size_t count, std::size_t first) {
    return std::span(expected_).subspan(member.first + first, count);
  }
  static std::span<std::uint8_t> kernel(Member& member, const device::Device& device) {
    Buffer* const buffer = member.vector.buffer(device);
    REQUIRE(buffer != nullptr);
    const auto bytes = buffer->as<host::HostBuffer>()->bytes();
    return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  }
  void same(std::span<const std::uint8_t> got, std::span<const std::uint8_t> expected) {
    if (!std::ranges::equal(got, expected)) ++wrong;
  }
  /// Perhaps reads, wherever, between an announcement and its kernels.
  void look() {
    Member& member = members_[below(members_.size())];
    const device::Device& device = devices_[below(devices_.size())];
    switch (below(8)) {
      case 0:
        ok(member.vector.to_device(device));
        break;
      case 1:
        ok(launching(device, in(member.vector)));
        break;
      case 2:
        ok(member.vector.to_host());
        break;
      case 3:
        ok(member.vector.sync());
        break;
      case 4:
        ok(member.vector.get(0));
        break;
      default:
        break;
    }
  }
  Result<HostAccess> open(Member& member, std::size_t count, std::size_t first) {
    const auto how = std::array{Access::read, Access::write, Access::overwrite}[below(3)];
    auto access = HostAccess::open(member.vector, how, count, first);
    if (!access && access.error().code() == Errc::invalid_argument) {  // not beside a launch that is not done
      REQUIRE(late_);
      late_.reset();
      access = HostAccess::open(member.vector, how, count, first);
    }
    if (access && how != Access::overwrite) same(access->elements(), slice(member, count, first));
    return access;
  }
  void write(HostAccess& access, const Member& member, std::size_t first, std::uint8_t value) {
    const auto elements = access.writable_elements();
    std::ranges::fill(elements, value);
    std::ranges::fill(slice(member, elements.size(), first), value);
  }
  void renew(Member& member) {
    auto part = members_[0].vector.sub_vector(member.count, member.first);
    REQUIRE(message(part) == "ok");
    member.vector = std::move(*part);
  }
  static void ok(const auto& result) { REQUIRE(state_table::message(result) == "ok"); }

  std::mt19937_64 random_;
  toy::Framework framework_;
  std::vector<device::Device> devices_;
  BigArray<std::uint8_t> array_;
  std::array<Member, 3> members_;
  std::array<std::uint8_t, length> expected_{};
  std::optional<Launch> late_;  ///< whose kernels have run, and which nobody has called done
};

}  // namespace

TEST_CASE("nobody ever reads anything but the newest elements") {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    CAPTURE(seed);
    Model model(seed);
    for (std::size_t i = 0; i < scaled(operations); ++i) {
      model.step();
      if (model.wrong != 0) {
        CAPTURE(i);
        CHECK(model.wrong == 0);
        return;
      }
    }
    CHECK(model.attached > scaled(operations) / 100);
    CHECK(model.together > scaled(operations) / 1000);
    model.finish();
    CHECK(model.wrong == 0);
    CHECK(model.live_links() == 0);
  }
}
