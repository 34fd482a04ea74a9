// SPDX-License-Identifier: MIT
// The conformance suite on one thread, for drivers that host threads crash: oclgrind runs this program.
#include <berth/testing/conformance.hpp>

#include <set>
#include <string>

#include "support/opencl_fixture.hpp"

using namespace berth;

TEST_CASE("OpenCL conforms on one thread") {
  const std::set<std::string> may_skip{"alignment", "buffers_of_another_backend", "above_4_gib", "threads"};
  testing::CheckOptions options;
  options.threads = false;
  options.scale = 0.05;
  const auto report = testing::check<opencl::Allocator>(
      [] { return opencl::Allocator::open(native::device().id, {.commit = opencl::Commit::always}); },
      options);
  CHECK(report.results.size() == testing::law_names().size());
  for (const auto& result : report.results) {
    const std::string law(result.law);
    INFO(law << ": " << result.reason);
    CHECK(result.verdict != testing::Verdict::fail);
    if (result.verdict == testing::Verdict::skip) CHECK(may_skip.contains(law));
  }
}
