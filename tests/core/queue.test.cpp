// SPDX-License-Identifier: MIT
#include <berth/core/queue.hpp>

#include <type_traits>

#include "support/catch.hpp"
#include "support/models.hpp"

using namespace berth;
using models::Native;

namespace {

static_assert(!std::is_same_v<Queue, Event> && !std::is_convertible_v<Queue, Event>);
static_assert(sizeof(Queue) == 2 * sizeof(void*));
static_assert(std::is_nothrow_copy_constructible_v<Queue> && std::is_nothrow_move_constructible_v<Queue>);
static_assert(std::is_nothrow_swappable_v<Queue>);

constexpr const HandleKind& kind = models::queue_kind;
constexpr HandleKind other_backend{"other", Native::retain, Native::release};
constexpr HandleKind other_retain{"model", nullptr, Native::release};
constexpr HandleKind other_release{"model", Native::retain, nullptr};
constexpr HandleKind uncounted{"uncounted", nullptr, nullptr};
// The same kind, as another library has it.
constexpr HandleKind same_kind{"model", Native::retain, Native::release};

}  // namespace

TEST_CASE("adopt takes the caller's reference over, borrow takes its own") {
  Native native;
  {
    const Queue queue = Queue::borrow(kind, &native);
    CHECK(native.references == 2);
  }
  CHECK(native.references == 1);
  {
    const Queue queue = Queue::adopt(kind, &native);
    CHECK(native.references == 1);
  }
  CHECK(native.references == 0);
}

TEST_CASE("copies share the native object and each holds a reference") {
  Native native;
  {
    const Queue first = Queue::borrow(kind, &native);
    const Queue second = first;  // NOLINT(performance-unnecessary-copy-initialization): the copy is the test
    CHECK(native.references == 3);
    CHECK(first == second);
    Queue third;
    third = second;
    CHECK(native.references == 4);
    CHECK(third.native(kind) == &native);
  }
  CHECK(native.references == 1);
}

TEST_CASE("a move hands the reference on") {
  Native native;
  {
    Queue first = Queue::borrow(kind, &native);
    Queue second = std::move(first);
    CHECK(native.references == 2);
    CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): documented
    CHECK(first.native(kind) == nullptr);
    CHECK(first.backend().empty());
    CHECK(first == Queue());
    first = std::move(second);
    CHECK(native.references == 2);
    CHECK(first.native(kind) == &native);
    CHECK_FALSE(second);
  }
  CHECK(native.references == 1);
}

TEST_CASE("assignment gives back what was there; to itself, by copy and by move, it changes nothing") {
  Native one;
  Native two;
  {
    Queue queue = Queue::borrow(kind, &one);
    queue = Queue::borrow(kind, &two);
    CHECK(one.references == 1);
    CHECK(two.references == 2);
    Queue& same = queue;
    queue = same;
    CHECK(queue.native(kind) == &two);
    CHECK(two.references == 2);
    queue = std::move(same);
    CHECK(queue.native(kind) == &two);
    CHECK(two.references == 2);
    queue = Queue();
    CHECK(two.references == 1);
  }
  CHECK(one.references == 1);
  CHECK(two.references == 1);
}

TEST_CASE("swap exchanges, with itself and with nothing too") {
  Native one;
  Native two;
  {
    Queue a = Queue::borrow(kind, &one);
    Queue b = Queue::borrow(other_backend, &two);
    swap(a, b);
    CHECK(a.native(other_backend) == &two);
    CHECK(b.native(kind) == &one);
    Queue& same = a;
    swap(a, same);
    CHECK(a.native(other_backend) == &two);
    Queue none;
    swap(a, none);
    CHECK_FALSE(a);
    CHECK(none.backend() == "other");
    CHECK(one.references == 2);
    CHECK(two.references == 2);
  }
  CHECK(one.references == 1);
  CHECK(two.references == 1);
}

TEST_CASE("the native handle is given to its own kind only") {
  Native native;
  const Queue queue = Queue::borrow(kind, &native);
  CHECK(queue.native(kind) == &native);
  CHECK(queue.native(same_kind) == &native);
  CHECK(queue.native(other_backend) == nullptr);
  CHECK(queue.native(other_retain) == nullptr);
  CHECK(queue.native(other_release) == nullptr);
  CHECK(Queue().native(kind) == nullptr);
  CHECK(queue.backend() == "model");
}

TEST_CASE("a kind that does not count calls nothing") {
  Native native;
  {
    const Event event = Event::borrow(uncounted, &native);
    const Event copy = event;  // NOLINT(performance-unnecessary-copy-initialization)
    const Event adopted = Event::adopt(uncounted, &native);
    CHECK(copy == adopted);
    CHECK(copy.native(uncounted) == &native);
  }
  CHECK(native.references == 1);
}

TEST_CASE("no native handle makes an empty one") {
  CHECK_FALSE(Queue::borrow(kind, nullptr));
  CHECK_FALSE(Queue::adopt(kind, nullptr));
  CHECK(Queue::adopt(kind, nullptr).backend().empty());
  CHECK(Queue::borrow(kind, nullptr) == Queue());
}

TEST_CASE("handles of different native objects differ") {
  Native one;
  Native two;
  CHECK_FALSE(Queue::borrow(kind, &one) == Queue::borrow(kind, &two));
  CHECK_FALSE(Queue::borrow(kind, &one) == Queue());
  CHECK(Queue() == Queue());
}
