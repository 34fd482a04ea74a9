# How tests are made and registered.

set(BERTH_TEST_SCALE 1.0 CACHE STRING "Share of the full number of operations that long tests run")

# PoCL's kernel compiler leaks, PoCL itself does not: the address sanitizer passes once the kernels are in the cache.
# So the presets share one, and the dev suite runs before the asan suite.
set(BERTH_POCL_CACHE_DIR ${PROJECT_BINARY_DIR}/pocl-cache CACHE PATH "Where PoCL keeps the kernels of the tests")
file(MAKE_DIRECTORY ${BERTH_POCL_CACHE_DIR})

set(BERTH_INTEL_OPENCL_DIR ${PROJECT_BINARY_DIR}/intel-opencl CACHE PATH
    "Where cmake/intel-opencl.sh has put Intel's OpenCL driver for CPUs")

# Only tests that need a particular driver or tool may skip (exit status 77); any other must run.
set(BERTH_LABELS_THAT_MAY_SKIP real-cuda real-nvidia-cl real-intel-cl oclgrind cuda-toolkit valgrind)

# berth_test_properties(<test> LABELS <label>...): the labels, the environment and the skip rule of a test.
function(berth_test_properties test)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LABELS")
  set_tests_properties(${test} PROPERTIES
    LABELS "${arg_LABELS}"
    ENVIRONMENT "POCL_CACHE_DIR=${BERTH_POCL_CACHE_DIR};BERTH_TEST_SCALE=${BERTH_TEST_SCALE}"
    TIMEOUT 600)
  foreach(label IN LISTS arg_LABELS)
    if(label IN_LIST BERTH_LABELS_THAT_MAY_SKIP)
      set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()

# berth_test(NAME <name> LABELS <label>... [SOURCES <file>...] [LIBS <target>...])
#
# A Catch2 program, registered as one test. The name core.error stands for the source core/error.test.cpp,
# unless SOURCES says otherwise. berth::berth is always linked. The target tests_<label> builds all with that label.
function(berth_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "LABELS;SOURCES;LIBS")
  if(NOT arg_SOURCES)
    string(REPLACE "." "/" path ${arg_NAME})
    set(arg_SOURCES ${path}.test.cpp)
  endif()
  string(REPLACE "." "_" target test_${arg_NAME})
  add_executable(${target} ${arg_SOURCES})
  berth_own_target(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE berth::berth berth_test_main ${arg_LIBS})
  add_test(NAME ${arg_NAME} COMMAND ${target} ${BERTH_CATCH_ARGUMENTS})
  berth_test_properties(${arg_NAME} LABELS ${arg_LABELS})
  foreach(label IN LISTS arg_LABELS)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${target})
  endforeach()
endfunction()

# berth_script_test(NAME <name> LABELS <label>... COMMAND <script> <argument>...): a check written in Python; the
# script's path is relative to tests/.
function(berth_script_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "LABELS;COMMAND")
  list(POP_FRONT arg_COMMAND script)
  add_test(NAME ${arg_NAME} COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/${script} ${arg_COMMAND}
           COMMAND_EXPAND_LISTS)
  berth_test_properties(${arg_NAME} LABELS ${arg_LABELS})
endfunction()

# The compiler and the flags with which a file that uses berth compiles, for tests that call the compiler.
separate_arguments(flags NATIVE_COMMAND "${CMAKE_CXX_FLAGS}")
set(includes $<TARGET_PROPERTY:berth,INTERFACE_INCLUDE_DIRECTORIES>)
set(BERTH_COMPILE ${CMAKE_CXX_COMPILER} ${flags} ${CMAKE_CXX${BERTH_CXX_STANDARD}_STANDARD_COMPILE_OPTION}
    "-I$<JOIN:${includes},$<SEMICOLON>-I>")

# berth_compile_fail_test(<file>): the file must not compile, for the reason that its first line expects; with
# BERTH_COMPILE_FAIL_CONTROL defined it must.
function(berth_compile_fail_test file)
  cmake_path(GET file STEM name)
  berth_script_test(NAME compile_fail.${name} LABELS unit COMMAND scripts/compile_fail.py ${file} -- ${BERTH_COMPILE})
endfunction()

# berth_check_headers_alone(<target>...): a library that compiles each public header by itself, twice included.
function(berth_check_headers_alone)
  add_library(berth_headers_alone OBJECT)
  berth_own_target(berth_headers_alone)
  target_compile_options(berth_headers_alone PRIVATE -O0 -g0)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set_target_properties(berth_headers_alone PROPERTIES EXCLUDE_FROM_ALL ON)  # nothing of it runs
  endif()
  foreach(target IN LISTS ARGN)
    target_link_libraries(berth_headers_alone PRIVATE ${target})
    get_target_property(headers ${target} HEADER_SET)
    foreach(header IN LISTS headers)
      string(REGEX REPLACE "^.*/include/berth/" "" name ${header})
      set(source ${CMAKE_CURRENT_BINARY_DIR}/headers_alone/${name}.cpp)
      file(CONFIGURE OUTPUT ${source} CONTENT "#include <berth/${name}>\n#include <berth/${name}>\n")
      target_sources(berth_headers_alone PRIVATE ${source})
    endforeach()
  endforeach()
endfunction()
