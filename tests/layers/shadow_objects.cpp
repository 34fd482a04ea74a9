// SPDX-License-Identifier: MIT
#include "shadow_objects.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace layers::shadow {
namespace {

bool copies_in(ShadowMode mode, cl_map_flags flags) {
  return mode == ShadowMode::clvk || flags != CL_MAP_WRITE_INVALIDATE_REGION;
}

bool copies_out(ShadowMode mode, cl_map_flags flags) {
  return mode == ShadowMode::clvk || flags != CL_MAP_READ;
}

}  // namespace

void Objects::add(cl_mem object, ShadowMode mode, void* user, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  objects_[object] = Object{mode, static_cast<std::byte*>(user), nullptr, nbytes, nullptr, 0, {}};
}

bool Objects::add_sub_buffer(cl_mem object, cl_mem root, std::size_t origin, std::size_t nbytes) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(root);
  if (found == objects_.end()) return false;
  std::byte* const user = found->second.user;
  objects_[object] = Object{
      found->second.mode, user != nullptr ? user + origin : nullptr, nullptr, nbytes, root, origin, {}};
  return true;
}

void Objects::remove(cl_mem object) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(object);
  if (found == objects_.end()) return;
  if (found->second.staging != nullptr) ::munmap(found->second.staging, found->second.nbytes);
  objects_.erase(found);
}

bool Objects::contains(cl_mem object) const {
  const std::lock_guard lock(mutex_);
  return objects_.contains(object);
}

std::optional<Facts> Objects::facts(cl_mem object) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(object);
  if (found == objects_.end()) return std::nullopt;
  const Object& known = found->second;
  return Facts{known.user != nullptr, known.user, static_cast<cl_uint>(known.maps.size())};
}

std::byte* Objects::host_memory(Object& object) {
  if (object.user != nullptr) return object.user;
  if (object.root != nullptr) {
    std::byte* const memory = host_memory(objects_.at(object.root));
    return memory != nullptr ? memory + object.origin : nullptr;
  }
  if (object.staging == nullptr) {
    void* const memory = ::mmap(nullptr, object.nbytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) object.staging = static_cast<std::byte*>(memory);
  }
  return object.staging;
}

cl_int Objects::begin_map(cl_mem object, cl_map_flags flags, std::size_t offset, std::size_t nbytes,
                          Map& map) {
  const std::lock_guard lock(mutex_);
  Object& known = objects_.at(object);
  if (nbytes == 0 || offset > known.nbytes || nbytes > known.nbytes - offset) return CL_INVALID_VALUE;
  constexpr cl_map_flags any = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
  const bool invalidates = (flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0;
  if ((flags & ~any) != 0 || (invalidates && flags != CL_MAP_WRITE_INVALIDATE_REGION))
    return CL_INVALID_VALUE;
  std::byte* const memory = host_memory(known);
  if (memory == nullptr) return CL_MAP_FAILURE;
  map = {memory + offset, offset, nbytes, copies_in(known.mode, flags), copies_out(known.mode, flags)};
  if (known.mode == ShadowMode::rusticl) {
    const auto first = std::ranges::find(known.maps, map.pointer, &Map::pointer);
    if (first != known.maps.end()) map.copies_out = first->copies_out;
  }
  known.maps.push_back(map);
  return CL_SUCCESS;
}

cl_int Objects::end_map(cl_mem object, const void* pointer, Map& map) {
  const std::lock_guard lock(mutex_);
  std::vector<Map>& maps = objects_.at(object).maps;
  const auto newest =
      std::find_if(maps.rbegin(), maps.rend(), [&](const Map& live) { return live.pointer == pointer; });
  if (newest == maps.rend()) return CL_INVALID_VALUE;
  map = *newest;
  maps.erase(std::next(newest).base());
  return CL_SUCCESS;
}

void Objects::restore(cl_mem object, const Map& map) {
  const std::lock_guard lock(mutex_);
  objects_.at(object).maps.push_back(map);
}

}  // namespace layers::shadow
