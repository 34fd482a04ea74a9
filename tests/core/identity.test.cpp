// SPDX-License-Identifier: MIT
#include <berth/core/identity.hpp>

#include <algorithm>
#include <barrier>
#include <thread>
#include <unordered_set>
#include <vector>

#include "core/type_id_library.hpp"
#include "support/catch.hpp"
#include "support/scale.hpp"

using namespace berth;

namespace {
struct Anonymous {};

// Functions that have a type of the same name inside.
TypeId local_in_first() {
  struct Local {};
  return TypeId::of<Local>();
}
TypeId local_in_second() {
  struct Local {};
  return TypeId::of<Local>();
}
TypeId template_of_local_in_first() {
  struct Local {};
  return TypeId::of<shared_types::Template<Local>>();
}
TypeId template_of_local_in_second() {
  struct Local {};
  return TypeId::of<shared_types::Template<Local>>();
}
}  // namespace

TEST_CASE("no instance id is given twice, on any threads, and none is the default") {
  constexpr std::size_t threads = 4;
  const std::size_t each = scaled(20000);
  std::vector<std::vector<InstanceId>> given(threads);
  std::barrier start(threads);
  std::vector<std::thread> running;
  for (auto& ids : given) {
    running.emplace_back([&] {
      ids.reserve(each);
      start.arrive_and_wait();
      for (std::size_t i = 0; i < each; ++i) ids.push_back(next_instance_id());
    });
  }
  for (std::thread& thread : running) thread.join();

  std::unordered_set<InstanceId> all;
  for (const auto& ids : given) all.insert(ids.begin(), ids.end());
  CHECK(all.size() == threads * each);
  CHECK_FALSE(all.contains(InstanceId{}));
}

TEST_CASE("device keys are equal when all of their words are") {
  const DeviceKey key{"opencl", 1, 2};
  CHECK(key == DeviceKey{"opencl", 1, 2});
  CHECK_FALSE(key == DeviceKey{"cuda", 1, 2});
  CHECK_FALSE(key == DeviceKey{"opencl", 3, 2});
  CHECK_FALSE(key == DeviceKey{"opencl", 1, 3});
}

TEST_CASE("types are told apart within a program") {
  CHECK(TypeId::of<int>() == TypeId::of<int>());
  CHECK_FALSE(TypeId::of<int>() == TypeId::of<unsigned>());
  CHECK_FALSE(TypeId::of<int>() == TypeId::of<const int>());
  CHECK(TypeId::of<Anonymous>() == TypeId::of<Anonymous>());
  CHECK_FALSE(TypeId::of<shared_types::Template<int>>() == TypeId::of<shared_types::Template<long>>());
  const auto first = [] {};
  const auto second = [] {};
  CHECK_FALSE(TypeId::of<decltype(first)>() == TypeId::of<decltype(second)>());
  CHECK(TypeId::of<shared_types::Buffer>().name().find("shared_types::Buffer") != std::string_view::npos);
}

TEST_CASE("local types of the same name are told apart") {
  CHECK(local_in_first() == local_in_first());
  CHECK_FALSE(local_in_first() == local_in_second());
  CHECK_FALSE(template_of_local_in_first() == template_of_local_in_second());
}

TEST_CASE("a type is recognised across shared libraries with hidden visibility") {
  CHECK(type_of_buffer_a() == type_of_buffer_b());
  CHECK(type_of_buffer_a() == TypeId::of<shared_types::Buffer>());
  CHECK(type_of_template_a() == type_of_template_b());
  CHECK_FALSE(type_of_buffer_a() == type_of_template_b());

  const PackedBuffer packed = packed_buffer_a();
  REQUIRE(packed.as<shared_types::Buffer>() != nullptr);
  CHECK(packed.as<shared_types::Buffer>()->answer == 42);
  CHECK(packed.nbytes() == 5);
}

TEST_CASE("types without a name of their own are recognised in their own library only") {
  CHECK(type_of_anonymous_a() == type_of_anonymous_a());
  CHECK_FALSE(type_of_anonymous_a() == type_of_anonymous_b());
  CHECK_FALSE(type_of_anonymous_a() == TypeId::of<Anonymous>());
  CHECK_FALSE(type_of_template_of_anonymous_a() == type_of_template_of_anonymous_b());
  CHECK_FALSE(type_of_lambda_a() == type_of_lambda_b());
}
