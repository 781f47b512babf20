# `cmake --install`: the library, its headers, the program, a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

set(HEED_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
# From the .pc file up to the prefix, so that an installed tree may be moved.
file(RELATIVE_PATH HEED_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)

# heed_install(TARGET [COMPONENT name EXCLUDE_FROM_ALL]): a library and what finds it.
function(heed_install target)
  set(generated ${PROJECT_BINARY_DIR}/package/${target})
  set(HEED_TARGETS ${target}Targets)  # one name for each: CMake prepares both in one folder
  install(TARGETS ${target} EXPORT ${target}Targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} ${ARGN}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ${ARGN})
  install(DIRECTORY include/heed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${ARGN} FILES_MATCHING PATTERN "*.h")
  install(EXPORT ${target}Targets NAMESPACE heed:: DESTINATION ${HEED_PACKAGE_DIR} ${ARGN})
  get_target_property(HEED_LIBRARY_TYPE ${target} TYPE)
  configure_package_config_file(cmake/heedConfig.cmake.in ${generated}/heedConfig.cmake
    INSTALL_DESTINATION ${HEED_PACKAGE_DIR})
  write_basic_package_version_file(${generated}/heedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${generated}/heedConfig.cmake ${generated}/heedConfigVersion.cmake DESTINATION ${HEED_PACKAGE_DIR} ${ARGN})

  # A shared library carries its own dependencies; a static one hands them to whoever links it.
  if(HEED_LIBRARY_TYPE STREQUAL "STATIC_LIBRARY")
    string(JOIN " " HEED_PC_LIBS -Wl,--exclude-libs,libheed.a -lsentencepiece_train -lsentencepiece -lhwy -lpng -lz -lutf8proc
      -lpcre2-8 -ltomlplusplus -lpthread)
  endif()
  configure_file(cmake/heed.pc.in ${generated}/heed.pc @ONLY)
  install(FILES ${generated}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${ARGN})
endfunction()

heed_install(heed)
if(TARGET heed_program)
  install(TARGETS heed_program DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET heed_mpi)  # what heed loads where mpirun has started it
  install(TARGETS heed_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/heed)
endif()
if(TARGET heed_shared)  # beside a static heed, for the tests: cmake --install ... --component shared
  heed_install(heed_shared COMPONENT shared EXCLUDE_FROM_ALL)
endif()
