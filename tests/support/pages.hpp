// SPDX-License-Identifier: MIT
// Memory of a test's own whose misuse after its end is seen.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <span>
#include <utility>

#include "support/catch.hpp"

namespace native {

/// Pages of the caller's own.
class Pages {
 public:
  explicit Pages(std::size_t nbytes) : nbytes_(nbytes) {
    void* const memory = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    data_ = static_cast<std::byte*>(memory);
  }
  Pages(Pages&&) = delete;
  ~Pages() { unmap(); }
  /// Whoever touches them afterwards is killed.
  void unmap() noexcept {
    if (data_ != nullptr) ::munmap(std::exchange(data_, nullptr), nbytes_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, nbytes_}; }

 private:
  std::byte* data_;
  std::size_t nbytes_;
};

}  // namespace native
