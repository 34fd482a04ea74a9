// SPDX-License-Identifier: MIT
#include <berth/core/packed_buffer.hpp>

#include "support/catch.hpp"
#include "support/models.hpp"

using namespace berth;
using models::BigBuffer;
using models::MoveOnlyBuffer;
using models::SmallBuffer;

namespace {

static_assert(PackedBuffer::capacity == 48);
static_assert(sizeof(PackedBuffer) == 64, "the buffer in place, and one pointer");
static_assert(!std::is_copy_constructible_v<PackedBuffer> && !std::is_copy_assignable_v<PackedBuffer>);
static_assert(std::is_nothrow_move_constructible_v<PackedBuffer> &&
              std::is_nothrow_move_assignable_v<PackedBuffer>);
static_assert(std::is_nothrow_swappable_v<PackedBuffer>);
static_assert(!std::is_convertible_v<SmallBuffer, PackedBuffer>, "packing is said, not slipped in");
static_assert(!std::is_constructible_v<PackedBuffer, int>);

constexpr InstanceId instance{77};
std::byte memory[64];

template <class B>
B made(std::size_t nbytes) {
  return B{models::Place{memory, nbytes, instance, false}};
}

// Each storage form, and none: makes a PackedBuffer, and tells one that holds what was made.
struct Nothing {};
template <class B>
struct Form {
  static PackedBuffer make(std::size_t nbytes) { return PackedBuffer(made<B>(nbytes)); }
  static bool holds(const PackedBuffer& packed, std::size_t nbytes) {
    const B* held = packed.as<B>();
    return held != nullptr && held->intact() && held->data == memory && held->nbytes() == nbytes &&
           !packed.empty() && packed.nbytes() == nbytes && packed.instance() == instance && !packed.is_view();
  }
};
template <>
struct Form<Nothing> {
  static PackedBuffer make(std::size_t) { return {}; }
  static bool holds(const PackedBuffer& packed, std::size_t) {
    return packed.empty() && packed.nbytes() == 0 && packed.instance() == InstanceId{} && !packed.is_view() &&
           packed.as<SmallBuffer>() == nullptr && packed.as<BigBuffer>() == nullptr &&
           packed.as<MoveOnlyBuffer>() == nullptr;
  }
};

template <class A>
void check_alone() {
  PackedBuffer first = Form<A>::make(1);
  REQUIRE(Form<A>::holds(first, 1));

  PackedBuffer second = std::move(first);
  CHECK(Form<Nothing>::holds(first, 0));  // NOLINT(bugprone-use-after-move): what a move leaves is documented
  CHECK(Form<A>::holds(second, 1));

  PackedBuffer& same = second;
  second = std::move(same);
  CHECK(Form<A>::holds(second, 1));

  using std::swap;
  swap(second, same);
  CHECK(Form<A>::holds(second, 1));
}

template <class A, class B>
void check_pair() {
  using std::swap;
  {
    PackedBuffer a = Form<A>::make(1);
    PackedBuffer b = Form<B>::make(2);
    swap(a, b);
    CHECK(Form<B>::holds(a, 2));
    CHECK(Form<A>::holds(b, 1));
    swap(a, b);
    CHECK(Form<A>::holds(a, 1));
    CHECK(Form<B>::holds(b, 2));
  }
  {
    PackedBuffer a = Form<A>::make(1);
    PackedBuffer b = Form<B>::make(2);
    a = std::move(b);
    CHECK(Form<B>::holds(a, 2));
    CHECK(Form<Nothing>::holds(b, 0));  // NOLINT(bugprone-use-after-move)
    b = Form<A>::make(3);
    CHECK(Form<A>::holds(b, 3));
  }
}

template <class A>
void check_with_all() {
  check_alone<A>();
  check_pair<A, Nothing>();
  check_pair<A, SmallBuffer>();
  check_pair<A, BigBuffer>();
  check_pair<A, MoveOnlyBuffer>();
}

}  // namespace

TEST_CASE("every storage form moves, moves to itself, is assigned and swaps with every other") {
  MoveOnlyBuffer::traffic = {};
  check_with_all<Nothing>();
  check_with_all<SmallBuffer>();
  check_with_all<BigBuffer>();
  check_with_all<MoveOnlyBuffer>();
  CHECK(MoveOnlyBuffer::traffic.made > 0);
  CHECK(MoveOnlyBuffer::traffic.alive() == 0);
}

TEST_CASE("a handle is moved once in, once a move, and destroyed once each") {
  MoveOnlyBuffer::traffic = {};
  {
    PackedBuffer packed(made<MoveOnlyBuffer>(8));
    CHECK(MoveOnlyBuffer::traffic.made == 1);
    CHECK(MoveOnlyBuffer::traffic.moved == 1);
    CHECK(MoveOnlyBuffer::traffic.alive() == 1);
    PackedBuffer other = std::move(packed);
    CHECK(MoveOnlyBuffer::traffic.moved == 2);
    CHECK(MoveOnlyBuffer::traffic.alive() == 1);
    other = PackedBuffer();
    CHECK(MoveOnlyBuffer::traffic.alive() == 0);
  }
  CHECK(MoveOnlyBuffer::traffic.made == 1);
  CHECK(MoveOnlyBuffer::traffic.moved == 2);
  CHECK(MoveOnlyBuffer::traffic.destroyed == 3);
}

TEST_CASE("as gives the buffer of its own type only, and it can be changed in place") {
  PackedBuffer packed(made<SmallBuffer>(5));
  CHECK(packed.as<BigBuffer>() == nullptr);
  CHECK(packed.as<MoveOnlyBuffer>() == nullptr);
  CHECK(packed.as<models::RichBuffer<'a'>>() == nullptr);
  REQUIRE(packed.as<SmallBuffer>() != nullptr);
  packed.as<SmallBuffer>()->size = 6;
  CHECK(packed.nbytes() == 6);
  CHECK(std::as_const(packed).as<SmallBuffer>()->size == 6);
  CHECK(PackedBuffer(models::RichBuffer<'a'>{}).as<models::RichBuffer<'b'>>() == nullptr);
}

TEST_CASE("the buffer is held in place") {
  const PackedBuffer packed(made<BigBuffer>(5));
  const auto* held = reinterpret_cast<const std::byte*>(packed.as<BigBuffer>());
  const auto* whole = reinterpret_cast<const std::byte*>(&packed);
  CHECK(held >= whole);
  CHECK(held + sizeof(BigBuffer) <= whole + sizeof(PackedBuffer));
}

TEST_CASE("a view is told as one, and a buffer without bytes is not an empty PackedBuffer") {
  CHECK(PackedBuffer(SmallBuffer{{memory, 3, instance, true}}).is_view());
  const PackedBuffer packed(SmallBuffer{{nullptr, 0, instance, false}});
  CHECK_FALSE(packed.empty());
  CHECK(packed.nbytes() == 0);
  CHECK(packed.instance() == instance);
}

TEST_CASE("buffers of the same name in two functions are two types") {
  struct First {
    static PackedBuffer make() {
      struct Local : models::Place {};
      return PackedBuffer(Local{});
    }
  };
  struct Second {
    static bool holds(const PackedBuffer& packed) {
      struct Local : models::Place {};
      return packed.as<Local>() != nullptr;
    }
  };
  CHECK_FALSE(Second::holds(First::make()));
}
