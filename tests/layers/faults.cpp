// SPDX-License-Identifier: MIT
// The layer "faults": fails calls on purpose without asking the driver, keeps the balance of handles and
// maps, and records the misuse that it can see. A released handle never reaches the driver again.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "entries.hpp"
#include "faults_checks.hpp"
#include "faults_ledger.hpp"
#include "faults_rule.hpp"
#include "layer.hpp"

namespace layers {
namespace faults {
namespace {

Rule& rule() {
  static auto* const leaked = new Rule;
  return *leaked;
}

Refused& refused() {
  static auto* const leaked = new Refused;
  return *leaked;
}

// The use of handles that are no more.

template <Counted T>
cl_int check_alive(std::string_view entry, T handle) {
  if (handle == nullptr || ledger().alive(entry, KindOf<T>::kind, handle)) return CL_SUCCESS;
  // The driver keeps a context as long as its objects, and tells about it in queries of theirs.
  return std::is_same_v<T, cl_context> ? CL_SUCCESS : KindOf<T>::invalid;
}

/// CL_SUCCESS, or the status for the first argument that is a released handle or a list with one.
template <class... Args>
cl_int check_arguments(std::string_view entry, const Args&... args) {
  cl_int status = CL_SUCCESS;
  cl_uint count = 0;  // the argument before a list
  const auto check = [&]<class T>(const T& arg) {
    if constexpr (std::is_same_v<T, cl_uint>) {
      count = arg;
    } else if constexpr (Counted<T>) {
      if (status == CL_SUCCESS) status = check_alive(entry, arg);
    } else if constexpr (std::is_pointer_v<T>) {
      using Element = std::remove_pointer_t<T>;
      if constexpr (std::is_const_v<Element> && Counted<std::remove_const_t<Element>>) {
        for (cl_uint i = 0; arg != nullptr && i < count && status == CL_SUCCESS; ++i) {
          status = check_alive(entry, arg[i]);
        }
      }
    }
  };
  (check(args), ...);
  return status;
}

// What a call is.

template <class... Args>
using Last = std::tuple_element_t<sizeof...(Args) - 1, std::tuple<Args...>>;

template <class R, class... Args>
constexpr bool fallible = std::is_same_v<R, cl_int> || std::is_same_v<Last<Args...>, cl_int*>;

template <class R, class... Args>
R refuse(cl_int status, const Args&... args) {
  if constexpr (std::is_same_v<R, cl_int>) {
    return status;
  } else {
    if constexpr (std::is_same_v<Last<Args...>, cl_int*>) {
      if (cl_int* const where = std::get<sizeof...(Args) - 1>(std::tie(args...))) *where = status;
    }
    return R();
  }
}

template <Entry entry>
constexpr bool retains = to_string(entry).starts_with("clRetain");
template <Entry entry>
constexpr bool releases = to_string(entry).starts_with("clRelease");

/// Counts what a successful call gave to the program: a handle that it returns or an event.
template <class R, class... Args>
void count_created(const R& result, cl_int status, const Args&... args) {
  if constexpr (Counted<R>) {
    if (result != nullptr) ledger().created(KindOf<R>::kind, result);
  }
  const auto event = [&]<class T>(const T& arg) {
    if constexpr (std::is_same_v<T, cl_event*>) {
      if (status == CL_SUCCESS && arg != nullptr) ledger().created(Kind::event, *arg);
    }
  };
  (event(args), ...);
}

/// Remembers a release or an unmap that was failed.
template <Entry entry, class R, class... Args>
void keep_undone(R (*below)(Args...), Args... args) {
  if constexpr (releases<entry>) {
    refused().keep([below, args...] {
      using Handle = Last<Args...>;
      if constexpr (Counted<Handle>) {
        if ((ledger().released(to_string(entry), KindOf<Handle>::kind, args), ...)) below(args...);
      } else {
        below(args...);
      }
    });
  } else if constexpr (entry == Entry::clEnqueueUnmapMemObject) {
    const auto [queue, object, pointer, count, events, event] = std::tuple(args...);
    target().clRetainCommandQueue(queue);
    target().clRetainMemObject(object);
    refused().keep([queue, object, pointer] {
      if (ledger().unmapped(to_string(entry), object, pointer)) {
        target().clEnqueueUnmapMemObject(queue, object, pointer, 0, nullptr, nullptr);
        target().clFinish(queue);
      }
      target().clReleaseMemObject(object);
      target().clReleaseCommandQueue(queue);
    });
  }
}

template <Entry entry, class R, class... Args>
R intercept(R (*below)(Args...), Args... args) {
  constexpr std::string_view name = to_string(entry);
  // The counts come first: a failed call does not use its arguments.
  if (const auto status = rule().called(entry, fallible<R, Args...>)) {
    keep_undone<entry>(below, args...);
    return refuse<R>(*status, args...);
  }
  if constexpr (releases<entry> && (Counted<Args> && ...)) {
    if (!(ledger().released(name, KindOf<Args>::kind, args) && ...)) return (KindOf<Args>::invalid, ...);
  } else {
    if (const cl_int status = check_arguments(name, args...); status != CL_SUCCESS)
      return refuse<R>(status, args...);
  }
  if (!Checks<entry>::before(args...)) return refuse<R>(CL_INVALID_VALUE, args...);

  if constexpr (std::is_void_v<R>) {
    below(args...);
  } else {
    const R result = below(args...);
    cl_int status = CL_SUCCESS;
    if constexpr (std::is_same_v<R, cl_int>) {
      status = result;
    } else if constexpr (std::is_pointer_v<R>) {
      status = result != nullptr ? CL_SUCCESS : CL_INVALID_VALUE;
    }
    if constexpr (retains<entry> && (Counted<Args> && ...)) {
      if (status == CL_SUCCESS) (ledger().retained(KindOf<Args>::kind, args), ...);
    }
    count_created(result, status, args...);
    if (status == CL_SUCCESS) Checks<entry>::after(result, args...);
    return result;
  }
}

template <Entry entry, auto member>
struct Replacement;
template <Entry entry, class R, class... Args, R (CL_API_CALL* cl_icd_dispatch::*member)(Args...)>
struct Replacement<entry, member> {
  static R CL_API_CALL call(Args... args) { return intercept<entry>(target().*member, args...); }
};

// What tests ask.

std::size_t copy_text(const std::string& text, char* out, std::size_t room) {
  if (out != nullptr && room != 0) {
    const std::size_t n = std::min(text.size(), room - 1);
    std::memcpy(out, text.data(), n);
    out[n] = '\0';
  }
  return text.size();
}

constexpr FaultsControl control{
    .reset =
        [] {
          rule().reset();
          ledger().forget_violations();
        },
    .fail = [](const char* entry, std::uint64_t nth, std::uint64_t times,
               std::int32_t status) { rule().set(entry, nth, times, status); },
    .disarm = [] { rule().disarm(); },
    .calls = [](const char* entry) { return rule().calls(entry != nullptr ? entry : ""); },
    .failed =
        [](char* entry, std::size_t room) {
          const auto [times, last] = rule().failed();
          copy_text(last, entry, room);
          return times;
        },
    .balance = [](Balance* out) { *out = ledger().balance(); },
    .violations = [](char* text, std::size_t room) { return copy_text(ledger().violations(), text, room); },
    .settle = [] { return refused().settle(); },
};

// Ends the process with status 1 when something is left or was done wrong.
void check_at_exit() {
  const Balance left = ledger().balance();
  const std::string wrong = ledger().violations();
  if (left == Balance{} && wrong.empty()) return;
  std::fprintf(
      stderr,
      "faults layer: left at exit: %lld contexts, %lld queues, %lld buffers, %lld events, %lld programs, "
      "%lld kernels, %lld maps\n%s",
      static_cast<long long>(left.contexts.handles), static_cast<long long>(left.queues.handles),
      static_cast<long long>(left.buffers.handles), static_cast<long long>(left.events.handles),
      static_cast<long long>(left.programs.handles), static_cast<long long>(left.kernels.handles),
      static_cast<long long>(left.maps), wrong.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace
}  // namespace faults

const char* const name = "berth faults";

void install(cl_icd_dispatch& table) {
#define BERTH_CL_ENTRY(name) table.name = &faults::Replacement<Entry::name, &cl_icd_dispatch::name>::call;
  BERTH_CL_ENTRIES(BERTH_CL_ENTRY)
#undef BERTH_CL_ENTRY
  if (std::getenv("BERTH_FAULTS_AT_EXIT") != nullptr) std::atexit(&faults::check_at_exit);
}

}  // namespace layers

extern "C" __attribute__((visibility("default"))) const layers::FaultsControl* berth_faults_layer() {
  return &layers::faults::control;
}
