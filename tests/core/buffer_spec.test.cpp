// SPDX-License-Identifier: MIT
#include <berth/core/buffer_spec.hpp>

#include <unordered_set>
#include <vector>

#include "support/catch.hpp"

using namespace berth;

namespace {

std::vector<BufferSpec> all_specs() {
  static int memory[3];
  std::vector<BufferSpec> specs;
  for (void* pointer : {static_cast<void*>(nullptr), static_cast<void*>(&memory[0]),
                        static_cast<void*>(&memory[1]), static_cast<void*>(&memory[2])}) {
    for (unsigned bits = 0; bits < 32; ++bits) {
      specs.push_back({.uncached = (bits & 1U) != 0,
                       .cpu_access = (bits & 2U) != 0,
                       .host = (bits & 4U) != 0,
                       .nolru = (bits & 8U) != 0,
                       .zero = (bits & 16U) != 0,
                       .external_ptr = pointer});
    }
  }
  return specs;
}

}  // namespace

static_assert(BufferSpec{} == BufferSpec{.uncached = false,
                                         .cpu_access = false,
                                         .host = false,
                                         .nolru = false,
                                         .zero = false,
                                         .external_ptr = nullptr});

TEST_CASE("a spec equals itself alone, and hashes apart from every other") {
  const auto specs = all_specs();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    for (std::size_t j = 0; j < specs.size(); ++j) {
      INFO(i << " and " << j);
      const bool hashes_equal = std::hash<BufferSpec>{}(specs[i]) == std::hash<BufferSpec>{}(specs[j]);
      REQUIRE((specs[i] == specs[j]) == (i == j));
      REQUIRE(hashes_equal == (i == j));
    }
  }
  CHECK(std::unordered_set<BufferSpec>(specs.begin(), specs.end()).size() == 128);
}
