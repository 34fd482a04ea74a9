// SPDX-License-Identifier: MIT
// What a call answered, as text that a failing test prints.
#pragma once

#include <berth/core/result.hpp>

#include <string>

/// "ok", or the name of the error's code.
template <class T>
std::string outcome(const berth::Result<T>& result) {
  return result ? "ok" : std::string(berth::to_string(result.error().code()));
}

/// "ok", or the whole message.
template <class T>
std::string message(const berth::Result<T>& result) {
  return result ? "ok" : result.error().message();
}
