// SPDX-License-Identifier: MIT
// What a process does once it cannot be undone, so this program itself never uses berth: each scenario runs
// in a forked child of it, which forks again where the scenario asks for it.
#include <berth/core/process.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/scale.hpp"

using namespace berth;

namespace {

// Where a child tells its answer.
int answer_fd = -1;

void answer(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(answer_fd, text.data(), text.size());
    if (n <= 0) std::abort();
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// What a forked child that runs `scenario` answers; with how it ended where that was not status 0.
template <class Scenario>
std::string in_child(const Scenario& scenario) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child < 0) return "no fork";
  if (child == 0) {
    ::close(ends[0]);
    answer_fd = ends[1];
    scenario();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 256> some{};
  for (ssize_t n = 0; (n = ::read(ends[0], some.data(), some.size())) > 0;) {
    text.append(some.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    text += "; signal " + std::to_string(WTERMSIG(status));
  else if (WEXITSTATUS(status) != 0)
    text += "; status " + std::to_string(WEXITSTATUS(status));
  return text;
}

// What berth says of this process; asking whether it is usable is a use, so it comes last.
std::string state() {
  std::string text = process::forked() ? "forked" : "not forked";
  text += process::may_release() ? ", may release" : ", must not release";
  return text + ", usable: " + message(process::usable("test"));
}

const std::string fresh = "not forked, may release, usable: ok";
const std::string in_use = fresh;
const std::string forked =
    "forked, must not release, usable: test: berth was used before fork; the child cannot use it";
const std::string exiting =
    "not forked, must not release, usable: test: the process is exiting; no driver is called any more";

}  // namespace

TEST_CASE("berth is usable, again and again") {
  CHECK(in_child([] {
          answer(state() + "\n");
          answer(state());
        }) == fresh + "\n" + in_use);
}

TEST_CASE("the child of a process that has used berth cannot, and the process still can") {
  CHECK(in_child([] {
          static_cast<void>(process::usable("test"));
          answer(in_child([] { answer(state()); }) + "\n");
          answer(state());
        }) == forked + "\n" + in_use);
}

TEST_CASE("nor can the child's child") {
  CHECK(in_child([] {
          static_cast<void>(process::usable("test"));
          answer(in_child([] { answer(in_child([] { answer(state()); })); }));
        }) == forked);
}

TEST_CASE("asking does not make the child usable") {
  CHECK(in_child([] {
          static_cast<void>(process::usable("test"));
          answer(in_child([] {
            answer(state() + "\n");
            answer(state());
          }));
        }) == forked + "\n" + forked);
}

TEST_CASE("the child of a process that has not used berth can") {
  CHECK(in_child([] { answer(in_child([] { answer(state()); })); }) == fresh);
  CHECK(in_child([] {
          // Asking these two is no use.
          static_cast<void>(process::forked());
          static_cast<void>(process::may_release());
          answer(in_child([] { answer(state()); }) + "\n");
          answer(state());
        }) == fresh + "\n" + fresh);
}

TEST_CASE("a use in the child is none in the parent, nor in its other children") {
  CHECK(in_child([] {
          answer(in_child([] { answer(state()); }) + "\n");
          answer(in_child([] { answer(state()); }) + "\n");
          answer(state());
        }) == fresh + "\n" + fresh + "\n" + fresh);
}

TEST_CASE("past the exit hook no driver is called, and no earlier") {
  CHECK(in_child([] {
          // Handlers run in reverse: the one that is registered before the hook runs after it, as a driver's
          // does.
          std::atexit([] {
            answer(state());
            ::_exit(0);
          });
          static_cast<void>(process::usable("test"));
          process::register_exit_hook();
          std::atexit([] { answer(state() + "\n"); });
          answer(state() + "\n");
          std::exit(0);
        }) == in_use + "\n" + in_use + "\n" + exiting);
}

TEST_CASE("the exit hook of a driver that comes later runs before what was registered in between") {
  CHECK(in_child([] {
          std::atexit([] {
            answer(state());
            ::_exit(0);
          });
          static_cast<void>(process::usable("test"));
          process::register_exit_hook();
          std::atexit([] { answer(state() + "\n"); });
          process::register_exit_hook();
          std::exit(0);
        }) == exiting + "\n" + exiting);
}

TEST_CASE("without the exit hook a process is usable to its end") {
  CHECK(in_child([] {
          std::atexit([] {
            answer(state());
            ::_exit(0);
          });
          static_cast<void>(process::usable("test"));
          std::exit(0);
        }) == in_use);
}

TEST_CASE("a forked child that exits through the hook is forked still") {
  CHECK(in_child([] {
          std::atexit([] {
            answer(state());
            ::_exit(0);
          });
          static_cast<void>(process::usable("test"));
          process::register_exit_hook();
          answer(in_child([] { std::exit(0); }) + "\n");
          std::exit(0);
        }) == forked + "\n" + exiting);
}

TEST_CASE("a child forked past the exit hook is forked") {
  CHECK(in_child([] {
          std::atexit([] {
            answer(in_child([] { answer(state()); }));
            ::_exit(0);
          });
          static_cast<void>(process::usable("test"));
          process::register_exit_hook();
          std::exit(0);
        }) == forked);
}

TEST_CASE("without a page to be wiped, the child is recognised all the same") {
  CHECK(in_child([] {
          rlimit limit{};
          ::getrlimit(RLIMIT_AS, &limit);
          const rlim_t before = std::exchange(limit.rlim_cur, 0);
          ::setrlimit(RLIMIT_AS, &limit);
          const bool usable = process::usable("test").has_value();
          limit.rlim_cur = before;
          ::setrlimit(RLIMIT_AS, &limit);
          answer(usable ? "" : "not usable; ");
          answer(in_child([] { answer(state()); }) + "\n");
          answer(state());
        }) == forked + "\n" + in_use);
}

TEST_CASE("several threads may be the first to use berth") {
  const std::size_t rounds = scaled(50);
  for (std::size_t round = 0; round < rounds; ++round) {
    REQUIRE(in_child([] {
              constexpr std::size_t count = 4;
              std::barrier start(count);
              std::atomic<int> wrong{0};
              std::vector<std::thread> threads;
              for (std::size_t i = 0; i < count; ++i) {
                threads.emplace_back([&] {
                  start.arrive_and_wait();
                  if (!process::usable("test") || !process::usable("test") || process::forked() ||
                      !process::may_release()) {
                    ++wrong;
                  }
                  process::register_exit_hook();
                });
              }
              for (std::thread& thread : threads) thread.join();
              answer(wrong == 0 ? state() : "wrong on some thread");
            }) == in_use);
  }
}
