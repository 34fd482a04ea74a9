// SPDX-License-Identifier: MIT
#include "tour.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "device_tour.hpp"
#include "json.hpp"
#include "progress.hpp"
#include "selection.hpp"
#include "table.hpp"
#include "text.hpp"

namespace berth::tool {
namespace {

constexpr std::uint64_t large_file_bytes = std::uint64_t{64} << 20U;

ExitStatus error(const std::string& sentence) {
  fmt::print(stderr, "berth tour: {}\n", sentence);
  return ExitStatus::error;
}

// The one file that is surely there, and hardly dull.
Outcome<std::string> own_program() {
  std::error_code problem;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (problem) return complain(fmt::format("cannot find this program's own file: {}", problem.message()));
  return path.string();
}

double gigabytes_per_second(std::uint64_t nbytes, Nanoseconds time) noexcept {
  return time.count() > 0 ? static_cast<double>(nbytes) / static_cast<double>(time.count()) : 0.0;
}

/// A file, the host's count of it, and what came of one device.
struct Report {
  const InputFile& file;
  const Reference& reference;
  const FoundDevice& device;
  const DeviceTour& tour;

  [[nodiscard]] bool histogram_equal() const noexcept { return tour.counts == reference.counts; }
  [[nodiscard]] bool in_place_equal() const noexcept {
    return !tour.in_place.done() || tour.in_place.counts == reference.counts;
  }
  [[nodiscard]] bool right() const noexcept {
    return histogram_equal() && tour.bytes_equal && in_place_equal();
  }
  [[nodiscard]] bool has(Step step) const noexcept {
    return tour.in_place.done() || (step != Step::attach && step != Step::count_in_place);
  }
  [[nodiscard]] Nanoseconds time(Step step) const noexcept {
    return step == Step::host_count ? reference.time : tour.times[step];
  }
  [[nodiscard]] static Step step(std::size_t index) noexcept { return static_cast<Step>(index); }
};

std::string summary(const ByteCounts& counts) {
  if (counts.total() == 0) return "the file is empty: so is its histogram";
  const auto different = std::ranges::count_if(counts.of, [](std::uint64_t count) { return count != 0; });
  const auto most = std::ranges::max_element(counts.of);
  return fmt::format("{} of 256 byte values occur; most often {:#04x}, {:.1f} % of the bytes", different,
                     most - counts.of.begin(),
                     100.0 * static_cast<double>(*most) / static_cast<double>(counts.total()));
}

/// How a step was done, where there is a choice.
std::string by(Step step, const DeviceTour& tour) {
  if (step == Step::count) return fmt::format(" ({})", tour.means);
  if (step != Step::load) return "";
  if (tour.loaded.direct != 0) return " (direct)";
  if (tour.loaded.buffered != 0) return " (staged)";
  return tour.copied_in != 0 ? " (read, copied in)" : "";
}

std::string in_place_summary(const Report& report) {
  const InPlaceTour& tour = report.tour.in_place;
  if (!tour.refused.empty()) return fmt::format("without a copy: no; {}", printable(tour.refused));
  if (!tour.done()) return "";
  return fmt::format("without a copy: the link is {}, {} not moved, histogram equal: {}",
                     to_string(tour.link->kind), counted(tour.bytes_not_moved, "byte"),
                     report.in_place_equal() ? "yes" : "NO");
}

void print_text(const Report& report) {
  const DeviceTour& tour = report.tour;
  const std::string size = tour.pieces > 1 ? " of at most " + counted(tour.piece_bytes, "byte") : "";
  fmt::print("\n{}, {}{}\n", report.device.full_title(), counted(tour.pieces, "piece"), size);

  using enum Table::Align;
  Table table({{"step"}, {"bytes", right}, {"ms", right}, {"GB/s", right}});
  for (std::size_t i = 0; i < step_count; ++i) {
    const Step step = Report::step(i);
    if (!report.has(step)) continue;
    const Nanoseconds time = report.time(step);
    const double rate = gigabytes_per_second(report.file.nbytes(), time);
    table.row({label(step) + by(step, tour), moves_bytes(step) ? grouped(report.file.nbytes()) : "",
               fmt::format("{:.2f}", milliseconds(time)),
               moves_bytes(step) ? fmt::format("{:.2f}", rate) : ""});
  }
  fmt::print("{}\n", table.text(2));
  fmt::print("  {}\n", summary(tour.counts));
  fmt::print("  histogram equal: {}, bytes equal: {}\n", report.histogram_equal() ? "yes" : "NO",
             tour.bytes_equal ? "yes" : "NO");
  if (const auto in_place = in_place_summary(report); !in_place.empty()) fmt::print("  {}\n", in_place);
}

Json in_place_json(const Report& report) {
  const InPlaceTour& tour = report.tour.in_place;
  return {{"link", tour.done() ? Json(to_string(tour.link->kind)) : Json()},
          {"map_us", tour.done() ? Json(static_cast<double>(tour.link->map_cost.count()) / 1000.0) : Json()},
          {"refused", text_or_null(tour.refused)},
          {"bytes_not_moved", tour.bytes_not_moved},
          {"histogram_equal", report.in_place_equal()}};
}

Json device_json(const FoundDevice& device) {
  return {{"number", device.number},
          {"framework", device.framework},
          {"platform", text_or_null(device.platform)},
          {"name", device.name}};
}

void print_json(const Report& report) {
  Json steps = Json::array();
  for (std::size_t i = 0; i < step_count; ++i) {
    const Step step = Report::step(i);
    if (!report.has(step)) continue;
    const Nanoseconds time = report.time(step);
    const std::uint64_t nbytes = report.file.nbytes();
    steps.push_back({{"step", key(step)},
                     {"bytes", moves_bytes(step) ? Json(nbytes) : Json()},
                     {"ms", milliseconds(time)},
                     {"gb_per_s", moves_bytes(step) ? Json(gigabytes_per_second(nbytes, time)) : Json()}});
  }
  print_json_line({{"device", device_json(report.device)},
                   {"file", report.file.path()},
                   {"bytes", report.file.nbytes()},
                   {"pieces", report.tour.pieces},
                   {"piece_bytes", report.tour.piece_bytes},
                   {"histogram_by", report.tour.means},
                   {"loaded",
                    {{"direct", report.tour.loaded.direct},
                     {"buffered", report.tour.loaded.buffered},
                     {"unbuffered", report.tour.loaded.unbuffered},
                     {"copied_in", report.tour.copied_in}}},
                   {"steps", std::move(steps)},
                   {"histogram", report.tour.counts.of},
                   {"histogram_equal", report.histogram_equal()},
                   {"bytes_equal", report.tour.bytes_equal},
                   {"in_place", in_place_json(report)}});
}

ExitStatus report_on(const Report& report, bool json) {
  if ((!report.histogram_equal() || !report.in_place_equal()) && report.file.changed()) {
    return error(fmt::format("{} changed while it was read", printable(report.file.path())));
  }
  json ? print_json(report) : print_text(report);
  std::fflush(stdout);
  return report.right() ? ExitStatus::success : ExitStatus::failed;
}

}  // namespace

ExitStatus run_tour(const TourOptions& options) {
  const auto path = options.file.empty() ? own_program() : Outcome<std::string>(options.file);
  if (!path) return error(path.error());
  const auto file = InputFile::open(*path);
  if (!file) return error(file.error());
  const Inventory inventory = take_inventory();
  const auto devices = select_devices(inventory, options.device);
  if (!devices) return error(devices.error());

  Progress progress(options.progress.value_or(stderr_is_terminal() && file->nbytes() > large_file_bytes));
  const auto reference = make_reference(*file, progress);
  progress.clear();
  if (!reference) return error(reference.error());

  if (!options.json) fmt::print("{}: {}\n", printable(*path), counted(file->nbytes(), "byte"));
  auto status = ExitStatus::success;
  for (const FoundDevice* device : *devices) {
    const auto tour = device->unusable.empty() ? tour_device(*device, *file, options.piece, progress)
                                               : Outcome<DeviceTour>(complain(device->unusable));
    progress.clear();
    status = worse(status, tour ? report_on({*file, *reference, *device, *tour}, options.json)
                                : error(fmt::format("{}: {}", device->title(), tour.error())));
  }
  return status;
}

}  // namespace berth::tool
