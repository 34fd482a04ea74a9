# Decides once what Result is: std::expected (C++23) or tl::expected (C++20).
#
# Sets BERTH_EXPECTED_STD (1 or 0), BERTH_ABI (the inline namespace), BERTH_CXX_STANDARD (23 or 20) and
# BERTH_EXPECTED_TARGET (what to link, may be empty).

set(BERTH_EXPECTED auto CACHE STRING "Result is: std (std::expected), tl (tl::expected), auto")
set_property(CACHE BERTH_EXPECTED PROPERTY STRINGS auto std tl)

# Sets the result to whether C++23 with a usable std::expected is at hand, and to be had: nvcc knows no C++23.
function(berth_check_std_expected result)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("CUDA" IN_LIST languages)
    set(${result} OFF PARENT_SCOPE)
    return()
  endif()
  include(CheckCXXSourceCompiles)
  set(CMAKE_CXX_STANDARD 23)
  check_cxx_source_compiles("
    #include <expected>
    int main() {
      std::expected<int, char> good = 0, bad = std::unexpected('e');
      return good.value_or(1) + (bad ? 1 : 0);
    }" BERTH_HAS_STD_EXPECTED)
  set(${result} ${BERTH_HAS_STD_EXPECTED} PARENT_SCOPE)
endfunction()

if(NOT BERTH_EXPECTED MATCHES "^(auto|std|tl)$")
  message(FATAL_ERROR "berth: BERTH_EXPECTED is '${BERTH_EXPECTED}'; it must be auto, std or tl.")
endif()

if(NOT BERTH_EXPECTED STREQUAL "tl")
  berth_check_std_expected(BERTH_EXPECTED_STD)
else()
  set(BERTH_EXPECTED_STD OFF)
endif()

if(BERTH_EXPECTED STREQUAL "std" AND NOT BERTH_EXPECTED_STD)
  message(FATAL_ERROR "berth: BERTH_EXPECTED=std needs a C++23 compiler and library with std::expected, and no "
                      "CUDA language in the build. Use -DBERTH_EXPECTED=tl (Debian: libexpected-dev).")
endif()

if(BERTH_EXPECTED_STD)
  set(BERTH_EXPECTED_STD 1)
  set(BERTH_ABI std_v0)
  set(BERTH_CXX_STANDARD 23)
  set(BERTH_EXPECTED_TARGET "")
else()
  set(BERTH_EXPECTED_STD 0)
  set(BERTH_ABI tl_v0)
  set(BERTH_CXX_STANDARD 20)
  set(BERTH_EXPECTED_TARGET tl::expected)
  find_package(tl-expected)
  if(NOT tl-expected_FOUND)
    message(FATAL_ERROR "berth: tl::expected not found. Install it (Debian: libexpected-dev), or use a compiler "
                        "with std::expected and -DBERTH_EXPECTED=std.")
  endif()
endif()
message(STATUS "berth: C++${BERTH_CXX_STANDARD}, inline namespace ${BERTH_ABI}")
