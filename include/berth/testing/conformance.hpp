// SPDX-License-Identifier: MIT
#pragma once

#include <berth/testing/laws/bounds.hpp>
#include <berth/testing/laws/contents.hpp>
#include <berth/testing/laws/disk.hpp>
#include <berth/testing/laws/failures.hpp>
#include <berth/testing/laws/identity.hpp>
#include <berth/testing/laws/lifetime.hpp>
#include <berth/testing/laws/movement.hpp>
#include <berth/testing/laws/sizes.hpp>
#include <berth/testing/laws/views.hpp>

#include <array>
#include <functional>
#include <string_view>

/// The laws of `Allocator` that no compiler checks, for any allocator, a user's own included. Needs no test
/// framework.
///
/// ```cpp
/// const auto report = berth::testing::check<MyAllocator>([] { return MyAllocator::open(); });
/// for (const auto& result : report.results) print(result.law, result.verdict, result.reason);
/// return report.ok() ? 0 : 1;
/// ```
namespace berth::inline BERTH_ABI::testing {

/// One law, for one type of allocator.
template <Allocator A>
struct Law {
  std::string_view name;
  void (*run)(Context<A>&);
};

namespace detail {

/// Runs a law where the operation exists, for the type and on the device; skips it, with the reason,
/// elsewhere.
template <Allocator A, bool exists>
void where(Context<A>& t, bool (*supported)(const A&) noexcept, auto law, const char* operation) {
  if constexpr (exists) {
    if (supported(t.allocator())) return law(t);
  }
  t.skipped(std::string(operation) + " is not supported");
}

}  // namespace detail

/// All laws, in the order in which they run.
template <Allocator A>
inline constexpr std::array all_laws{
    Law<A>{"empty_buffers", laws::empty_buffers<A>},
    Law<A>{"round_trip", laws::round_trip<A>},
    Law<A>{"sizes_near_the_end", laws::sizes_near_the_end<A>},
    Law<A>{"above_the_device_maximum", laws::above_the_device_maximum<A>},
    Law<A>{"above_4_gib", laws::above_4_gib<A>},
    Law<A>{"alignment", laws::alignment<A>},
    Law<A>{"distinct_blocks", laws::distinct_blocks<A>},
    Law<A>{"zeroed", laws::zeroed<A>},
    Law<A>{"every_spec", laws::every_spec<A>},
    Law<A>{"external_memory", laws::external_memory<A>},
    Law<A>{"copies_are_prefixes", laws::copies_are_prefixes<A>},
    Law<A>{"view_bounds",
           [](Context<A>& t) {
             detail::where<A, OffsetAllocator<A>>(
                 t, supports_offset<A>, [](auto& c) { laws::view_bounds(c); }, "offset");
           }},
    Law<A>{"views_at_any_offset",
           [](Context<A>& t) {
             detail::where<A, OffsetAllocator<A>>(
                 t, supports_offset<A>, [](auto& c) { laws::views_at_any_offset(c); }, "offset");
           }},
    Law<A>{"views_of_views",
           [](Context<A>& t) {
             detail::where<A, OffsetAllocator<A>>(
                 t, supports_offset<A>, [](auto& c) { laws::views_of_views(c); }, "offset");
           }},
    Law<A>{"freeing_a_view_does_nothing",
           [](Context<A>& t) {
             detail::where<A, OffsetAllocator<A>>(
                 t, supports_offset<A>, [](auto& c) { laws::freeing_a_view_does_nothing(c); }, "offset");
           }},
    Law<A>{"buffers_of_another_instance", laws::buffers_of_another_instance<A>},
    Law<A>{"buffers_of_another_backend", laws::buffers_of_another_backend<A>},
    Law<A>{"transfers",
           [](Context<A>& t) {
             detail::where<A, TransferAllocator<A>>(
                 t, supports_transfer<A>, [](auto& c) { laws::transfers(c); }, "transfer");
           }},
    Law<A>{"transfers_between_views",
           [](Context<A>& t) {
             detail::where<A, TransferAllocator<A> && OffsetAllocator<A>>(
                 t, [](const A& a) noexcept { return supports_transfer(a) && supports_offset(a); },
                 [](auto& c) { laws::transfers_between_views(c); }, "transfer between views");
           }},
    Law<A>{"copies_from_disk",
           [](Context<A>& t) {
             detail::where<A, DiskCopyAllocator<A>>(
                 t, supports_copy_from_disk<A>, [](auto& c) { laws::copies_from_disk(c); }, "copy_from_disk");
           }},
    Law<A>{"short_files",
           [](Context<A>& t) {
             detail::where<A, DiskCopyAllocator<A>>(
                 t, supports_copy_from_disk<A>, [](auto& c) { laws::short_files(c); }, "copy_from_disk");
           }},
    Law<A>{"disk_copies_keep_the_order",
           [](Context<A>& t) {
             detail::where<A, DiskCopyAllocator<A>>(
                 t, supports_copy_from_disk<A>, [](auto& c) { laws::disk_copies_keep_the_order(c); },
                 "copy_from_disk");
           }},
    Law<A>{"loads",
           [](Context<A>& t) {
             detail::where<A, DiskCopyAllocator<A>>(
                 t, supports_copy_from_disk<A>, [](auto& c) { laws::loads(c); }, "copy_from_disk");
           }},
    Law<A>{"refused_loads",
           [](Context<A>& t) {
             detail::where<A, DiskCopyAllocator<A>>(
                 t, supports_copy_from_disk<A>, [](auto& c) { laws::refused_loads(c); }, "copy_from_disk");
           }},
    Law<A>{"cancelled_loads",
           [](Context<A>& t) {
             detail::where<A, DiskCopyAllocator<A>>(
                 t, supports_copy_from_disk<A>, [](auto& c) { laws::cancelled_loads(c); }, "copy_from_disk");
           }},
    Law<A>{"fills",
           [](Context<A>& t) {
             detail::where<A, FillAllocator<A>>(t, supports_fill<A>, [](auto& c) { laws::fills(c); }, "fill");
           }},
    Law<A>{"maps",
           [](Context<A>& t) {
             detail::where<A, MappableAllocator<A>>(
                 t, supports_map<A>, [](auto& c) { laws::maps(c); }, "map");
           }},
    Law<A>{"queues",
           [](Context<A>& t) {
             detail::where<A, QueueAllocator<A>>(
                 t, supports_queues<A>, [](auto& c) { laws::queues(c); }, "ordering on queues");
           }},
    Law<A>{"freed_while_queued",
           [](Context<A>& t) {
             detail::where<A, TransferAllocator<A> && FillAllocator<A>>(
                 t, [](const A& a) noexcept { return supports_transfer(a) && supports_fill(a); },
                 [](auto& c) { laws::freed_while_queued(c); }, "transfer with fill");
           }},
    Law<A>{"random_work", laws::random_work<A>},
    Law<A>{"every_step_fails_in_turn", laws::every_step_fails_in_turn<A>},
    Law<A>{"out_of_memory", laws::out_of_memory<A>},
    Law<A>{"buffers_outlive_handles", laws::buffers_outlive_handles<A>},
    Law<A>{"copies_between_buffers", laws::copies_between_buffers<A>},
    Law<A>{"threads", laws::threads<A>},
};

/// The names of all laws.
[[nodiscard]] inline std::vector<std::string_view> law_names() {
  std::vector<std::string_view> names;
  for (const auto& law : all_laws<PackedAllocator>) names.push_back(law.name);
  return names;
}

/// Holds the laws against allocators that `make` makes: fresh ones where it can, since some laws want two
/// instances. Replaces the process-wide diagnostic sink during the laws of misuse. An unknown `options.law`
/// gives an empty report.
template <Allocator A>
[[nodiscard]] Report check(const std::function<Result<A>()>& make, const CheckOptions& options = {}) {
  Report report;
  for (const Law<A>& law : all_laws<A>) {
    if (!options.law.empty() && options.law != law.name) continue;
    Context<A> context(make, options);
    if (context.ready()) law.run(context);
    report.results.push_back(context.result(law.name));
    if (options.on_result) options.on_result(report.results.back());
  }
  return report;
}

}  // namespace berth::inline BERTH_ABI::testing
