// SPDX-License-Identifier: MIT
#include "../inventory.hpp"

namespace berth::tool {

FoundFramework find_cuda() {
  return {.name = "CUDA",
          .problem = "this program was built without the CUDA backend",
          .remedy = "Configure berth with -DBERTH_CUDA=ON.",
          .platforms = {}};
}

}  // namespace berth::tool
