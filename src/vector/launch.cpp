// SPDX-License-Identifier: MIT
#include <berth/vector/launch.hpp>

namespace berth::inline BERTH_ABI {

using detail::LaunchUse;

Result<Launch> Launch::announce(const device::Device& device, std::vector<LaunchArgument> arguments) {
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    if (argument->vector == nullptr) {
      return fail(Error(Errc::invalid_argument, "host").in("launching").because("a vector was moved from"));
    }
    if (auto ready = argument->vector->check_launch(argument->use); !ready) return fail(ready.error());
    for (auto earlier = arguments.begin(); earlier != argument; ++earlier) {
      const bool written = argument->use != LaunchUse::in || earlier->use != LaunchUse::in;
      if (!written || !argument->vector->overlaps(*earlier->vector)) continue;
      return fail(Error(Errc::overlap, "host")
                      .in("launching")
                      .asking(argument->vector->nbytes())
                      .because("two arguments share elements and one of them is written"));
    }
  }
  std::vector<detail::VectorCore*> made;
  made.reserve(arguments.size());
  for (const LaunchArgument& argument : arguments) {
    const auto ready = argument.vector->prepare_launch(device, argument.use);
    if (!ready) {
      for (detail::VectorCore* const vector : made) vector->unprepare_launch(device);
      return fail(ready.error());
    }
    if (*ready) made.push_back(argument.vector.get());
  }
  for (LaunchArgument& argument : arguments) {
    argument.announced = argument.vector->mark_launched(device, argument.use);
  }
  return Launch(device, std::move(arguments));
}

void Launch::done() {
  for (const LaunchArgument& argument : std::exchange(arguments_, {})) {
    argument.vector->mark_done(device_, argument.use, argument.announced);
  }
}

void Launch::done(const Event& event) {
  for (const LaunchArgument& argument : arguments_) {
    argument.vector->add_launch(device_, argument.use, argument.announced, event);
  }
  done();
}

}  // namespace berth::inline BERTH_ABI
