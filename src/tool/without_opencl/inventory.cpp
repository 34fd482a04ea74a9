// SPDX-License-Identifier: MIT
#include "../inventory.hpp"

namespace berth::tool {

FoundFramework find_opencl() {
  return {.name = "OpenCL",
          .problem = "this program was built without the OpenCL backend",
          .remedy = "Configure berth with -DBERTH_OPENCL=ON.",
          .platforms = {}};
}

}  // namespace berth::tool
