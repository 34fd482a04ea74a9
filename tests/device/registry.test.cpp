// SPDX-License-Identifier: MIT
#include <berth/core/buffer.hpp>
#include <berth/device/registry.hpp>
#include <berth/host/framework.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <string>
#include <thread>

#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/outcome.hpp"
#include "support/scale.hpp"

using namespace berth;
using device::Device;
using device::find_framework;
using device::Framework;
using device::frameworks;
using device::register_framework;
using device::unregister_framework;

namespace {

/// A user's own backend.
class Toy final : public Framework {
 public:
  explicit Toy(std::string name, std::size_t count = 2) : name_(std::move(name)) {
    for (std::size_t i = 0; i < count; ++i) {
      devices_.emplace_back(name_, i, "toy " + std::to_string(i), pack(models::Rich<'a'>()));
    }
  }
  ~Toy() override { ++destroyed; }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] Result<std::vector<Device>> devices() override {
    if (devices_.empty()) return fail(Error(Errc::no_device, "toy").in("devices"));
    return devices_;
  }

  static inline std::atomic<int> destroyed{0};

 private:
  std::string name_;
  std::vector<Device> devices_;
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& framework : frameworks()) all.emplace_back(framework->name());
  return all;
}

/// Takes out what a test registered.
struct Clean {
  ~Clean() {
    for (const std::string& name : names()) unregister_framework(name);
  }
};

}  // namespace

TEST_CASE("the registry is empty until someone registers") {
  CHECK(frameworks().empty());
  CHECK(find_framework("Native") == nullptr);
  CHECK(find_framework("OpenCL") == nullptr);
  CHECK(find_framework("") == nullptr);
}

TEST_CASE("a framework is found by its name, in order of registration") {
  const Clean clean;
  const auto b = std::make_shared<Toy>("b");
  const auto a = std::make_shared<Toy>("a");
  REQUIRE(message(register_framework(b)) == "ok");
  REQUIRE(message(register_framework(host::framework())) == "ok");
  REQUIRE(message(register_framework(a)) == "ok");
  CHECK(names() == std::vector<std::string>{"b", "Native", "a"});
  CHECK(find_framework("a") == a);
  CHECK(find_framework("b") == b);
  CHECK(find_framework("Native") == host::framework());
  CHECK(find_framework("A") == nullptr);
  CHECK(find_framework("") == nullptr);

  CHECK(unregister_framework("Native"));
  CHECK(names() == std::vector<std::string>{"b", "a"});
  REQUIRE(message(register_framework(host::framework())) == "ok");
  CHECK(names() == std::vector<std::string>{"b", "a", "Native"});
}

TEST_CASE("the same object may be registered twice, another of its name not") {
  const Clean clean;
  const auto first = std::make_shared<Toy>("toy");
  REQUIRE(message(register_framework(first)) == "ok");
  REQUIRE(message(register_framework(first)) == "ok");
  CHECK(frameworks().size() == 1);
  const auto second = std::make_shared<Toy>("toy");
  const auto refused = register_framework(second);
  REQUIRE(outcome(refused) == "invalid_argument");
  CHECK(refused.error().call() == "register_framework");
  CHECK_FALSE(refused.error().reason().empty());
  CHECK(find_framework("toy") == first);
  CHECK(frameworks().size() == 1);
}

TEST_CASE("null is no framework") {
  CHECK(outcome(register_framework(nullptr)) == "invalid_argument");
  CHECK(frameworks().empty());
}

TEST_CASE("taking out") {
  const Clean clean;
  CHECK_FALSE(unregister_framework("toy"));
  const int destroyed = Toy::destroyed;
  REQUIRE(message(register_framework(std::make_shared<Toy>("toy"))) == "ok");
  const auto devices = find_framework("toy")->devices();
  REQUIRE(message(devices) == "ok");
  CHECK(Toy::destroyed == destroyed);
  CHECK(unregister_framework("toy"));
  CHECK(Toy::destroyed == destroyed + 1);
  CHECK_FALSE(unregister_framework("toy"));
  CHECK(find_framework("toy") == nullptr);

  // What was handed out stays usable.
  auto buffer = Buffer::create(devices->front().allocator(), 10);
  REQUIRE(message(buffer) == "ok");
  CHECK(message(buffer->fill(std::byte{1})) == "ok");

  // The name is free again.
  const auto next = std::make_shared<Toy>("toy");
  REQUIRE(message(register_framework(next)) == "ok");
  CHECK(find_framework("toy") == next);
}

TEST_CASE("a framework may use the registry when it is destroyed") {
  struct Recursive final : Framework {
    ~Recursive() override { seen = frameworks().size(); }
    [[nodiscard]] std::string_view name() const noexcept override { return "recursive"; }
    [[nodiscard]] Result<std::vector<Device>> devices() override { return std::vector<Device>(); }
    std::size_t& seen;
    explicit Recursive(std::size_t& to) : seen(to) {}
  };
  std::size_t seen = 99;
  REQUIRE(message(register_framework(std::make_shared<Recursive>(seen))) == "ok");
  CHECK(unregister_framework("recursive"));
  CHECK(seen == 0);
}

TEST_CASE("what a framework answers comes through") {
  const Clean clean;
  REQUIRE(message(register_framework(std::make_shared<Toy>("none", 0))) == "ok");
  CHECK(outcome(find_framework("none")->devices()) == "no_device");
}

TEST_CASE("the list is a snapshot") {
  const Clean clean;
  REQUIRE(message(register_framework(std::make_shared<Toy>("toy"))) == "ok");
  const auto before = frameworks();
  unregister_framework("toy");
  REQUIRE(before.size() == 1);
  CHECK(before.front()->name() == "toy");
}

TEST_CASE("threads register, find and take out") {
  const Clean clean;
  constexpr int threads = 8;
  const std::size_t rounds = scaled(500);
  const auto shared = std::make_shared<Toy>("shared");
  REQUIRE(message(register_framework(shared)) == "ok");
  std::barrier start(threads);
  std::atomic<int> contested_wins{0};
  std::vector<std::string> problems(threads);
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        const std::string own = "own " + std::to_string(t);
        const auto check = [&](bool good, const char* what) {
          if (!good && problems[t].empty()) problems[t] = what;
        };
        start.arrive_and_wait();
        if (register_framework(std::make_shared<Toy>("contested"))) ++contested_wins;
        for (std::size_t round = 0; round < rounds; ++round) {
          const auto framework = std::make_shared<Toy>(own, 1);
          check(register_framework(framework).has_value(), "register");
          check(find_framework(own) == framework, "find");
          check(find_framework("shared") == shared, "find of the shared one");
          check(register_framework(shared).has_value(), "register of the shared one");
          check(frameworks().size() >= 3, "list");
          check(unregister_framework(own), "unregister");
          check(find_framework(own) == nullptr, "find afterwards");
        }
      });
    }
  }
  for (const std::string& problem : problems) CHECK(problem == "");
  CHECK(contested_wins == 1);
  CHECK(names() == std::vector<std::string>{"shared", "contested"});
}

TEST_CASE("in a forked child the registry is empty and takes nothing") {
  const Clean clean;
  REQUIRE(message(register_framework(host::framework())) == "ok");
  const auto toy = std::make_shared<Toy>("toy");
  const pid_t child = ::fork();
  if (child == 0) {
    const bool good = frameworks().empty() && find_framework("Native") == nullptr &&
                      !unregister_framework("Native") && outcome(register_framework(toy)) == "forked" &&
                      outcome(host::framework()->devices()) == "forked";
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(find_framework("Native") == host::framework());
}
