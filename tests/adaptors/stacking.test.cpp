// SPDX-License-Identifier: MIT
// Limiting, Statistics and Failing on top of one another, in every order, typed and packed.
#include <berth/adaptors/failing.hpp>
#include <berth/adaptors/limiting.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/core/buffer.hpp>
#include <berth/host/allocator.hpp>

#include <concepts>
#include <functional>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"

using namespace berth;

namespace {

constexpr std::uint64_t limit = 1000;

/// What a test asks the layers, whatever their types are.
struct Eyes {
  std::function<std::uint64_t()> live;
  std::function<Statistics()> statistics;
  std::shared_ptr<FailurePlan> plan = std::make_shared<FailurePlan>();
};

/// Puts one layer, by its letter, on `upstream`, and remembers how to look at it.
template <char layer, class A>
auto add(A upstream, Eyes& eyes) {
  if constexpr (layer == 'L') {
    LimitingAllocator<A> limited(std::move(upstream), limit);
    eyes.live = [limited] { return limited.live_bytes(); };
    return limited;
  } else if constexpr (layer == 'S') {
    StatisticsAllocator<A> watched(std::move(upstream));
    eyes.statistics = [watched] { return watched.statistics(); };
    return watched;
  } else {
    return FailingAllocator<A>(std::move(upstream), eyes.plan);
  }
}

/// The bottom layer first. `packs`: each layer is packed before the next goes on top.
template <bool packs, char first, char second, char third, class A>
auto stacked(A upstream, Eyes& eyes) {
  const auto between = [](auto layer) {
    if constexpr (packs)
      return pack(std::move(layer));
    else
      return layer;
  };
  return add<third>(between(add<second>(between(add<first>(between(std::move(upstream)), eyes)), eyes)),
                    eyes);
}

template <char layer, char first, char second, char third>
constexpr int height() {
  return layer == first ? 0 : layer == second ? 1 : 2;
}

template <class A>
std::string freed(A& allocator, Result<buffer_t<A>> buf, std::size_t nbytes) {
  if (!buf) return outcome(buf);
  allocator.free(std::move(*buf), nbytes, {});
  return "ok";
}

template <bool packs, char first, char second, char third>
void check_order() {
  INFO("from the bottom: " << first << second << third << (packs ? ", packed between" : ", typed"));
  Eyes eyes;
  models::Rich<'a'> model;
  auto stack = stacked<packs, first, second, third>(model, eyes);
  static_assert(OffsetAllocator<decltype(stack)> && TransferAllocator<decltype(stack)> &&
                QueueAllocator<decltype(stack)>);

  // All pass, all count.
  auto a = stack.alloc(600, {});
  REQUIRE(message(a) == "ok");
  auto b = stack.alloc(400, {.zero = true});
  REQUIRE(message(b) == "ok");
  CHECK(eyes.live() == 1000);
  CHECK(eyes.statistics().bytes == Counter{1000, 1000, 1000});
  CHECK(eyes.plan->calls() == 2);
  REQUIRE(message(stack.transfer(*a, *b, 100)) == "ok");
  auto view = stack.offset(*a, 50, 75);
  REQUIRE(message(view) == "ok");
  std::vector<std::byte> back(25);
  REQUIRE(message(stack.copyout(back, *view)) == "ok");
  CHECK(back == std::vector<std::byte>(25));
  CHECK(eyes.statistics().transfer_bytes == 100);
  CHECK(eyes.statistics().copyout_bytes == 25);
  CHECK(eyes.plan->calls() == 5);

  // Over the limit: what lies above the limit sees a call that failed, what lies below none.
  static_cast<void>(model.state().calls());
  CHECK(freed(stack, stack.alloc(1, {}), 1) == "out_of_memory");
  CHECK(model.state().calls().empty());
  constexpr int limiting = height<'L', first, second, third>();
  CHECK(eyes.statistics().failures == (height<'S', first, second, third>() > limiting ? 1U : 0U));
  CHECK(eyes.plan->calls() == (height<'F', first, second, third>() > limiting ? 6U : 5U));
  CHECK(eyes.live() == 1000);
  stack.free(std::move(*b), 400, {.zero = true});
  CHECK(eyes.live() == 600);

  // A refusal: the budget is whole again, whoever stands above whom.
  const std::uint64_t failures = eyes.statistics().failures;
  eyes.plan->fail_nth(1, Errc::device_lost);
  CHECK(freed(stack, stack.alloc(100, {}), 100) == "device_lost");
  CHECK(eyes.live() == 600);
  constexpr bool seen = height<'S', first, second, third>() > height<'F', first, second, third>();
  CHECK(eyes.statistics().failures == failures + (seen ? 1 : 0));
  CHECK(freed(stack, stack.alloc(100, {}), 100) == "ok");

  // A handle on another queue shares all of it.
  models::Native native_queue;
  auto handle = stack.on(Queue::borrow(models::queue_kind, &native_queue));
  REQUIRE(message(handle) == "ok");
  auto c = handle->alloc(400, {});
  REQUIRE(message(c) == "ok");
  CHECK(eyes.live() == 1000);
  CHECK(eyes.statistics().bytes.current == 1000);
  CHECK(freed(stack, stack.alloc(1, {}), 1) == "out_of_memory");
  stack.free(std::move(*c), 400, {});

  handle->free(std::move(*a), 600, {});
  CHECK(eyes.live() == 0);
  CHECK(eyes.statistics().bytes.current == 0);
  CHECK(eyes.statistics().allocations.current == 0);
  CHECK(model.state().live_blocks() == 0);
}

template <bool packs>
void check_every_order() {
  check_order<packs, 'L', 'S', 'F'>();
  check_order<packs, 'L', 'F', 'S'>();
  check_order<packs, 'S', 'L', 'F'>();
  check_order<packs, 'S', 'F', 'L'>();
  check_order<packs, 'F', 'L', 'S'>();
  check_order<packs, 'F', 'S', 'L'>();
}

}  // namespace

TEST_CASE("the three stack in every order, typed") { check_every_order<false>(); }
TEST_CASE("the three stack in every order, packed between the layers") { check_every_order<true>(); }

TEST_CASE("packing a packed stack adds no layer, and the backend's buffer shows through") {
  Eyes eyes;
  auto host = host::Allocator::open();
  REQUIRE(message(host) == "ok");
  const PackedAllocator packed = pack(stacked<true, 'L', 'S', 'F'>(*host, eyes));
  CHECK(pack(packed) == packed);
  {
    auto buffer = Buffer::create(packed, 100, {.zero = true});
    REQUIRE(message(buffer) == "ok");
    REQUIRE(buffer->as<host::HostBuffer>() != nullptr);
    CHECK(buffer->as<host::HostBuffer>()->bytes()[99] == std::byte{0});
    auto view = buffer->view(10, 90);
    REQUIRE(message(view) == "ok");
    CHECK(view->as<host::HostBuffer>()->data() == buffer->as<host::HostBuffer>()->data() + 90);
    CHECK(eyes.live() == 100);
  }
  CHECK(eyes.live() == 0);
  CHECK(eyes.statistics().allocations == Counter{0, 1, 1});
}

TEST_CASE("a handle that can only be moved stacks as well") {
  Eyes eyes;
  models::Plain<models::MoveOnlyBuffer> model;
  models::MoveOnlyBuffer::traffic = {};
  {
    auto stack = stacked<false, 'F', 'S', 'L'>(model, eyes);
    CHECK(freed(stack, stack.alloc(100, {}), 100) == "ok");
    CHECK(freed(stack, stack.alloc(limit + 1, {}), limit + 1) == "out_of_memory");
  }
  CHECK(eyes.live() == 0);
  CHECK(models::MoveOnlyBuffer::traffic.alive() == 0);
  CHECK(model.state().calls() == models::Counts{{"alloc", 1}, {"free", 1}});
}
