// SPDX-License-Identifier: MIT
// Negative controls of the laws about disk copies: an allocator with one fault must fail the law that is
// about it.
#include <berth/host/allocator.hpp>
#include <berth/io/exact.hpp>
#include <berth/io/load.hpp>

#include <algorithm>
#include <array>
#include <string>

#include "support/conformance.hpp"

namespace {

using namespace berth;
using host::HostBuffer;

enum class Fault {
  none,
  page_aligned,       // reads from the start of a page
  tail_dropped,       // in whole words
  too_much,           // to the end of the buffer
  paths_not_counted,  // says that nothing moved
  extent_ignored,     // reads behind the extent
  view_ignored,       // takes a view for its root's size
  foreign_accepted,
  zeros_for_missing,  // a short read is filled up with zeros
  done_unknown,       // a short read without the bytes done
  too_late,           // reads the file when the bytes are looked at
  load_unchecked,     // moves a range before it looks at the next
  load_order_lost,    // forgets the place in the buffer
  progress_at_end,    // tells nothing but the end
  progress_short,     // does not tell the end
  stop_ignored,
  stop_late,  // looks at the stop after each range alone
};

/// Host memory with one fault.
class Broken : public Forwarding<host::Allocator> {
  using Base = Forwarding<host::Allocator>;

 public:
  using buffer_type = HostBuffer;

  static Result<Broken> open(Fault fault) {
    auto allocator = host::Allocator::open();
    if (!allocator) return fail(allocator.error());
    return Broken(*allocator, fault);
  }

  Result<HostBuffer> alloc(std::size_t nbytes, const BufferSpec& spec) {
    return upstream().alloc(nbytes, spec);
  }
  void free(HostBuffer buf, std::size_t nbytes, const BufferSpec& spec) noexcept {
    late_.reset();
    upstream().free(buf, nbytes, spec);
  }
  Result<void> copyout(std::span<std::byte> dst, const HostBuffer& buf) {
    catch_up();
    return Base::copyout(dst, buf);
  }
  Result<void> copyin(const HostBuffer& buf, std::span<const std::byte> src) {
    catch_up();
    return Base::copyin(buf, src);
  }
  Result<void> transfer(const HostBuffer& dest, const HostBuffer& src, std::size_t nbytes) {
    catch_up();
    return Base::transfer(dest, src, nbytes);
  }

  Result<DiskCopy> copy_from_disk(const HostBuffer& dest, const FileExtent& extent, std::size_t nbytes) {
    const bool fits = nbytes <= dest.nbytes() && nbytes <= extent.nbytes && nbytes != 0;
    FileExtent from = extent;
    switch (fault_) {
      case Fault::page_aligned:
        if (fits) from.offset = from.offset / 4096 * 4096;
        break;
      case Fault::tail_dropped:
        if (fits && nbytes % 8 != 0) {
          if (auto copied = Base::copy_from_disk(dest, extent, nbytes / 8 * 8); !copied) return copied;
          return DiskCopy{.direct = nbytes};
        }
        break;
      case Fault::too_much:
        if (fits && dest.nbytes() > nbytes) dest.data()[nbytes] = std::byte{0};
        break;
      case Fault::paths_not_counted:
        if (auto copied = Base::copy_from_disk(dest, extent, nbytes); !copied) return copied;
        return DiskCopy{};
      case Fault::extent_ignored:
        from.nbytes = std::max<std::uint64_t>(from.nbytes, nbytes);
        break;
      case Fault::view_ignored:
        if (dest.is_view() && nbytes == dest.nbytes() + 1)
          return Base::copy_from_disk(dest, extent, nbytes - 1);
        break;
      case Fault::foreign_accepted:
        if (dest.instance() != info().instance) return DiskCopy{.direct = nbytes};
        break;
      case Fault::zeros_for_missing:
      case Fault::done_unknown: {
        auto copied = Base::copy_from_disk(dest, extent, nbytes);
        if (copied || copied.error().code() != Errc::short_read) return copied;
        if (fault_ == Fault::zeros_for_missing) return DiskCopy{.direct = nbytes};
        return fail(Error(Errc::short_read, "broken").asking(nbytes));
      }
      case Fault::too_late:
        if (fits && extent.fd >= 0) {
          late_ = Late{dest, extent, nbytes};
          return DiskCopy{.direct = nbytes};
        }
        break;
      default:
        break;
    }
    return Base::copy_from_disk(dest, from, nbytes);
  }

  Result<DiskCopy> load(std::span<const LoadRange<HostBuffer>> ranges, LoadOptions options) {
    switch (fault_) {
      case Fault::load_unchecked: {
        DiskCopy moved;
        for (const auto& range : ranges) {
          const auto one = io::load(*this, std::span(&range, 1), LoadOptions{});
          if (!one) return one;
          moved += *one;
        }
        return moved;
      }
      case Fault::load_order_lost: {
        std::vector<LoadRange<HostBuffer>> moved(ranges.begin(), ranges.end());
        for (auto& range : moved) range.byte_offset = 0;
        return io::load(*this, std::span<const LoadRange<HostBuffer>>(moved), options);
      }
      case Fault::progress_at_end:
        options.chunk = std::size_t{1} << 30U;
        break;
      case Fault::progress_short:
        options.progress = [tell = std::move(options.progress)](const LoadProgress& progress) {
          if (tell && progress.done != progress.total) tell(progress);
        };
        break;
      case Fault::stop_ignored:
        options.stop = {};
        break;
      case Fault::stop_late:
        options.chunk = std::size_t{1} << 30U;
        break;
      default:
        break;
    }
    return io::load(*this, ranges, options);
  }

 private:
  struct Late {
    HostBuffer dest;
    FileExtent extent;
    std::size_t nbytes;
  };
  Broken(host::Allocator allocator, Fault fault) noexcept : Base(allocator), fault_(fault) {}

  void catch_up() {
    if (const auto late = std::exchange(late_, std::nullopt)) {
      static_cast<void>(Base::copy_from_disk(late->dest, late->extent, late->nbytes));
    }
  }

  Fault fault_;
  std::optional<Late> late_;
};

std::string verdict_of(Fault fault, const std::string& law) {
  testing::CheckOptions options;
  options.law = law;
  const auto report = testing::check<Broken>([&] { return Broken::open(fault); }, options);
  REQUIRE(report.results.size() == 1);
  const auto& result = report.results.front();
  INFO(result.reason);
  return result.verdict == testing::Verdict::pass   ? "pass"
         : result.verdict == testing::Verdict::fail ? "fail"
                                                    : "skip";
}

/// The law fails on the fault, and passes on the same allocator without it.
void require_caught(Fault fault, const std::string& law) {
  INFO(law << ", fault " << static_cast<int>(fault));
  CHECK(verdict_of(fault, law) == "fail");
  CHECK(verdict_of(Fault::none, law) == "pass");
}

TEST_CASE("each fault of a disk copy fails its law") {
  require_caught(Fault::page_aligned, "copies_from_disk");
  require_caught(Fault::tail_dropped, "copies_from_disk");
  require_caught(Fault::too_much, "copies_from_disk");
  require_caught(Fault::paths_not_counted, "copies_from_disk");
  require_caught(Fault::extent_ignored, "copies_from_disk");
  require_caught(Fault::view_ignored, "copies_from_disk");
  require_caught(Fault::foreign_accepted, "copies_from_disk");
  require_caught(Fault::zeros_for_missing, "short_files");
  require_caught(Fault::done_unknown, "short_files");
  require_caught(Fault::too_late, "disk_copies_keep_the_order");
  require_caught(Fault::load_order_lost, "loads");
  require_caught(Fault::progress_at_end, "loads");
  require_caught(Fault::progress_short, "loads");
  require_caught(Fault::load_unchecked, "refused_loads");
  require_caught(Fault::stop_ignored, "cancelled_loads");
  require_caught(Fault::stop_late, "cancelled_loads");
}

}  // namespace
