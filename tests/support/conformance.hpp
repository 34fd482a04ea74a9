// SPDX-License-Identifier: MIT
// The conformance suite, held as Catch2 assertions.
#pragma once

#include <berth/adaptors/failing.hpp>
#include <berth/adaptors/limiting.hpp>
#include <berth/adaptors/lru.hpp>
#include <berth/adaptors/statistics.hpp>
#include <berth/testing/conformance.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/scale.hpp"

namespace berth_test {

/// Laws that a backend is known to be unable to try. Any other skip is a failure.
using Skips = std::set<std::string>;

template <berth::Allocator A>
void require_conformance(const std::function<berth::Result<A>()>& make, const Skips& expected_skips) {
  berth::testing::CheckOptions options;
  options.scale = static_cast<double>(scaled(1000)) / 1000;
  const auto report = berth::testing::check<A>(make, options);
  CHECK(report.results.size() == berth::testing::law_names().size());
  for (const auto& result : report.results) {
    const std::string law(result.law);
    INFO(law << ": " << result.reason);
    CHECK(result.verdict != berth::testing::Verdict::fail);
    if (result.verdict == berth::testing::Verdict::skip) {
      WARN("skipped " << law << ": " << result.reason);
      CHECK(expected_skips.contains(law));
    }
  }
}

/// The laws of either set.
inline Skips both(Skips a, const Skips& b) {
  a.insert(b.begin(), b.end());
  return a;
}

/// The suite over `make`'s allocator: typed and packed, and under every adaptor, typed and packed.
/// `typed_skips` are those of a typed allocator, `packed_skips` those of a packed one.
template <berth::Allocator A>
void require_conformance_in_every_form(const std::function<berth::Result<A>()>& make,
                                       const Skips& typed_skips, const Skips& packed_skips) {
  using namespace berth;
  const auto adapted = [&make]<class Adaptor>(auto wrap) -> std::function<Result<Adaptor>()> {
    return [&make, wrap]() -> Result<Adaptor> {
      auto allocator = make();
      if (!allocator) return fail(allocator.error());
      return wrap(std::move(*allocator));
    };
  };
  // A budget that holds what the laws need, below any device's maximum.
  constexpr std::uint64_t budget = 256U << 20U;
  const Skips budget_skips{"above_the_device_maximum", "above_4_gib"};

  SECTION("typed") { require_conformance<A>(make, typed_skips); }
  SECTION("packed") {
    require_conformance<PackedAllocator>(
        adapted.template operator()<PackedAllocator>([](A a) { return pack(std::move(a)); }), packed_skips);
  }
  SECTION("under LimitingAllocator") {
    using Limited = LimitingAllocator<A>;
    require_conformance<Limited>(
        adapted.template operator()<Limited>([](A a) { return Limited(std::move(a), budget); }),
        both(typed_skips, budget_skips));
  }
  SECTION("under StatisticsAllocator") {
    using Counted = StatisticsAllocator<A>;
    require_conformance<Counted>(
        adapted.template operator()<Counted>([](A a) { return Counted(std::move(a)); }), typed_skips);
  }
  SECTION("under FailingAllocator that does not fail") {
    using Failing = FailingAllocator<A>;
    require_conformance<Failing>(
        adapted.template operator()<Failing>([](A a) { return Failing(std::move(a)); }), typed_skips);
  }
  SECTION("under LruAllocator") {
    using Cached = LruAllocator<A>;
    require_conformance<Cached>(
        [&make]() -> Result<Cached> {
          auto allocator = make();
          if (!allocator) return fail(allocator.error());
          return Cached::create(std::move(*allocator));
        },
        typed_skips);
  }
  SECTION("packed, under LruAllocator with size classes, packed") {
    require_conformance<PackedAllocator>(
        [&make]() -> Result<PackedAllocator> {
          auto allocator = make();
          if (!allocator) return fail(allocator.error());
          auto cached =
              LruAllocator<PackedAllocator>::create(pack(std::move(*allocator)), {.size_classes = true});
          if (!cached) return fail(cached.error());
          return pack(std::move(*cached));
        },
        packed_skips);
  }
  SECTION("packed, under every adaptor, packed") {
    require_conformance<PackedAllocator>(adapted.template operator()<PackedAllocator>([](A a) {
      return pack(FailingAllocator(StatisticsAllocator(LimitingAllocator(pack(std::move(a)), budget))));
    }),
                                         both(packed_skips, budget_skips));
  }
}

}  // namespace berth_test
