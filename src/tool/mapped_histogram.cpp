// SPDX-License-Identifier: MIT
#include "histogram.hpp"

namespace berth::tool {
namespace {

class MappedHistogram final : public Histogram {
 public:
  [[nodiscard]] std::string_view means() const noexcept override { return "host function over the map"; }

  [[nodiscard]] Outcome<void> run(Buffer& bytes) override {
    auto mapping = bytes.map(Access::read);
    if (!mapping) return complain(mapping.error());
    counts_ += count_bytes(mapping->bytes());
    if (auto unmapped = mapping->unmap(); !unmapped) return complain(unmapped.error());
    return {};
  }

  [[nodiscard]] Outcome<ByteCounts> take() override { return std::exchange(counts_, {}); }

 private:
  ByteCounts counts_;
};

}  // namespace

std::unique_ptr<Histogram> mapped_histogram() { return std::make_unique<MappedHistogram>(); }

}  // namespace berth::tool
