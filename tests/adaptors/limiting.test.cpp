// SPDX-License-Identifier: MIT
#include <berth/adaptors/limiting.hpp>
#include <berth/core/buffer.hpp>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <thread>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"
#include "support/reports.hpp"
#include "support/scale.hpp"

using namespace berth;
using Upstream = models::Rich<'a'>;
using Limited = LimitingAllocator<Upstream>;

namespace {

/// Allocates without memory, so that sizes near 2^64 can be asked for.
class Nowhere {
 public:
  using buffer_type = models::SmallBuffer;
  Result<models::SmallBuffer> alloc(std::size_t nbytes, const BufferSpec&) {
    return models::SmallBuffer{{nullptr, nbytes, id, false}};
  }
  void free(models::SmallBuffer, std::size_t, const BufferSpec&) noexcept {}
  Result<void> copyin(const models::SmallBuffer&, std::span<const std::byte>) { return {}; }
  Result<void> copyout(std::span<std::byte>, const models::SmallBuffer&) { return {}; }
  Result<std::uintptr_t> addr(const models::SmallBuffer&) { return 0; }
  [[nodiscard]] AllocatorInfo info() const { return {.backend = "nowhere", .instance = id, .device = {}}; }
  Result<void> synchronize() { return {}; }

 private:
  InstanceId id = next_instance_id();
};

models::RichBuffer<'a'> allocated(Limited& limited, std::size_t nbytes, const BufferSpec& spec = {}) {
  auto buf = limited.alloc(nbytes, spec);
  REQUIRE(message(buf) == "ok");
  return *buf;
}

}  // namespace

TEST_CASE("the limit is exact, and a refusal tells the accounts without asking upstream") {
  Upstream upstream;
  Limited limited(upstream, 100);
  CHECK(limited.limit_bytes() == 100);
  CHECK(limited.live_bytes() == 0);
  auto a = allocated(limited, 60);
  auto b = allocated(limited, 40);
  CHECK(limited.live_bytes() == 100);
  static_cast<void>(upstream.state().calls());

  const auto refused = limited.alloc(1, {});
  REQUIRE(outcome(refused) == "out_of_memory");
  CHECK(refused.error().asked() == 1U);
  CHECK(refused.error().limit() == 100U);
  CHECK(refused.error().live() == 100U);
  CHECK(refused.error().backend() == "a");
  CHECK(upstream.state().calls().empty());
  CHECK(limited.live_bytes() == 100);

  limited.free(b, 40, {});
  CHECK(limited.live_bytes() == 60);
  CHECK(outcome(limited.alloc(41, {})) == "out_of_memory");
  b = allocated(limited, 40);
  limited.free(a, 60, {});
  limited.free(b, 40, {});
  CHECK(limited.live_bytes() == 0);
  CHECK(upstream.state().live_blocks() == 0);
}

TEST_CASE("an empty allocation needs no budget") {
  Limited limited(Upstream(), 10);
  auto full = allocated(limited, 10);
  auto empty = allocated(limited, 0);
  CHECK(limited.live_bytes() == 10);
  limited.free(empty, 0, {});
  CHECK(limited.live_bytes() == 10);
  limited.free(full, 10, {});

  Limited nothing(Upstream(), 0);
  CHECK(outcome(nothing.alloc(0, {})) == "ok");
  CHECK(outcome(nothing.alloc(1, {})) == "out_of_memory");
}

TEST_CASE("sums near 2^64 do not wrap") {
  constexpr std::uint64_t most = UINT64_MAX;
  LimitingAllocator<Nowhere> limited(Nowhere(), most);
  auto a = limited.alloc(most - 10, {});
  REQUIRE(message(a) == "ok");
  CHECK(limited.live_bytes() == most - 10);
  for (const std::size_t nbytes :
       {std::size_t{11}, std::size_t{12}, std::size_t{most - 10}, std::size_t{most}}) {
    CAPTURE(nbytes);
    CHECK(outcome(limited.alloc(nbytes, {})) == "out_of_memory");
  }
  auto b = limited.alloc(10, {});
  REQUIRE(message(b) == "ok");
  CHECK(limited.live_bytes() == most);
  CHECK(outcome(limited.alloc(1, {})) == "out_of_memory");
  limited.free(*a, most - 10, {});
  CHECK(limited.live_bytes() == 10);

  LimitingAllocator<Nowhere> small(Nowhere(), 100);
  auto c = small.alloc(50, {});
  REQUIRE(message(c) == "ok");
  for (std::size_t k = 0; k <= 100; ++k) REQUIRE(outcome(small.alloc(SIZE_MAX - k, {})) == "out_of_memory");
  CHECK(small.live_bytes() == 50);
}

TEST_CASE("wrapped memory is not counted") {
  Upstream upstream;
  Limited limited(upstream, 10);
  std::byte memory[100];
  const BufferSpec wrap{.external_ptr = memory};
  auto buf = allocated(limited, 100, wrap);
  CHECK(limited.live_bytes() == 0);
  limited.free(buf, 100, wrap);
  CHECK(limited.live_bytes() == 0);
}

TEST_CASE("a free of a view or of another's buffer leaves the accounts alone") {
  Reports reports;
  Upstream upstream;
  Limited limited(upstream, 100);
  Limited other(Upstream(), 100);
  auto buf = allocated(limited, 50);
  auto theirs = allocated(other, 30);
  auto view = limited.offset(buf, 20, 0);
  REQUIRE(message(view) == "ok");
  limited.free(*view, 20, {});
  limited.free(theirs, 30, {});
  CHECK(limited.live_bytes() == 50);
  CHECK(other.live_bytes() == 30);
  CHECK(reports.take().size() == 2);
  limited.free(buf, 50, {});
  other.free(theirs, 30, {});
}

TEST_CASE("what upstream refuses gives the budget back") {
  Upstream upstream;
  Limited limited(upstream, 100);
  upstream.state().refuse("alloc", Errc::device_lost);
  for (int i = 0; i < 5; ++i) CHECK(outcome(limited.alloc(60, {})) == "device_lost");
  CHECK(limited.live_bytes() == 0);
  upstream.state().refuse_nothing();
  limited.free(allocated(limited, 100), 100, {});
}

TEST_CASE("copies and handles on other queues share the budget") {
  models::Native queue;
  Upstream upstream;
  Limited limited(upstream, 100);
  Limited copy = limited;
  auto handle = limited.on(Queue::borrow(models::queue_kind, &queue));
  REQUIRE(message(handle) == "ok");
  auto a = allocated(copy, 40);
  auto b = allocated(*handle, 50);
  CHECK(limited.live_bytes() == 90);
  CHECK(copy.live_bytes() == 90);
  CHECK(handle->live_bytes() == 90);
  CHECK(handle->limit_bytes() == 100);
  CHECK(outcome(handle->alloc(11, {})) == "out_of_memory");
  limited.free(a, 40, {});
  copy.free(b, 50, {});
  CHECK(handle->live_bytes() == 0);
  CHECK(outcome(limited.on(Queue())) == "wrong_backend");
}

TEST_CASE("a Buffer over it returns its bytes") {
  Upstream upstream;
  Limited limited(upstream, 100);
  {
    auto buffer = Buffer::create(pack(limited), 100);
    REQUIRE(message(buffer) == "ok");
    auto view = buffer->view(10, 90);
    REQUIRE(message(view) == "ok");
    CHECK(outcome(Buffer::create(pack(limited), 1)) == "out_of_memory");
    CHECK(limited.live_bytes() == 100);
  }
  CHECK(limited.live_bytes() == 0);
}

TEST_CASE("threads never pass the limit") {
  constexpr int threads = 8;
  constexpr std::uint64_t limit = 1000;
  const std::size_t wanted = scaled(1000000);
  LimitingAllocator<Nowhere> limited(Nowhere(), limit);
  std::atomic<std::uint64_t> held{0};
  std::atomic<bool> passed{false};
  std::barrier start(threads);
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        LimitingAllocator<Nowhere> mine = limited;
        start.arrive_and_wait();
        std::size_t got = 0;
        for (std::size_t round = 0; got < wanted; ++round) {
          const std::size_t nbytes = 350 + (round * 37 + t * 11) % 400;  // one or two fit
          auto buf = mine.alloc(nbytes, {});
          if (!buf) continue;
          ++got;
          if (held.fetch_add(nbytes) + nbytes > limit) passed = true;
          held.fetch_sub(nbytes);
          mine.free(*buf, nbytes, {});
        }
      });
    }
  }
  CHECK_FALSE(passed);
  CHECK(limited.live_bytes() == 0);
}
