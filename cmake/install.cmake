# Install rules: libraries, headers, a relocatable CMake package and pkg-config files.
include(CMakePackageConfigHelpers)

get_property(berth_libraries GLOBAL PROPERTY BERTH_LIBRARIES)
set(berth_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/berth)

install(TARGETS ${berth_libraries} EXPORT berth-targets FILE_SET HEADERS)
install(EXPORT berth-targets NAMESPACE berth:: DESTINATION ${berth_package_dir})
if(TARGET berth_tool)
  file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(berth_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS berth_tool)
endif()

# What a consumer must find too. Private dependencies matter to the consumer of a static library alone.
set(BERTH_DEPENDENCIES "")
if(NOT BERTH_EXPECTED_STD)
  string(APPEND BERTH_DEPENDENCIES "find_dependency(tl-expected)\n")
endif()
if(NOT BUILD_SHARED_LIBS)
  string(APPEND BERTH_DEPENDENCIES "find_dependency(Threads)\n")
  if(BERTH_OPENCL)
    string(APPEND BERTH_DEPENDENCIES "find_dependency(OpenCL)\n")
  endif()
endif()

configure_package_config_file(cmake/berth-config.cmake.in ${PROJECT_BINARY_DIR}/berth-config.cmake
                              INSTALL_DESTINATION ${berth_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/berth-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/berth-config.cmake ${PROJECT_BINARY_DIR}/berth-config-version.cmake
        DESTINATION ${berth_package_dir})

# berth_pkg_config(<module> DESCRIPTION <text> LIBS <flags> [REQUIRES <modules>] [PRIVATE <flags>])
#
# The prefix in the file is relative to the file, so the installed tree can be moved.
function(berth_pkg_config module)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESCRIPTION;LIBS;REQUIRES;PRIVATE" "")
  set(pkg_config_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH up_to_prefix ${CMAKE_INSTALL_PREFIX}/${pkg_config_dir} ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" up_to_prefix ${up_to_prefix})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/berth.pc.in ${PROJECT_BINARY_DIR}/${module}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${module}.pc DESTINATION ${pkg_config_dir})
endfunction()

berth_pkg_config(berth DESCRIPTION "${PROJECT_DESCRIPTION}" LIBS -lberth PRIVATE -pthread)
berth_pkg_config(berth-disk DESCRIPTION "The disk backend of berth" LIBS -lberth_disk REQUIRES berth)
if(BERTH_OPENCL)
  berth_pkg_config(berth-opencl DESCRIPTION "The OpenCL backend of berth" LIBS -lberth_opencl REQUIRES berth
                   PRIVATE -lOpenCL)
endif()
if(BERTH_CUDA)
  berth_pkg_config(berth-cuda DESCRIPTION "The CUDA backend of berth" LIBS -lberth_cuda REQUIRES berth PRIVATE -ldl)
endif()
