# `cmake --install`: the library, its headers, the program, a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

set(HEED_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
install(TARGETS heed EXPORT heedTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/heed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET heed_program)
  install(TARGETS heed_program DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION ${HEED_PACKAGE_DIR})
get_target_property(HEED_LIBRARY_TYPE heed TYPE)
configure_package_config_file(cmake/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
  INSTALL_DESTINATION ${HEED_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
  DESTINATION ${HEED_PACKAGE_DIR})

# A shared library carries its own dependencies; a static one hands them to whoever links it.
set(HEED_PC_PRIVATE "-lsentencepiece -lhwy -lpng -lz -lutf8proc -lgomp -lpthread")
if(HEED_LIBRARY_TYPE STREQUAL "STATIC_LIBRARY")
  set(HEED_PC_LIBS ${HEED_PC_PRIVATE})
endif()
# From the .pc file up to the prefix, so that an installed tree may be moved.
file(RELATIVE_PATH HEED_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/heed.pc.in ${PROJECT_BINARY_DIR}/heed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
