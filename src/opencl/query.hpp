// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "status.hpp"

namespace berth::inline BERTH_ABI::opencl {

/// The entry point that tells about one kind of object.
template <class Object>
struct InfoCall;
template <>
struct InfoCall<cl_platform_id> {
  static constexpr auto get = &clGetPlatformInfo;
  static constexpr const char* name = "clGetPlatformInfo";
};
template <>
struct InfoCall<cl_device_id> {
  static constexpr auto get = &clGetDeviceInfo;
  static constexpr const char* name = "clGetDeviceInfo";
};
template <>
struct InfoCall<cl_command_queue> {
  static constexpr auto get = &clGetCommandQueueInfo;
  static constexpr const char* name = "clGetCommandQueueInfo";
};
template <>
struct InfoCall<cl_mem> {
  static constexpr auto get = &clGetMemObjectInfo;
  static constexpr const char* name = "clGetMemObjectInfo";
};
template <>
struct InfoCall<cl_event> {
  static constexpr auto get = &clGetEventInfo;
  static constexpr const char* name = "clGetEventInfo";
};

/// One property of fixed size.
template <class T, class Object>
[[nodiscard]] Result<T> query(Object object, cl_uint param) noexcept {
  using Call = InfoCall<Object>;
  T value{};
  if (auto got = check(Call::get(object, param, sizeof value, &value, nullptr), Call::name); !got) {
    return fail(got.error());
  }
  return value;
}

/// One property that is text, without surrounding blanks.
template <class Object>
[[nodiscard]] Result<std::string> query_text(Object object, cl_uint param) {
  using Call = InfoCall<Object>;
  std::size_t nbytes = 0;
  if (auto got = check(Call::get(object, param, 0, nullptr, &nbytes), Call::name); !got)
    return fail(got.error());
  std::string text(nbytes, '\0');
  if (auto got = check(Call::get(object, param, nbytes, text.data(), nullptr), Call::name); !got) {
    return fail(got.error());
  }
  text.resize(std::char_traits<char>::length(text.c_str()));
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? std::string()
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace berth::inline BERTH_ABI::opencl
