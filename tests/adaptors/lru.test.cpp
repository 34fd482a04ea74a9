// SPDX-License-Identifier: MIT
#include <berth/adaptors/lru.hpp>

#include <berth/host/allocator.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/scale.hpp"
#include "support/scripted_upstream.hpp"

namespace {

using namespace berth;
using berth_test::NumberedBlock;
using berth_test::QueuedUpstream;
using berth_test::Script;
using berth_test::ScriptedUpstream;
using Log = std::vector<std::string>;
using Lru = LruAllocator<ScriptedUpstream>;
using QueuedLru = LruAllocator<QueuedUpstream>;

struct Cache {
  explicit Cache(LruOptions options = {}) : lru(*Lru::create(ScriptedUpstream(script), std::move(options))) {}

  NumberedBlock alloc(std::size_t nbytes, const BufferSpec& spec = {}) {
    auto block = lru.alloc(nbytes, spec);
    REQUIRE(message(block) == "ok");
    return *block;
  }
  void free(const NumberedBlock& block, const BufferSpec& spec = {}) { lru.free(block, block.size, spec); }
  Log log() { return script->take_log(); }

  std::shared_ptr<Script> script = std::make_shared<Script>();
  Lru lru;
};

TEST_CASE("a freed block serves the next request of the same size and spec, the newest first") {
  Cache cache;
  const auto one = cache.alloc(100);
  const auto two = cache.alloc(100);
  cache.free(one);
  cache.free(two);
  CHECK(cache.alloc(100).number == two.number);
  CHECK(cache.alloc(100).number == one.number);
  CHECK(cache.alloc(100).number == 3);
  CHECK(cache.log() == Log{"alloc 1", "alloc 2", "alloc 3"});
}

TEST_CASE("another size or spec is another block") {
  Cache cache;
  cache.free(cache.alloc(100));
  CHECK(cache.alloc(101).number == 2);
  CHECK(cache.alloc(100, {.host = true}).number == 3);
  CHECK(cache.alloc(100, {.cpu_access = true}).number == 4);
  CHECK(cache.alloc(100, {.uncached = true}).number == 5);
  CHECK(cache.alloc(100).number == 1);
}

TEST_CASE("nolru, zero, external_ptr and nothing at all bypass the cache") {
  Cache cache;
  int memory = 0;
  for (const BufferSpec spec :
       {BufferSpec{.nolru = true}, BufferSpec{.zero = true}, BufferSpec{.external_ptr = &memory}}) {
    const auto block = cache.alloc(100, spec);
    cache.free(block, spec);
    const auto number = std::to_string(block.number);
    CHECK(cache.log() == Log{"alloc " + number, "free " + number});
  }
  cache.free(cache.alloc(0));
  CHECK(cache.log().empty());
  CHECK(cache.lru.statistics().cached_blocks == 0);
  CHECK(cache.lru.statistics().bypassed == 4);
  CHECK(cache.lru.statistics().live_bytes == 0);
}

TEST_CASE("BERTH_LRU=0 at construction switches it off") {
  ::setenv("BERTH_LRU", "0", 1);
  Cache off;
  ::unsetenv("BERTH_LRU");
  Cache on;
  CHECK_FALSE(off.lru.enabled());
  CHECK(on.lru.enabled());
  off.free(off.alloc(100));
  CHECK(off.log() == Log{"alloc 1", "free 1"});
  on.free(on.alloc(100));
  CHECK(on.log() == Log{"alloc 1"});
}

TEST_CASE("the budget is kept by freeing the oldest of any size") {
  Cache cache({.budget_bytes = 1000});
  const auto one = cache.alloc(400);
  const auto two = cache.alloc(300);
  const auto three = cache.alloc(300);
  const auto four = cache.alloc(200);
  cache.log();
  for (const auto& block : {one, two, three}) cache.free(block);
  CHECK(cache.lru.statistics().cached_bytes == 1000);
  CHECK(cache.log().empty());
  cache.free(four);
  CHECK(cache.log() == Log{"free 1"});
  CHECK(cache.lru.statistics().cached_bytes == 800);
  CHECK(cache.lru.statistics().evictions == 1);

  const auto large = cache.alloc(1001);
  cache.log();
  cache.free(large);  // larger than the whole budget: nothing makes room for it
  CHECK(cache.log() == Log{"free 5"});
  CHECK(cache.lru.statistics().cached_bytes == 800);
  CHECK(cache.lru.statistics().peak_cached_bytes == 1000);
}

TEST_CASE("the budget is half of the device's memory unless given") {
  auto script = std::make_shared<Script>();
  script->total_bytes = 1000;
  CHECK(Lru::create(ScriptedUpstream(script))->budget_bytes() == 500);
  CHECK(Cache().lru.budget_bytes() == reclaim::everything);
}

TEST_CASE("trim frees the oldest until so many bytes are kept") {
  Cache cache;
  std::vector<NumberedBlock> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(cache.alloc(100 + static_cast<std::size_t>(i)));
  for (const auto& block : blocks) cache.free(block);
  cache.log();
  CHECK(cache.lru.trim(1000) == 0);
  CHECK(cache.lru.trim(250) == 201);
  auto freed = cache.log();
  std::ranges::sort(freed);
  CHECK(freed == Log{"free 1", "free 2"});
  CHECK(cache.lru.trim(0) == 205);
  CHECK(cache.script->live.empty());
}

TEST_CASE("size classes: 16 an octave, exact at powers of two, never more than 6.25 % larger") {
  for (std::size_t nbytes = 1; nbytes <= 1 << 20; ++nbytes) {
    const std::size_t rounded = size_class(nbytes);
    REQUIRE(rounded >= nbytes);
    REQUIRE((rounded - nbytes) * 16 <= nbytes);
    REQUIRE(size_class(rounded) == rounded);
  }
  for (unsigned bit = 0; bit < 64; ++bit) CHECK(size_class(std::size_t{1} << bit) == std::size_t{1} << bit);
  for (std::size_t k = 0; k < 64; ++k) CHECK(size_class(SIZE_MAX - k) == SIZE_MAX - k);
  std::size_t classes = 0;
  for (std::size_t nbytes = (1 << 16) + 1; nbytes <= 1 << 17; nbytes = size_class(nbytes) + 1) ++classes;
  CHECK(classes == 16);
}

TEST_CASE("with size classes nearby sizes share blocks, and a buffer still has the size asked for") {
  Cache cache({.size_classes = true});
  const auto block = cache.alloc(100'001);
  CHECK(block.nbytes() == 100'001);
  CHECK(cache.script->live.at(1) == size_class(100'001));
  cache.free(block);
  const auto again = cache.alloc(100'100);
  CHECK(again.number == 1);
  CHECK(again.nbytes() == 100'100);
  cache.free(again);
  cache.lru.trim(0);
  CHECK(cache.log() == Log{"alloc 1", "free 1"});
}

TEST_CASE("size classes never ask for more than the device's maximum") {
  Cache cache({.size_classes = true});
  auto script = std::make_shared<Script>();
  script->max_bytes = 100'001;
  auto lru = Lru::create(ScriptedUpstream(script), {.size_classes = true});
  REQUIRE(lru);
  auto block = lru->alloc(100'001, {});
  REQUIRE(message(block) == "ok");
  CHECK(script->live.at(1) == 100'001);
  lru->free(*block, 100'001, {});
}

TEST_CASE("size classes need buffers that can be resized") {
  struct Rigid : ScriptedUpstream {
    using ScriptedUpstream::ScriptedUpstream;
  };
  CHECK(Lru::create(ScriptedUpstream(std::make_shared<Script>()), {.size_classes = true}).has_value());
  auto packed = pack(ScriptedUpstream(std::make_shared<Script>()));
  CHECK(outcome(LruAllocator<PackedAllocator>::create(packed, {.size_classes = true})) == "ok");
}

TEST_CASE("an entry leaves the cache before it is freed") {
  Cache cache;
  const auto one = cache.alloc(100);
  const auto two = cache.alloc(100);
  cache.free(one);
  cache.free(two);
  // A release that comes back into the cache finds neither itself nor its sibling twice.
  std::atomic<int> depth{0};
  cache.script->on_free = [&] {
    if (depth.fetch_add(1) == 0) cache.lru.trim(0);
  };
  cache.log();
  cache.lru.trim(0);
  cache.script->on_free = nullptr;
  auto freed = cache.log();
  std::ranges::sort(freed);
  CHECK(freed == Log{"free 1", "free 2"});
  CHECK(cache.script->live.empty());
}

TEST_CASE("the cache frees its blocks when the last handle goes") {
  auto script = std::make_shared<Script>();
  {
    auto lru = Lru::create(ScriptedUpstream(script));
    auto copy = *lru;
    auto block = copy.alloc(10, {});
    lru->free(*block, 10, {});
    CHECK(lru->statistics() == copy.statistics());
    CHECK(script->live.size() == 1);
  }
  CHECK(script->live.empty());
}

TEST_CASE("what is not the cache's to keep goes upstream") {
  Cache cache;
  auto other = std::make_shared<Script>();
  const auto foreign = *ScriptedUpstream(other).alloc(100, {});
  static std::vector<Errc> reported;
  reported.clear();
  set_diagnostic_sink([](const Error& error, void*) noexcept { reported.push_back(error.code()); });
  cache.free(foreign);
  auto view = cache.alloc(50);
  view.view = true;
  cache.free(view);
  set_diagnostic_sink(nullptr);
  CHECK(reported == std::vector{Errc::wrong_allocator, Errc::invalid_argument});
  CHECK(cache.lru.statistics().cached_blocks == 0);
  CHECK(cache.lru.statistics().live_bytes == 50);

  // A block that came from upstream directly, adopted say: no place was made for it.
  const auto adopted = *cache.lru.upstream().alloc(77, {});
  cache.log();
  cache.free(adopted);
  CHECK(cache.log() == Log{"free " + std::to_string(adopted.number)});
}

TEST_CASE("a block that came from elsewhere takes the place of one, and breaks nothing") {
  Cache cache;
  const auto a = cache.alloc(100);
  const auto b = cache.alloc(200);
  const auto direct = *cache.lru.upstream().alloc(100, {});
  cache.free(direct);
  cache.log();
  cache.free(a);  // its place is taken
  CHECK(cache.log() == Log{"free " + std::to_string(a.number)});
  CHECK(cache.lru.statistics().cached_blocks == 1);
  cache.lru.trim(0);
  cache.free(b);
  CHECK(cache.lru.statistics().cached_blocks == 1);
  CHECK(cache.alloc(200).number == b.number);
}

// Out of memory.

TEST_CASE("refused once: synchronize, free the oldest until enough, try again") {
  Cache cache;
  const auto one = cache.alloc(100);
  const auto two = cache.alloc(60);
  const auto three = cache.alloc(70);
  for (const auto& block : {one, two, three}) cache.free(block);
  cache.log();
  cache.script->failures = 1;
  CHECK(cache.alloc(150).number == 4);
  auto log = cache.log();
  std::sort(log.begin() + 2, log.begin() + 4);
  CHECK(log == Log{"refuse", "synchronize", "free 1", "free 2", "alloc 4"});
  CHECK(cache.lru.statistics().cached_bytes == 70);
}

TEST_CASE("refused twice: free everything, try again") {
  Cache cache;
  cache.free(cache.alloc(100));
  const auto two = cache.alloc(200);
  const auto three = cache.alloc(300);
  cache.free(two);
  cache.free(three);
  cache.log();
  cache.script->failures = 2;
  CHECK(cache.alloc(10).number == 4);
  CHECK(cache.log() == Log{"refuse", "synchronize", "free 1", "refuse", "free 3", "free 2", "alloc 4"});
}

TEST_CASE("refused for good: one error with the accounts") {
  Cache cache;
  const auto held = cache.alloc(1000);
  cache.free(cache.alloc(100));
  cache.script->failures = 100;
  const auto refused = cache.lru.alloc(500, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Errc::out_of_memory);
  CHECK(refused.error().asked() == 500);
  CHECK(refused.error().live() == 1000);
  CHECK(refused.error().cached() == 0);
  CHECK(cache.script->failures == 97);
  cache.script->failures = 0;
  cache.free(held);
  CHECK(cache.alloc(1000).number == held.number);
}

TEST_CASE("the ladder serves allocations that bypass the cache too") {
  Cache cache;
  cache.free(cache.alloc(100));
  cache.log();
  cache.script->failures = 1;
  const auto zeroed = cache.lru.alloc(100, {.zero = true});
  CHECK(message(zeroed) == "ok");
  CHECK(cache.log() == Log{"refuse", "synchronize", "free 1", "alloc 2"});
}

TEST_CASE("other errors, and sizes above the device's maximum, free nothing") {
  Cache cache;
  cache.free(cache.alloc(100));
  cache.log();
  CHECK(outcome(cache.lru.alloc(cache.script->max_bytes + 1, {})) == "exceeds_device_maximum");
  cache.script->code = Errc::device_lost;
  cache.script->failures = 1;
  CHECK(outcome(cache.lru.alloc(5, {})) == "device_lost");
  CHECK(cache.log() == Log{"refuse"});
  CHECK(cache.lru.statistics().cached_bytes == 100);
}

TEST_CASE("caches of the same device give way first; those of another are left alone") {
  Cache here;
  auto sibling_script = std::make_shared<Script>();
  sibling_script->device = here.script->device;
  auto sibling = Lru::create(ScriptedUpstream(sibling_script));
  Cache elsewhere;
  for (std::size_t nbytes : {1000U, 50U}) {
    const auto block = *sibling->alloc(nbytes, {});
    sibling->free(block, nbytes, {});
  }
  elsewhere.free(elsewhere.alloc(1000));
  here.free(here.alloc(1000));
  here.log();
  here.script->failures = 1;
  CHECK(here.alloc(500).number == 2);
  CHECK(sibling->statistics().cached_bytes == 50);
  CHECK(here.lru.statistics().cached_bytes == 1000);
  CHECK(elsewhere.lru.statistics().cached_bytes == 1000);
  CHECK(here.log() == Log{"refuse", "synchronize", "alloc 2"});
}

TEST_CASE("the hook is asked last, with no lock held, and again for as long as it says so") {
  int asked = 0;
  std::uint64_t seen = 0;
  Cache* self = nullptr;
  Cache cache({.on_out_of_memory = [&](std::uint64_t nbytes) {
    seen = nbytes;
    self->lru.trim(0);  // would hang if a lock were held
    static_cast<void>(self->lru.statistics());
    return ++asked < 3;
  }});
  self = &cache;
  cache.script->failures = 4;
  CHECK(outcome(cache.lru.alloc(123, {})) == "ok");
  CHECK(asked == 2);
  CHECK(seen == 123);
  asked = 0;
  cache.script->failures = 1000;
  CHECK(outcome(cache.lru.alloc(5, {})) == "out_of_memory");
  CHECK(asked == 3);
}

TEST_CASE("an allocation inside the hook climbs the ladder but does not ask the hook again") {
  int asked = 0;
  Cache* self = nullptr;
  Cache cache({.on_out_of_memory = [&](std::uint64_t) {
    ++asked;
    CHECK(outcome(self->lru.alloc(7, {})) == "out_of_memory");
    return false;
  }});
  self = &cache;
  cache.script->failures = 1000;
  CHECK(outcome(cache.lru.alloc(5, {})) == "out_of_memory");
  CHECK(asked == 1);
  CHECK(outcome(cache.lru.alloc(5, {})) == "out_of_memory");
  CHECK(asked == 2);
  // Three tries each: twice the allocation, twice the one inside the hook.
  CHECK(cache.script->failures == 1000 - 12);
}

TEST_CASE("of stacked caches the outermost climbs the ladder, the inner one passes the error up") {
  auto script = std::make_shared<Script>();
  auto inner = *Lru::create(ScriptedUpstream(script));
  auto outer = *LruAllocator<Lru>::create(inner);
  script->failures = 1000;
  CHECK(outcome(outer.alloc(5, {})) == "out_of_memory");
  CHECK(script->failures == 997);
}

// Queues.

struct Queues {
  Queues() { QueuedUpstream::events().clear(); }
  NumberedBlock alloc(QueuedLru& lru, std::size_t nbytes, const BufferSpec& spec = {}) {
    auto block = lru.alloc(nbytes, spec);
    REQUIRE(message(block) == "ok");
    return *block;
  }
  const std::string one = "q1";
  const std::string two = "q2";
  std::shared_ptr<Script> script = std::make_shared<Script>();
  QueuedLru home = *QueuedLru::create(QueuedUpstream(script, "q0"));
};

TEST_CASE("on one queue nothing is recorded and nothing waits") {
  Queues q;
  q.home.free(q.alloc(q.home, 100), 100, {});
  CHECK(q.alloc(q.home, 100).number == 1);
  CHECK(q.script->take_log() == Log{"alloc 1"});
}

TEST_CASE("a block freed on one queue and reused on another waits for it there") {
  Queues q;
  auto other = *q.home.on(QueuedUpstream::queue(q.one));
  q.home.free(q.alloc(q.home, 100), 100, {});
  CHECK(q.alloc(other, 100).number == 1);
  CHECK(q.script->take_log() == Log{"alloc 1", "record q0#0", "q1 waits q0#0"});
  other.free(NumberedBlock{1, 100, q.script->instance}, 100, {});
  CHECK(q.alloc(other, 100).number == 1);  // its own queue: already in order
  CHECK(q.script->take_log() == Log{"record q1#1"});
}

TEST_CASE("a block freed while there was one queue is ordered when another comes") {
  Queues q;
  q.home.free(q.alloc(q.home, 100), 100, {});
  auto other = *q.home.on(QueuedUpstream::queue(q.one));
  CHECK(q.alloc(other, 100).number == 1);
  CHECK(q.script->take_log() == Log{"alloc 1", "record q0#0", "q1 waits q0#0"});
}

TEST_CASE("recorded uses are waited for, except on the queue that reuses") {
  Queues q;
  const auto block = q.alloc(q.home, 100);
  CHECK(q.home.record_use(block, QueuedUpstream::queue(q.one)));
  CHECK(q.home.record_use(block, QueuedUpstream::queue(q.two)));
  CHECK(q.home.record_use(block, QueuedUpstream::queue(q.two)));
  q.home.free(block, 100, {});
  CHECK(q.script->take_log() == Log{"alloc 1", "record q0#0", "record q1#1", "record q2#2"});
  auto other = *q.home.on(QueuedUpstream::queue(q.one));
  CHECK(q.alloc(other, 100).number == 1);
  CHECK(q.script->take_log() == Log{"q1 waits q0#0", "q1 waits q2#2"});
  other.free(block, 100, {});
  CHECK(q.script->take_log() == Log{"record q1#3"});  // the old uses are not the new owner's
}

TEST_CASE("on() twice with the same queue is the same queue") {
  Queues q;
  auto first = *q.home.on(QueuedUpstream::queue(q.one));
  auto second = *q.home.on(QueuedUpstream::queue(q.one));
  first.free(q.alloc(first, 100), 100, {});
  q.script->take_log();
  CHECK(q.alloc(second, 100).number == 1);
  CHECK(q.script->take_log().empty());
}

TEST_CASE("a block whose uses cannot be recorded is not reused") {
  Queues q;
  auto other = *q.home.on(QueuedUpstream::queue(q.one));
  const auto block = q.alloc(q.home, 100);
  q.script->record_fails = true;
  q.home.free(block, 100, {});
  CHECK(q.script->take_log() == Log{"alloc 1", "free 1"});
  q.script->record_fails = false;
  CHECK(q.alloc(q.home, 100).number == 2);
  CHECK(q.home.statistics().live_bytes == 100);
}

TEST_CASE("memory that the CPU can write is reused only when its last use has completed") {
  for (const BufferSpec spec : {BufferSpec{.host = true}, BufferSpec{.cpu_access = true}}) {
    Queues q;
    q.home.free(q.alloc(q.home, 100, spec), 100, spec);
    CHECK(q.script->take_log() == Log{"alloc 1", "record q0#0"});
    CHECK(q.alloc(q.home, 100, spec).number == 2);  // still in use
    QueuedUpstream::events()[0]->done = true;
    CHECK(q.alloc(q.home, 100, spec).number == 1);
    q.home.free(NumberedBlock{1, 100, q.script->instance}, 100, spec);
    QueuedUpstream::events()[1]->broken = true;
    q.script->take_log();
    CHECK(q.alloc(q.home, 100, spec).number == 3);  // the use failed, or cannot be known: given up
    CHECK(q.script->take_log() == Log{"free 1", "alloc 3"});
    CHECK(q.home.trim(0) == 0);
  }
}

TEST_CASE("the ladder synchronizes every queue") {
  Queues q;
  auto other = *q.home.on(QueuedUpstream::queue(q.one));
  q.script->failures = 1;
  q.alloc(other, 10);
  CHECK(q.script->take_log() == Log{"refuse", "synchronize", "synchronize", "alloc 1"});
}

// Threads.

TEST_CASE("threads share the cache: no block twice, the budget kept", "[threads]") {
  auto lru = *LruAllocator<host::Allocator>::create(*host::Allocator::open(), {.budget_bytes = 1 << 20});
  std::atomic<bool> wrong{false};
  std::vector<std::thread> threads;
  for (unsigned worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      for (std::size_t i = 0; i < scaled(20'000); ++i) {
        const std::size_t nbytes = 256U << (i * 7 + worker) % 9;
        auto buf = lru.alloc(nbytes, {});
        if (!buf) {
          wrong = true;
          return;
        }
        const auto mark = static_cast<std::byte>(worker + 1);
        std::ranges::fill(buf->bytes().first(64), mark);
        if (i % 100 == 0) lru.trim(1 << 18);
        if (lru.statistics().cached_bytes > 1 << 20) wrong = true;
        if (std::ranges::any_of(buf->bytes().first(64), [mark](std::byte b) { return b != mark; }))
          wrong = true;
        lru.free(*buf, nbytes, {});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK_FALSE(wrong);
  CHECK(lru.statistics().live_bytes == 0);
  CHECK(lru.statistics().hits + lru.statistics().misses == 4 * scaled(20'000));
}

}  // namespace
