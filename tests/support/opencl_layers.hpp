// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

/// The libraries that OPENCL_LAYERS named when the program started. ocl-icd cuts the variable at the first
/// colon when it reads it.
inline const std::vector<std::string> opencl_layers = [] {
  std::vector<std::string> paths;
  const char* const variable = std::getenv("OPENCL_LAYERS");
  std::istringstream text(variable != nullptr ? variable : "");
  for (std::string path; std::getline(text, path, ':');) paths.push_back(path);
  return paths;
}();
