// SPDX-License-Identifier: MIT
#pragma once

#include <berth/core/config.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace berth::inline BERTH_ABI {

/// Names one instance of a backend for the life of the process; never reused, so a stale buffer is
/// recognised. The default is no instance.
struct InstanceId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(InstanceId, InstanceId) = default;
  friend constexpr bool operator==(InstanceId, InstanceId) = default;  // nvcc loses the implicit one
};

/// A fresh id. Process-wide, thread-safe.
[[nodiscard]] BERTH_EXPORT InstanceId next_instance_id() noexcept;

/// Names one physical device, so that caches over the same memory can find each other: two allocators with
/// equal keys draw on the same memory. `backend` is a literal; the words are the backend's own.
struct DeviceKey {
  std::string_view backend;
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend constexpr bool operator==(const DeviceKey&, const DeviceKey&) = default;
};

/// A type, recognised without RTTI and across shared libraries with hidden visibility: by address first, then
/// by name. Types without a name of their own (anonymous namespaces, lambdas) are recognised by address only.
class TypeId {
 public:
  template <class T>
  [[nodiscard]] static constexpr TypeId of() noexcept {
    return TypeId(&entry<T>);
  }

  friend bool operator==(TypeId a, TypeId b) noexcept {
    if (a.entry_ == b.entry_) return true;
    return a.entry_->image != b.entry_->image && a.entry_->global && b.entry_->global &&
           a.entry_->name == b.entry_->name;
  }

  /// The compiler's spelling of the type, for messages.
  [[nodiscard]] constexpr std::string_view name() const noexcept { return entry_->name; }

 private:
  // One in each loaded image: the types of one image are told apart by their addresses alone.
  [[gnu::visibility("hidden")]] static constexpr char image = 0;

  struct Entry {
    std::string_view name;
    bool global;
    const char* image;
  };

  template <class T>
  static constexpr std::string_view spelling() noexcept {
    return __PRETTY_FUNCTION__;
  }
  static constexpr bool is_global(std::string_view name) noexcept {
    for (const std::string_view local :
         {"{anonymous}", "(anonymous", "<lambda", "(lambda", "<unnamed", "(unnamed"}) {
      if (name.find(local) != std::string_view::npos) return false;
    }
    return true;
  }
  template <class T>
  static constexpr Entry entry{spelling<T>(), is_global(spelling<T>()), &image};

  constexpr explicit TypeId(const Entry* entry) noexcept : entry_(entry) {}
  const Entry* entry_;
};

}  // namespace berth::inline BERTH_ABI

template <>
struct std::hash<berth::InstanceId> {
  std::size_t operator()(berth::InstanceId id) const noexcept { return std::hash<std::uint64_t>{}(id.value); }
};
