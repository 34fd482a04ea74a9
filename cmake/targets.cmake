# How berth's own targets are made.

# Warnings and language settings for everything that is berth's own; nothing of it reaches a consumer.
function(berth_own_target target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual
                         $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety> $<$<BOOL:${BERTH_STRICT}>:-Werror>)
endfunction()

# berth_library(<target> FOLDERS <folder>...)
#
# A library of the sources below src/<folder> with the public headers below include/berth/<folder>.
# `berth` gets the alias berth::berth, `berth_xyz` the alias berth::xyz.
function(berth_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS")
  string(REGEX REPLACE "^berth_" "" short_name ${target})

  set(sources "")
  set(headers "")
  foreach(folder IN LISTS arg_FOLDERS)
    file(GLOB_RECURSE folder_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
    file(GLOB_RECURSE folder_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/berth/${folder}/*.hpp)
    list(APPEND sources ${folder_sources})
    list(APPEND headers ${folder_headers})
  endforeach()

  set(generated ${PROJECT_BINARY_DIR}/include)
  if(target STREQUAL "berth")
    configure_file(${PROJECT_SOURCE_DIR}/cmake/config.hpp.in ${generated}/berth/core/config.hpp @ONLY)
    list(APPEND headers ${generated}/berth/core/config.hpp)
  endif()

  add_library(${target} ${sources})
  add_library(berth::${short_name} ALIAS ${target})
  berth_own_target(${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include ${generated}
                 FILES ${headers})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${short_name}
    DEFINE_SYMBOL ""
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    POSITION_INDEPENDENT_CODE ON
    INSTALL_RPATH "$ORIGIN")
  set_property(GLOBAL APPEND PROPERTY BERTH_LIBRARIES ${target})
endfunction()
