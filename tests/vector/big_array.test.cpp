// SPDX-License-Identifier: MIT
#include <berth/vector/big_array.hpp>

#include <complex>
#include <cstdint>
#include <numeric>

#include "support/catch.hpp"
#include "support/outcome.hpp"

using namespace berth;

namespace {

template <class T>
std::uintptr_t address(const BigArray<T>& array) {
  return reinterpret_cast<std::uintptr_t>(array.data());
}

struct Particle {
  float x;
};

}  // namespace

static_assert(Scalar<Float16> && Scalar<float> && Scalar<double> && Scalar<std::int8_t> &&
              Scalar<std::uint8_t> && Scalar<std::int32_t> && Scalar<std::int64_t> &&
              Scalar<std::complex<float>> && Scalar<std::complex<double>>);
static_assert(!Scalar<Particle> && !Scalar<bool> && !Scalar<const float> && !Scalar<float*>);
static_assert(sizeof(Float16) == 2);

TEST_CASE("a created array is zeros on whole pages of its own") {
  for (const std::size_t length : {1U, 7U, 1024U, 1025U, 100'000U}) {
    CAPTURE(length);
    auto array = BigArray<float>::create(length);
    REQUIRE(message(array) == "ok");
    CHECK(array->size() == length);
    CHECK(array->nbytes() == length * sizeof(float));
    CHECK(array->writable());
    CHECK(address(*array) % 4096 == 0);
    CHECK(array->memory().block_bytes % 4096 == 0);
    CHECK(array->memory().block_bytes >= array->nbytes());
    CHECK(std::ranges::count(array->elements(), 0.0F) == static_cast<std::ptrdiff_t>(length));
    std::iota(array->writable_elements().begin(), array->writable_elements().end(), 1.0F);
    CHECK(array->elements().back() == static_cast<float>(length));
  }
}

TEST_CASE("an array of nothing is empty, of too much an error with the number") {
  auto none = BigArray<double>::create(0);
  REQUIRE(message(none) == "ok");
  CHECK(none->empty());
  CHECK(none->data() == nullptr);
  for (const std::size_t length : {SIZE_MAX, SIZE_MAX / 8, SIZE_MAX / 8 + 1, SIZE_MAX / 16 + 1}) {
    CAPTURE(length);
    const auto much = BigArray<double>::create(length);
    REQUIRE(outcome(much) == "invalid_size");
    CHECK(much.error().asked() == length);
  }
  CHECK(outcome(BigArray<std::int8_t>::create(std::size_t{1} << 62U)) == "out_of_memory");
}

TEST_CASE("copies are the same array") {
  auto array = BigArray<std::int32_t>::create(10);
  REQUIRE(message(array) == "ok");
  BigArray<std::int32_t> copy = *array;
  copy.writable_elements()[3] = 42;
  CHECK(array->elements()[3] == 42);
  CHECK(copy == *array);
  CHECK(copy.memory().outlives_this());
  auto other = BigArray<std::int32_t>::create(10);
  REQUIRE(message(other) == "ok");
  CHECK_FALSE(*other == copy);
  *array = BigArray<std::int32_t>();
  CHECK(copy.elements()[3] == 42);
  CHECK_FALSE(copy.memory().outlives_this());
}

TEST_CASE("a span stays the caller's") {
  std::vector<std::int64_t> values{1, 2, 3};
  const auto array = BigArray<std::int64_t>::over(std::span(values));
  CHECK(array.data() == values.data());
  CHECK(array.size() == 3);
  CHECK(array.memory().outlives_this());
  array.writable_elements()[0] = 9;
  CHECK(values[0] == 9);
}

TEST_CASE("a vector given over is the array's, and cannot reallocate under it") {
  std::vector<float> values(100, 1.5F);
  const float* const data = values.data();
  auto array = BigArray<float>::over(std::move(values));
  values = std::vector<float>(1000, 2.0F);  // another block
  values.resize(5000);
  CHECK(array.data() == data);
  CHECK(std::ranges::count(array.elements(), 1.5F) == 100);
}

TEST_CASE("an owner lives as long as the last array over its memory") {
  auto owner = std::make_shared<std::vector<double>>(16, 0.5);
  const std::weak_ptr<std::vector<double>> watch = owner;
  const std::span<double> elements(*owner);
  auto array = BigArray<double>::over(elements, std::move(owner));
  auto copy = array;
  array = {};
  CHECK_FALSE(watch.expired());
  CHECK(copy.elements()[15] == 0.5);
  copy = {};
  CHECK(watch.expired());
}

TEST_CASE("a read-only array gives nothing to write to") {
  static constexpr std::int32_t constants[]{4, 5, 6};
  const auto array = BigArray<std::int32_t>::read_only(constants);
  CHECK_FALSE(array.writable());
  CHECK(array.writable_elements().empty());
  CHECK(std::ranges::equal(array.elements(), constants));
}

TEST_CASE("kinds have names and constants") {
  CHECK(float16.name == "float16");
  CHECK(float32.name == "float32");
  CHECK(float64.name == "float64");
  CHECK(int8.name == "int8");
  CHECK(uint8.name == "uint8");
  CHECK(int32.name == "int32");
  CHECK(int64.name == "int64");
  CHECK(complex32.name == "complex32");
  CHECK(complex64.name == "complex64");
}

TEST_CASE("an array that was moved from is empty, and nobody's memory") {
  auto made = BigArray<float>::create(16);
  REQUIRE(message(made) == "ok");
  BigArray<float> array = std::move(*made);
  BigArray<float>& gone = *made;
  CHECK(gone.empty());
  CHECK(gone.data() == nullptr);
  CHECK(gone.memory().owner == nullptr);
  BigArray<float>& self = array;
  array = std::move(self);
  CHECK(array.size() == 16);
  swap(array, gone);
  CHECK(array.empty());
  CHECK(gone.size() == 16);
}
