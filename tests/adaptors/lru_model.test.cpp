// SPDX-License-Identifier: MIT
// LruAllocator against a reference that is slow and plain: the same requests, the same answers, block for
// block.
#include <berth/adaptors/lru.hpp>

#include <algorithm>
#include <list>
#include <random>

#include "support/catch.hpp"
#include "support/scale.hpp"
#include "support/scripted_upstream.hpp"

namespace {

using namespace berth;
using berth_test::NumberedBlock;
using berth_test::Script;
using berth_test::ScriptedUpstream;

struct Idle {
  std::size_t number;
  std::size_t nbytes;
  BufferSpec spec;
};

/// What the cache must hold, by the words of its contract.
struct Reference {
  std::uint64_t budget;
  std::list<Idle> idle;  // oldest first
  std::uint64_t nbytes = 0;
  std::uint64_t evictions = 0;

  std::size_t take(std::size_t size, const BufferSpec& spec) {
    const auto newest = std::find_if(idle.rbegin(), idle.rend(),
                                     [&](const Idle& i) { return i.nbytes == size && i.spec == spec; });
    if (newest == idle.rend()) return 0;
    const std::size_t number = newest->number;
    nbytes -= size;
    idle.erase(std::next(newest).base());
    return number;
  }
  void evict_down_to(std::uint64_t bytes) {
    while (nbytes > bytes) {
      nbytes -= idle.front().nbytes;
      idle.pop_front();
      ++evictions;
    }
  }
  void put(const Idle& block) {
    if (block.nbytes > budget) {
      ++evictions;
      return;
    }
    evict_down_to(budget - block.nbytes);
    idle.push_back(block);
    nbytes += block.nbytes;
  }
};

struct Live {
  NumberedBlock block;
  std::size_t nbytes;
  BufferSpec spec;
};

void run(std::uint32_t seed, std::size_t operations) {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  auto script = std::make_shared<Script>();
  script->logging = false;
  constexpr std::uint64_t budget = 300'000;
  auto cache = LruAllocator<ScriptedUpstream>::create(ScriptedUpstream(script), {.budget_bytes = budget});
  REQUIRE(cache);
  Reference reference{.budget = budget, .idle = {}};
  std::vector<Live> live;
  std::size_t allocations = 0;
  std::size_t misses = 0;
  std::size_t refused = 0;

  for (std::size_t i = 0; i < operations; ++i) {
    if (live.empty() || (live.size() < 400 && below(2) == 0)) {
      // Few sizes are asked for often and many seldom, so that there are hits and misses.
      const std::size_t nbytes = below(4) != 0 ? 256U << below(8) : 1 + below(40'000);
      const BufferSpec spec{.cpu_access = below(5) == 0, .nolru = below(20) == 0, .zero = below(20) == 0};
      const bool bypass = spec.nolru || spec.zero;
      const std::size_t failures = below(50) == 0 ? 1 + below(4) : 0;
      script->failures = failures;
      ++allocations;
      const std::size_t hit = bypass ? 0 : reference.take(nbytes, spec);
      auto block = cache->alloc(nbytes, spec);
      if (hit != 0) {
        REQUIRE(block);
        REQUIRE(block->number == hit);
      } else {
        ++misses;
        // Refused once: the oldest go until enough is free. Twice: all go. Three times: the error.
        if (failures >= 1) reference.evict_down_to(nbytes < reference.nbytes ? reference.nbytes - nbytes : 0);
        if (failures >= 2) reference.evict_down_to(0);
        if (failures >= 3) {
          ++refused;
          REQUIRE_FALSE(block);
          REQUIRE(block.error().code() == Errc::out_of_memory);
        } else {
          REQUIRE(block);
          REQUIRE(block->number == script->next - 1);
        }
      }
      script->failures = 0;
      if (block) {
        REQUIRE(block->nbytes() == nbytes);
        live.push_back({*block, nbytes, spec});
      }
    } else if (below(500) == 0) {
      const std::uint64_t target = below(budget);
      reference.evict_down_to(target);
      cache->trim(target);
    } else {
      std::swap(live[below(live.size())], live.back());
      const Live freed = live.back();
      live.pop_back();
      cache->free(freed.block, freed.nbytes, freed.spec);
      if (!freed.spec.nolru && !freed.spec.zero)
        reference.put({freed.block.number, freed.nbytes, freed.spec});
    }
    if (i % 64 == 0) {
      const LruStatistics now = cache->statistics();
      REQUIRE(now.cached_bytes == reference.nbytes);
      REQUIRE(now.cached_blocks == reference.idle.size());
      REQUIRE(now.cached_bytes <= budget);
      REQUIRE(script->live.size() == live.size() + reference.idle.size());
    }
    if (i % 4096 == 0) {
      for (const Idle& idle : reference.idle) REQUIRE(script->live.contains(idle.number));
    }
  }
  const LruStatistics end = cache->statistics();
  std::printf("seed %u: %zu operations, %zu allocations, %.1f %% misses, %llu evictions, %zu refused\n", seed,
              operations, allocations, 100.0 * static_cast<double>(misses) / static_cast<double>(allocations),
              static_cast<unsigned long long>(end.evictions), refused);
  CHECK(end.evictions == reference.evictions);
  CHECK(end.peak_cached_bytes <= budget);
  CHECK(misses * 5 >= allocations);
  if (operations >= 100'000) CHECK(end.evictions >= 1000);
  CHECK(refused != 0);

  for (const Live& rest : live) cache->free(rest.block, rest.nbytes, rest.spec);
  CHECK(cache->statistics().live_bytes == 0);
  cache->trim(0);
  CHECK(script->live.empty());
  CHECK(script->log.empty());  // no bad free
}

TEST_CASE("a million random operations agree with the reference") {
  for (const std::uint32_t seed : {1U, 20261129U, 0xBE47U}) run(seed, scaled(1'000'000));
}

}  // namespace
