// SPDX-License-Identifier: MIT
// A disk of 1 MiB, seen by one child process alone: a tmpfs in a mount namespace of its own.
#pragma once

#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "disk/temporary.hpp"
#include "support/catch.hpp"

namespace small_disk {

inline constexpr const char* mark = "small disk: ";

/// For a hidden test case: mounts the disk and says what `work(folder)` says, or why there is none.
template <class Work>
void enter(Work work) {
  const temporary::Folder folder;
  std::string said;
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    said = std::string("cannot mount a small disk: ") + std::strerror(errno);
  } else {
    said = work(folder.path());
    ::umount2(folder.path().c_str(), MNT_DETACH);
  }
  const std::string line = mark + said + "\n";
  static_cast<void>(!::write(STDOUT_FILENO, line.data(), line.size()));
}

/// Runs that hidden test case of this program in a new process; what it said.
inline std::string run(const std::string& test_case) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::string program = "berth test";
  std::string argument = test_case;
  std::array<char*, 3> arguments{program.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int spawned = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string output;
  std::array<char, 1024> chunk{};
  for (ssize_t n = 0; spawned == 0 && (n = ::read(ends[0], chunk.data(), chunk.size())) > 0;) {
    output.append(chunk.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  REQUIRE(spawned == 0);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  const auto begin = output.find(mark);
  INFO(output);
  REQUIRE(begin != std::string::npos);
  const auto text = output.substr(begin + std::strlen(mark));
  return text.substr(0, text.find('\n'));
}

}  // namespace small_disk
