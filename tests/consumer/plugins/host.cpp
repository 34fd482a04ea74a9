// SPDX-License-Identifier: MIT
// Loads two plugins that know nothing of each other, and checks that they share berth's process-wide state.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace {

using NextId = std::uint64_t (*)();

NextId load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library != nullptr ? dlsym(library, "plugin_next_instance_id") : nullptr;
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  return reinterpret_cast<NextId>(symbol);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const NextId first = load(argv[1]);
  const NextId second = load(argv[2]);
  if (first == second) {
    std::fprintf(stderr, "the two plugins are one library\n");
    return 1;
  }

  const std::set<std::uint64_t> ids = {first(), second(), first(), second()};
  if (ids.size() != 4) {
    std::fprintf(stderr, "the plugins gave the same instance id: each has its own registry\n");
    return 1;
  }
  return 0;
}
