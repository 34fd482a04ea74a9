// SPDX-License-Identifier: MIT
// Negative controls of the conformance suite: an allocator with one fault must fail the law that is about it.
#include <berth/host/allocator.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "support/conformance.hpp"

namespace {

using namespace berth;
using host::HostBuffer;

enum class Fault {
  none,
  empty_refused,
  size_rounded,
  huge_wraps,
  maximum_ignored,
  misaligned_address,
  same_block_twice,
  zero_forgotten,
  flags_refused,
  copyin_clipped,
  copyin_off_by_one,
  view_bounds_forgotten,
  view_offset_forgotten,
  view_freed,
  foreign_accepted,
  transfer_forgotten,
  overlap_accepted,
  fill_misses_the_last,
  map_of_a_copy,
  freed_too_early,
  lost_write,
};

/// Host memory with one fault.
class Broken : public Forwarding<host::Allocator> {
  using Base = Forwarding<host::Allocator>;

 public:
  using buffer_type = HostBuffer;

  static Result<Broken> open(Fault fault) {
    auto allocator = host::Allocator::open();
    if (!allocator) return fail(allocator.error());
    return Broken(fault, *allocator);
  }

  [[nodiscard]] AllocatorInfo info() const {
    AllocatorInfo info = Base::info();
    if (fault_ == Fault::misaligned_address) info.alignment = 1 << 20;
    return info;
  }

  Result<HostBuffer> alloc(std::size_t nbytes, BufferSpec spec) {
    if (fault_ == Fault::empty_refused) {
      if (nbytes == 0) return fail(Error(Errc::invalid_size, "broken"));
    }
    if (fault_ == Fault::size_rounded) nbytes = (nbytes + 63) / 64 * 64;
    if (fault_ == Fault::huge_wraps) {
      if (nbytes > SIZE_MAX - 64) nbytes = (nbytes + 63) / 64 * 64;  // wraps to 0
    }
    if (fault_ == Fault::maximum_ignored) {
      if (nbytes == info().max_bytes + 1) return fail(Error(Errc::out_of_memory, "broken"));
    }
    if (fault_ == Fault::same_block_twice) {
      if (*last_ && nbytes <= (*last_)->nbytes()) return upstream().offset(**last_, nbytes, 0);
    }
    if (fault_ == Fault::zero_forgotten) {
      const bool zero = std::exchange(spec.zero, false);
      auto buf = upstream().alloc(nbytes, spec);
      if (buf && zero) std::ranges::fill(buf->bytes(), std::byte{1});
      return buf;
    }
    if (fault_ == Fault::flags_refused) {
      if (spec.uncached) return fail(Error(Errc::unsupported, "broken"));
    }
    auto buf = upstream().alloc(nbytes, spec);
    if (fault_ == Fault::same_block_twice) {
      if (buf) {
        *last_ = *buf;
        kept_->blocks.push_back(*buf);
      }
    }
    return buf;
  }
  void free(HostBuffer buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    if (fault_ == Fault::same_block_twice) return;  // `kept_` does it, at the end
    if (fault_ == Fault::view_freed) {
      if (buf.is_view()) return;  // silently
    }
    if (fault_ == Fault::freed_too_early) {
      if (spec.external_ptr == nullptr) std::memset(buf.data(), 0, buf.nbytes());
      if (*pending_) std::memset((*pending_)->data(), 0, (*pending_)->nbytes());
    }
    upstream().free(buf, nbytes, spec);
  }
  Result<void> copyin(const HostBuffer& buf, std::span<const std::byte> src) {
    if (fault_ == Fault::copyin_clipped) src = src.first(std::min(src.size(), buf.nbytes()));
    if (fault_ == Fault::copyin_off_by_one) {
      if (src.size() > 4096) src = src.first(src.size() - 1);
    }
    if (fault_ == Fault::foreign_accepted) {
      if (buf.instance() != info().instance) return {};
    }
    if (fault_ == Fault::lost_write) {
      if (++*calls_ % 7 == 0) return {};
    }
    return Base::copyin(buf, src);
  }
  Result<HostBuffer> offset(const HostBuffer& buf, std::size_t nbytes, std::size_t byte_offset) {
    if (fault_ == Fault::view_bounds_forgotten) {
      if (buf.is_view() && nbytes + byte_offset > buf.nbytes()) return Base::offset(buf, buf.nbytes(), 0);
    }
    if (fault_ == Fault::view_offset_forgotten) {
      if (buf.is_view() && byte_offset + nbytes <= buf.nbytes()) return Base::offset(buf, nbytes, 0);
    }
    return Base::offset(buf, nbytes, byte_offset);
  }
  Result<void> transfer(const HostBuffer& dest, const HostBuffer& src, std::size_t nbytes) {
    if (fault_ == Fault::transfer_forgotten) {
      if (nbytes <= dest.nbytes() && nbytes <= src.nbytes()) return {};
    }
    if (fault_ == Fault::freed_too_early) *pending_ = dest;
    auto done = Base::transfer(dest, src, nbytes);
    if (fault_ == Fault::overlap_accepted) {
      if (!done && done.error().code() == Errc::overlap) return {};
    }
    return done;
  }
  Result<void> fill(const HostBuffer& buf, std::byte value) {
    if (fault_ == Fault::fill_misses_the_last) {
      if (buf.nbytes() != 0) return Base::fill(*Base::offset(buf, buf.nbytes() - 1, 0), value);
    }
    return Base::fill(buf, value);
  }
  Result<Mapping> map(const HostBuffer& buf, Access access, std::size_t nbytes, std::size_t byte_offset) {
    auto mapping = Base::map(buf, access, nbytes, byte_offset);
    if (fault_ == Fault::map_of_a_copy) {
      if (mapping && nbytes != 0) {
        copy_->assign(mapping->bytes().begin(), mapping->bytes().end());
        return Mapping(std::span(*copy_));
      }
    }
    return mapping;
  }

 private:
  Broken(Fault fault, host::Allocator allocator)
      : Base(allocator), fault_(fault), kept_(std::make_shared<Kept>(allocator)) {}

  struct Kept {
    explicit Kept(host::Allocator owner) : allocator(owner) {}
    ~Kept() {
      for (const HostBuffer& block : blocks) allocator.free(block, block.nbytes());
    }
    host::Allocator allocator;
    std::vector<HostBuffer> blocks{};
  };
  Fault fault_;
  std::shared_ptr<Kept> kept_;
  std::shared_ptr<std::optional<HostBuffer>> last_ = std::make_shared<std::optional<HostBuffer>>();
  std::shared_ptr<std::optional<HostBuffer>> pending_ = std::make_shared<std::optional<HostBuffer>>();
  std::shared_ptr<std::vector<std::byte>> copy_ = std::make_shared<std::vector<std::byte>>();
  std::shared_ptr<int> calls_ = std::make_shared<int>(0);
};

testing::Verdict verdict_of(Fault fault, const std::string& law) {
  testing::CheckOptions options;
  options.law = law;
  const auto report = testing::check<Broken>([=] { return Broken::open(fault); }, options);
  REQUIRE(report.results.size() == 1);
  return report.results.front().verdict;
}

/// The law fails on the fault, and passes on the same allocator without it.
void require_caught(Fault fault, const std::string& law) {
  INFO(law);
  CHECK(verdict_of(fault, law) == testing::Verdict::fail);
  CHECK(verdict_of(Fault::none, law) == testing::Verdict::pass);
}

TEST_CASE("each fault fails its law") {
  require_caught(Fault::empty_refused, "empty_buffers");
  require_caught(Fault::size_rounded, "round_trip");
  require_caught(Fault::copyin_off_by_one, "round_trip");
  require_caught(Fault::huge_wraps, "sizes_near_the_end");
  require_caught(Fault::maximum_ignored, "above_the_device_maximum");
  require_caught(Fault::misaligned_address, "alignment");
  require_caught(Fault::same_block_twice, "distinct_blocks");
  require_caught(Fault::zero_forgotten, "zeroed");
  require_caught(Fault::flags_refused, "every_spec");
  require_caught(Fault::copyin_clipped, "copies_are_prefixes");
  require_caught(Fault::copyin_clipped, "view_bounds");
  require_caught(Fault::view_bounds_forgotten, "view_bounds");
  require_caught(Fault::view_offset_forgotten, "views_of_views");
  require_caught(Fault::view_freed, "freeing_a_view_does_nothing");
  require_caught(Fault::foreign_accepted, "buffers_of_another_instance");
  require_caught(Fault::transfer_forgotten, "transfers");
  require_caught(Fault::overlap_accepted, "transfers_between_views");
  require_caught(Fault::fill_misses_the_last, "fills");
  require_caught(Fault::map_of_a_copy, "maps");
  require_caught(Fault::freed_too_early, "freed_while_queued");
  require_caught(Fault::lost_write, "random_work");
}

TEST_CASE("an allocator that cannot be made fails every law, and says why") {
  const auto report = testing::check<host::Allocator>([]() -> Result<host::Allocator> {
    return fail(Error(Errc::no_device, "broken").because("there is none"));
  });
  CHECK(report.failed() == testing::law_names().size());
  CHECK_FALSE(report.ok());
  CHECK(report.results.front().reason.find("there is none") != std::string::npos);
}

TEST_CASE("an unknown law is an empty report, which is not ok") {
  testing::CheckOptions options;
  options.law = "no_such_law";
  const auto report = testing::check<host::Allocator>([] { return host::Allocator::open(); }, options);
  CHECK(report.results.empty());
  CHECK_FALSE(report.ok());
}

TEST_CASE("a skip is no pass") {
  testing::Report report;
  report.results.push_back({"a", testing::Verdict::skip, "no such operation"});
  CHECK(report.passed() == 0);
  CHECK(report.skipped() == 1);
  CHECK_FALSE(report.ok());
}

}  // namespace
