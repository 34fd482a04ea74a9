// SPDX-License-Identifier: MIT
// A script for tests that fail driver calls, on any driver.
#pragma once

#include <string>
#include <vector>

#include "support/host_ptr_words.hpp"

namespace host_ptr_test {

using berth::host_ptr::HostAccess;

/// The life of a link. `newest` is what a careful reader expects of the elements at any point, and who reads
/// them after a failure gets.
class Life {
 public:
  Life(const Device& device, const Array& array)
      : newest(array.size(), 1), device_(device), array_(array), vector_(Words::over(array)) {}

  void run() {
    write(array_, 1);
    if (!told(berth::host_ptr::attach(vector_, device_, {.lenient = true}))) {
      CHECK(vector_.location() == Location{});
      CHECK(vector_.buffer(device_) == nullptr);
      return;
    }
    if (vector_.fill(2)) std::ranges::fill(newest, 2);
    told(berth::host_ptr::publish_host_writes(vector_, device_));
    launch(3);
    told(berth::host_ptr::acquire_device_writes(vector_, device_));
    access(vector_.nbytes(), 0, 4);
    launch(5);
    told(berth::host_ptr::acquire_device_writes(vector_, device_, 64, 128));
    access(64, 256, 6);
    told(berth::host_ptr::detach(vector_, device_));
  }
  /// With a driver that works again.
  [[nodiscard]] bool comes_home() {
    return message(vector_.free_all_buffers()) == "ok" && host_sees(array_) == newest;
  }

  std::vector<std::int32_t> newest;
  std::vector<std::string> failures;

 private:
  void launch(unsigned value) {
    auto launch = berth::launching(device_, berth::inout(vector_));
    if (!told(launch)) return;
    const auto filled = vector_.buffer(device_)->fill(static_cast<std::byte>(value));
    if (filled) std::ranges::fill(newest, static_cast<std::int32_t>(value * 0x01010101U));
    told(filled);
  }
  void access(std::size_t nbytes, std::size_t byte_offset, std::int32_t value) {
    auto access = HostAccess<std::int32_t>::open(vector_, berth::Access::write, nbytes, byte_offset);
    if (!told(access)) return;
    std::ranges::fill(access->writable_elements(), value);
    std::fill_n(newest.begin() + static_cast<std::ptrdiff_t>(byte_offset / sizeof value),
                nbytes / sizeof value, value);
    told(access->close());
  }
  template <class T>
  bool told(const T& result) {
    if (result) return true;
    failures.push_back(message(result));
    const auto read = vector_.read();
    // What the driver never unmapped is mapped for good.
    if (!read && failures.front().starts_with("clEnqueueUnmapMemObject")) return false;
    REQUIRE(message(read) == "ok");
    CHECK(std::vector(read->begin(), read->end()) == newest);
    return false;
  }

  const Device& device_;
  Array array_;
  Words vector_;
};

}  // namespace host_ptr_test
