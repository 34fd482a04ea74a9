// SPDX-License-Identifier: MIT
// What the faults layer knows of the objects that the program holds, and of what it did wrong with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cl.hpp"
#include "control.hpp"

namespace layers::faults {

enum class Kind : std::size_t { context, queue, buffer, event, program, kernel };
inline constexpr std::size_t kinds = 6;

template <class T>
struct KindOf;
template <>
struct KindOf<cl_context> {
  static constexpr Kind kind = Kind::context;
  static constexpr cl_int invalid = CL_INVALID_CONTEXT;
};
template <>
struct KindOf<cl_command_queue> {
  static constexpr Kind kind = Kind::queue;
  static constexpr cl_int invalid = CL_INVALID_COMMAND_QUEUE;
};
template <>
struct KindOf<cl_mem> {
  static constexpr Kind kind = Kind::buffer;
  static constexpr cl_int invalid = CL_INVALID_MEM_OBJECT;
};
template <>
struct KindOf<cl_event> {
  static constexpr Kind kind = Kind::event;
  static constexpr cl_int invalid = CL_INVALID_EVENT;
};
template <>
struct KindOf<cl_program> {
  static constexpr Kind kind = Kind::program;
  static constexpr cl_int invalid = CL_INVALID_PROGRAM;
};
template <>
struct KindOf<cl_kernel> {
  static constexpr Kind kind = Kind::kernel;
  static constexpr cl_int invalid = CL_INVALID_KERNEL;
};
template <class T>
concept Counted = requires { KindOf<T>::kind; };

/// Thread-safe; calls no driver.
class Ledger {
 public:
  void created(Kind kind, const void* handle);
  void retained(Kind kind, const void* handle);
  /// False, with a violation, when the program holds no reference any more.
  bool released(std::string_view entry, Kind kind, const void* handle);
  /// False, with a violation, for a handle whose last reference was given back.
  bool alive(std::string_view entry, Kind kind, const void* handle);
  /// Whether that is a buffer whose last reference was given back.
  [[nodiscard]] bool dead_buffer(const void* handle) const;

  /// The bytes of a buffer, in its root.
  void sized(cl_mem object, std::size_t nbytes, cl_mem root, std::size_t origin);
  /// Records a violation for a range of no bytes or outside the object.
  void check_range(std::string_view entry, cl_mem object, std::size_t offset, std::size_t nbytes);
  /// Records a violation when a copy's ranges share bytes of one root.
  void check_copy(std::string_view entry, cl_mem from, std::size_t from_offset, cl_mem to,
                  std::size_t to_offset, std::size_t nbytes);
  /// Records a violation when what is read into or written from is the buffer's own host memory while some of
  /// it is mapped (OpenCL 3.0, clEnqueueWriteBuffer).
  void check_own_memory(std::string_view entry, cl_mem object, std::size_t offset, const void* pointer);

  /// A new map; a violation when it overlaps a live one and either writes, or has the address of a live one.
  void mapped(std::string_view entry, cl_mem object, const void* pointer, std::size_t offset,
              std::size_t nbytes, bool writes);
  /// False, with a violation, when there is no such map.
  bool unmapped(std::string_view entry, cl_mem object, const void* pointer);

  void violation(std::string_view entry, std::string_view what);
  [[nodiscard]] std::string violations() const;
  void forget_violations();
  [[nodiscard]] Balance balance() const;

 private:
  struct Handle {
    Kind kind;
    std::int64_t references;
  };
  struct Range {
    cl_mem root;
    std::size_t offset;
    std::size_t nbytes;
  };
  struct Map {
    cl_mem object;
    const void* pointer;
    Range range;
    bool writes;
  };

  Range in_root(cl_mem object, std::size_t offset, std::size_t nbytes) const;
  void record(std::string_view entry, std::string_view what);

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Handle> handles_;  // those without references are dead
  std::unordered_map<cl_mem, Range> sizes_;
  std::vector<Map> maps_;
  std::vector<std::string> violations_;
};

[[nodiscard]] Ledger& ledger();

}  // namespace layers::faults
