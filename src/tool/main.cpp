// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "bench.hpp"
#include "check.hpp"
#include "devices.hpp"
#include "exit_status.hpp"
#include "selection.hpp"
#include "text.hpp"
#include "tour.hpp"

namespace berth::tool {
namespace {

constexpr const char* exit_help =
    "Exit status: 0 success; 1 a result is wrong; 2 the work could not be done.";

/// The command line: one member a subcommand.
struct CommandLine {
  DevicesOptions devices;
  TourOptions tour;
  CheckCommandOptions check;
  BenchOptions bench;
};

std::uint64_t size_or_complaint(const std::string& text) {
  if (const auto size = parse_size(text)) return *size;
  throw CLI::ValidationError("--piece", fmt::format("'{}' is not a number of bytes above 0", text));
}

CLI::App* add_devices(CLI::App& app, DevicesOptions& options) {
  CLI::App* command = app.add_subcommand("devices",
                                         "Shows the devices that berth finds, what each supports, and why "
                                         "something is missing");
  command->add_flag("--json", options.json, "Prints one JSON object");
  return command;
}

CLI::App* add_tour(CLI::App& app, TourOptions& options) {
  CLI::App* command = app.add_subcommand("tour",
                                         "Takes a file to each device, counts its bytes there, brings it "
                                         "back, and compares both with the host's");
  command->add_option("FILE", options.file, "Any regular file, of any size (default: this program itself)")
      ->type_name("");
  command->add_option("--device", options.device, device_help)->type_name("NAME");
  command
      ->add_option_function<std::string>(
          "--piece", [&options](const std::string& text) { options.piece = size_or_complaint(text); },
          "At most so much on the device at a time, such as 1000003 or 64M (default: a quarter of its "
          "memory, at "
          "most 64 MiB)")
      ->type_name("BYTES");
  command->add_flag("--json", options.json, "Prints one JSON object a device, one a line");
  CLI::Option* on = command->add_flag_callback(
      "--progress", [&options] { options.progress = true; },
      "Shows progress on stderr (default: on a terminal, for a file above 64 MiB)");
  command->add_flag_callback(
             "--no-progress", [&options] { options.progress = false; }, "Shows none")
      ->excludes(on);
  return command;
}

CLI::App* add_check(CLI::App& app, CheckCommandOptions& options) {
  CLI::App* command =
      app.add_subcommand("check", "Checks that a device keeps the laws of berth's allocators");
  command->add_option("--device", options.device, device_help)->type_name("NAME");
  command->add_option("--law", options.law, "Checks this law alone")->type_name("NAME");
  command->add_flag("--list", options.list, "Names the laws");
  command->add_flag("--json", options.json, "Prints one JSON object a law and device, one a line");
  return command;
}

CLI::App* add_bench(CLI::App& app, BenchOptions& options) {
  CLI::App* command = app.add_subcommand("bench", "Measures berth, beside what others offer");
  command->add_option("--filter", options.filter, "Runs only benches whose name contains this")
      ->type_name("NAME");
  command->add_flag("--json", options.json, "Prints one JSON object a number, one a line");
  return command;
}

int run(int argc, char** argv) {
  CommandLine line;
  auto status = ExitStatus::success;
  CLI::App app("berth: device memory for authors of GPU runtimes", "berth");
  app.set_version_flag("--version", "berth " + berth_version());
  app.footer(exit_help);
  app.require_subcommand(0, 1);
  add_devices(app, line.devices)->callback([&] { status = run_devices(line.devices); });
  add_tour(app, line.tour)->callback([&] { status = run_tour(line.tour); });
  add_check(app, line.check)->callback([&] { status = run_check(line.check); });
  add_bench(app, line.bench)->callback([&] { status = run_bench(line.bench); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : static_cast<int>(ExitStatus::error);
  }
  if (argc == 1) fmt::print("{}", app.help());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fmt::print(stderr, "berth: the output could not be written\n");
    return static_cast<int>(ExitStatus::error);
  }
  return static_cast<int>(status);
}

}  // namespace
}  // namespace berth::tool

int main(int argc, char** argv) {
  try {
    return berth::tool::run(argc, argv);
  } catch (const std::exception& problem) {
    // berth throws nothing; the standard library and the program's parsers do.
    std::fprintf(stderr, "berth: %s\n", problem.what());
  }
  return static_cast<int>(berth::tool::ExitStatus::error);
}
