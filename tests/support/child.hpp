// SPDX-License-Identifier: MIT
// Child processes that run one test of the same program.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace native {

/// How a child ended and what it wrote.
struct Finished {
  int status = -1;  ///< 0 only for a clean exit with status 0
  std::string output;
};

/// Runs one test case, hidden or not, of this program in a new process, with `environment` ("NAME=value")
/// added to the caller's.
inline Finished run_child(const std::string& test_case, const std::vector<std::string>& environment = {}) {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const bool replaced = std::any_of(environment.begin(), environment.end(), [&](const std::string& added) {
      return text.starts_with(added.substr(0, added.find('=') + 1));
    });
    if (!replaced) variables.push_back(*variable);
  }
  for (const std::string& added : environment) variables.push_back(const_cast<char*>(added.c_str()));
  variables.push_back(nullptr);
  std::string program = "berth test";
  std::string argument = test_case;
  std::array<char*, 3> arguments{program.data(), argument.data(), nullptr};

  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  pid_t child = 0;
  const int spawned =
      ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);

  Finished finished;
  std::array<char, 4096> chunk{};
  for (ssize_t n = 0; spawned == 0 && (n = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
    finished.output.append(chunk.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  REQUIRE(spawned == 0);
  REQUIRE(::waitpid(child, &finished.status, 0) == child);
  return finished;
}

/// Writes a line at once, without the buffers that a process copies when it forks or drops when it ends
/// early.
inline void say(const std::string& line) {
  const std::string text = line + "\n";
  static_cast<void>(!::write(STDOUT_FILENO, text.data(), text.size()));
}

}  // namespace native
