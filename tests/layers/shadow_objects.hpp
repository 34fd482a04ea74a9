// SPDX-License-Identifier: MIT
// The buffers that the shadow layer made: where the host sees each, and its live maps.
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cl.hpp"
#include "control.hpp"

namespace layers::shadow {

/// One live map.
struct Map {
  std::byte* pointer;
  std::size_t offset;
  std::size_t nbytes;
  bool copies_in;   ///< device to host, at the map
  bool copies_out;  ///< host to device, at the unmap
};

/// What a query tells.
struct Facts {
  bool user_memory;  ///< made over host memory of the caller's
  void* host_pointer;
  cl_uint maps;
};

/// Thread-safe. No lock is held across a call into the driver.
class Objects {
 public:
  void add(cl_mem object, ShadowMode mode, void* user, std::size_t nbytes);
  /// False when the root is none of these.
  bool add_sub_buffer(cl_mem object, cl_mem root, std::size_t origin, std::size_t nbytes);
  /// The driver has deleted the object.
  void remove(cl_mem object);

  [[nodiscard]] bool contains(cl_mem object) const;
  [[nodiscard]] std::optional<Facts> facts(cl_mem object) const;

  /// Registers a map; CL_INVALID_VALUE outside the object, CL_MAP_FAILURE without memory.
  [[nodiscard]] cl_int begin_map(cl_mem object, cl_map_flags flags, std::size_t offset, std::size_t nbytes,
                                 Map& map);
  /// Takes the newest live map at the pointer out; CL_INVALID_VALUE when there is none.
  [[nodiscard]] cl_int end_map(cl_mem object, const void* pointer, Map& map);
  /// Puts a map back that could not be ended.
  void restore(cl_mem object, const Map& map);

 private:
  struct Object {
    ShadowMode mode;
    std::byte* user;     // the caller's memory, or null
    std::byte* staging;  // ours, made at the first map; of a root only
    std::size_t nbytes;
    cl_mem root;  // null for a root
    std::size_t origin;
    std::vector<Map> maps;
  };

  std::byte* host_memory(Object& object);

  mutable std::mutex mutex_;
  std::unordered_map<cl_mem, Object> objects_;
};

}  // namespace layers::shadow
