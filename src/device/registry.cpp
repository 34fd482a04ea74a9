// SPDX-License-Identifier: MIT
#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/device/registry.hpp>

#include <algorithm>

namespace berth::inline BERTH_ABI::device {

Framework::~Framework() = default;

namespace {

struct Registry {
  Mutex mutex;
  std::vector<std::shared_ptr<Framework>> frameworks BERTH_GUARDED_BY(mutex);

  [[nodiscard]] auto find(std::string_view name) BERTH_REQUIRES(mutex) {
    return std::ranges::find(frameworks, name, [](const auto& framework) { return framework->name(); });
  }
};

// Never destroyed: a framework's driver may be gone by the time static objects are.
Registry& registry() noexcept {
  static Registry* const leaked = new Registry;
  return *leaked;
}

}  // namespace

Result<void> register_framework(std::shared_ptr<Framework> framework) {
  const Error invalid = Error(Errc::invalid_argument).in("register_framework");
  if (auto usable = process::usable("device"); !usable) return usable;
  if (framework == nullptr) return fail(Error(invalid).because("the framework is null"));
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  if (const auto found = live.find(framework->name()); found != live.frameworks.end()) {
    if (*found == framework) return {};
    return fail(Error(invalid).because("another framework has that name"));
  }
  live.frameworks.push_back(std::move(framework));
  return {};
}

bool unregister_framework(std::string_view name) noexcept {
  if (process::forked()) return false;
  std::shared_ptr<Framework> removed;  // destroyed after the lock
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  const auto found = live.find(name);
  if (found == live.frameworks.end()) return false;
  removed = std::move(*found);
  live.frameworks.erase(found);
  return true;
}

std::shared_ptr<Framework> find_framework(std::string_view name) {
  if (process::forked()) return nullptr;
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  const auto found = live.find(name);
  return found != live.frameworks.end() ? *found : nullptr;
}

std::vector<std::shared_ptr<Framework>> frameworks() {
  if (process::forked()) return {};
  Registry& live = registry();
  const MutexLock lock(live.mutex);
  return live.frameworks;
}

}  // namespace berth::inline BERTH_ABI::device
