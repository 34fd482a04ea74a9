// SPDX-License-Identifier: MIT
#include <berth/core/process.hpp>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

namespace berth::inline BERTH_ABI::process {
namespace detail {

constinit std::atomic<std::atomic<Life>*> life{nullptr};

namespace {

// A page of its own whose content the kernel drops in a forked child (Linux 4.14). Null when that cannot be
// had.
std::atomic<Life>* wiped_page() noexcept {
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (::madvise(page, size, MADV_WIPEONFORK) != 0) {
    ::munmap(page, size);
    return nullptr;
  }
  return new (page) std::atomic<Life>(Life::running);
}

// The fallback: an ordinary word that a fork handler wipes.
std::atomic<Life>* handled_word() noexcept {
  static constinit std::atomic<Life> word{Life::running};
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { word.store(Life::wiped); });
  static_cast<void>(registered);
  return &word;
}

}  // namespace

Result<void> begin_use(const char* backend) noexcept {
  std::atomic<Life>* word = life.load(std::memory_order_acquire);
  if (word == nullptr) {
    std::atomic<Life>* const page = wiped_page();
    std::atomic<Life>* const fresh = page != nullptr ? page : handled_word();
    if (life.compare_exchange_strong(word, fresh, std::memory_order_acq_rel)) return {};
    if (page != nullptr)
      ::munmap(page, static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));  // another was first
  }
  switch (word->load(std::memory_order_relaxed)) {
    case Life::running:
      return {};
    case Life::exiting:
      return fail(Error(Errc::exiting, backend));
    case Life::wiped:
      break;
  }
  return fail(Error(Errc::forked, backend));
}

}  // namespace detail

void register_exit_hook() noexcept {
  std::atexit([] {
    if (std::atomic<Life>* word = detail::life.load(std::memory_order_acquire)) {
      Life running = Life::running;
      word->compare_exchange_strong(running, Life::exiting);
    }
  });
}

}  // namespace berth::inline BERTH_ABI::process
