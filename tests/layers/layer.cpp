// SPDX-License-Identifier: MIT
#include "layer.hpp"

#include <cstring>

namespace layers {
namespace {

cl_icd_dispatch below{};
cl_icd_dispatch own{};
constexpr cl_uint entries = sizeof(cl_icd_dispatch) / sizeof(void*);

}  // namespace

const cl_icd_dispatch& target() noexcept { return below; }

cl_int answer(const void* value, std::size_t nbytes, std::size_t room, void* out,
              std::size_t* needed) noexcept {
  if (out != nullptr) {
    if (room < nbytes) return CL_INVALID_VALUE;
    if (nbytes != 0) std::memcpy(out, value, nbytes);
  }
  if (needed != nullptr) *needed = nbytes;
  return CL_SUCCESS;
}

}  // namespace layers

cl_int clGetLayerInfo(cl_layer_info param, std::size_t room, void* out, std::size_t* needed) {
  constexpr cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  switch (param) {
    case CL_LAYER_API_VERSION:
      return layers::answer(&version, sizeof version, room, out, needed);
    case CL_LAYER_NAME:
      return layers::answer(layers::name, std::strlen(layers::name) + 1, room, out, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_int clInitLayer(cl_uint num_entries, const cl_icd_dispatch* target, cl_uint* num_entries_ret,
                   const cl_icd_dispatch** layer_ret) {
  if (target == nullptr || num_entries_ret == nullptr || layer_ret == nullptr) return CL_INVALID_VALUE;
  if (num_entries < layers::entries) return CL_INVALID_VALUE;
  layers::below = *target;
  layers::own = *target;
  layers::install(layers::own);
  *num_entries_ret = layers::entries;
  *layer_ret = &layers::own;
  return CL_SUCCESS;
}
