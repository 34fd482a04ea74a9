// SPDX-License-Identifier: MIT
#include <berth/core/mutex.hpp>
#include <berth/core/process.hpp>
#include <berth/cuda/driver.hpp>

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <string_view>

#include "entries.hpp"
#include "resolve.hpp"
#include "status.hpp"

namespace berth::inline BERTH_ABI::cuda {
namespace {

// How `cuGetProcAddress` is declared since CUDA 12.0, and before.
using GetProcAddress = abi::Status (*)(const char* symbol, void** function, int version, std::uint64_t flags,
                                       int* found);
using OldGetProcAddress = abi::Status (*)(const char* symbol, void** function, int version,
                                          std::uint64_t flags);

// A null stream is the legacy default stream, whatever the program was compiled for.
constexpr std::uint64_t legacy_stream = 1;

enum class Need : std::uint8_t { needed, optional };

struct Entry {
  const char* symbol;
  int version;
  Need need;
  void (*store)(Driver& driver, void* function) noexcept;
};

template <auto Member>
void store(Driver& driver, void* function) noexcept {
  static_assert(sizeof(driver.*Member) == sizeof function);
  std::memcpy(&(driver.*Member), &function, sizeof function);
}

#define BERTH_CUDA_ENTRY(member, symbol, version, need) \
  Entry{#symbol, version, Need::need, &store<&Driver::member>},
constexpr auto entries = std::to_array<Entry>({BERTH_CUDA_ENTRIES(BERTH_CUDA_ENTRY)});
#undef BERTH_CUDA_ENTRY

template <class Function>
Function exported(void* library, const char* symbol) noexcept {
  void* const found = ::dlsym(library, symbol);
  Function function = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

// Finds the entry points of one library.
class Finder {
 public:
  explicit Finder(void* library) noexcept
      : find_(exported<GetProcAddress>(library, "cuGetProcAddress_v2")),
        old_find_(exported<OldGetProcAddress>(library, "cuGetProcAddress")) {}

  [[nodiscard]] bool ready() const noexcept { return find_ != nullptr || old_find_ != nullptr; }
  /// Null when there is none.
  [[nodiscard]] void* find(const Entry& entry) const noexcept {
    void* function = nullptr;
    int found = 0;
    const abi::Status status = find_ != nullptr
                                   ? find_(entry.symbol, &function, entry.version, legacy_stream, &found)
                                   : old_find_(entry.symbol, &function, entry.version, legacy_stream);
    return status == abi::success ? function : nullptr;
  }

 private:
  GetProcAddress find_;
  OldGetProcAddress old_find_;
};

Error too_old(const char* symbol) noexcept {
  return Error(Errc::symbol_missing, backend)
      .in(symbol)
      .because("the driver has no such entry point: it is older than CUDA 11.4");
}

}  // namespace

Result<Driver> load_driver(const char* library) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const bool nvidias = std::string_view(library) == "libcuda.so.1";
    return fail(
        Error(Errc::library_missing, backend)
            .in("dlopen")
            .because(nvidias ? "libcuda.so.1 is not there, or does not load: it comes with NVIDIA's driver"
                             : "the library is not there, or does not load"));
  }
  const Finder finder(handle);
  if (!finder.ready()) return fail(too_old("cuGetProcAddress"));
  Driver driver;
  for (const Entry& entry : entries) {
    void* const function = finder.find(entry);
    if (function == nullptr && entry.need == Need::needed) return fail(too_old(entry.symbol));
    entry.store(driver, function);
  }
  return driver;
}

Result<const Driver*> driver() {
  static Mutex mutex;
  static Driver loaded;
  static bool initialised = false;
  if (auto usable = process::usable(backend); !usable) return fail(usable.error());
  const MutexLock lock(mutex);
  if (initialised) return &loaded;
  if (loaded.init == nullptr) {
    auto found = load_driver();
    if (!found) return fail(found.error());
    loaded = *found;
  }
  if (auto ready = check(loaded, loaded.init(0), "cuInit"); !ready) return fail(ready.error());
  hook_exit();
  initialised = true;
  return &loaded;
}

}  // namespace berth::inline BERTH_ABI::cuda
