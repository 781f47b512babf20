# Every folder of src/ is a library of its own, so that tests of a lower rank build without the higher ones.
# heed_folder(NAME LIBRARIES...) makes heed_NAME of src/NAME/*.cc.

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

set(HEED_WARNINGS -Wall -Wextra -Wconversion -Wshadow)
if(HEED_WERROR)
  list(APPEND HEED_WARNINGS -Werror)
endif()

add_library(heed_flags INTERFACE)
target_compile_options(heed_flags INTERFACE
  ${HEED_WARNINGS}
  -ffp-contract=off          # only explicit fused multiply-adds: the bits must not depend on the compiler
  -fopenmp-simd              # loops that are marked become vectors
  -fvisibility=hidden        # except for what public headers declare (heed/export.h)
  -fno-semantic-interposition)  # functions of heed call each other directly, in a shared library too
if(HEED_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overruns in std::string's + that are none (its bug 105329), and says so where <string> is precompiled.
  target_compile_options(heed_flags INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
target_compile_features(heed_flags INTERFACE cxx_std_20)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  target_compile_options(heed_flags INTERFACE -march=armv8-a+crypto)  # what Highway compiles its NEON code for
endif()
# Highway's targets: AVX-512, AVX2 and the baseline (HWY_EMU128: our portable path). In f32 more would bring nothing.
target_compile_definitions(heed_flags INTERFACE "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL)")
if(HEED_SANITIZE)
  target_compile_options(heed_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  # With the sanitizers GCC 12 takes two things for mistakes: that a test which counts allocations replaces operator new,
  # and, in <regex>, a std::function that it thinks uninitialised (its bug 105562).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(heed_flags INTERFACE -Wno-mismatched-new-delete -Wno-maybe-uninitialized)
  endif()
  target_link_options(heed_flags INTERFACE -fsanitize=address,undefined)
endif()
if(HEED_PORTABLE_ONLY)
  target_compile_definitions(heed_flags INTERFACE HEED_PORTABLE_ONLY HWY_COMPILE_ONLY_STATIC)
endif()

function(heed_folder name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/plugin/")  # a plugin is a library of its own
  if(NOT sources)
    add_library(heed_${name} INTERFACE)
    target_link_libraries(heed_${name} INTERFACE ${ARGN})
    return()
  endif()
  add_library(heed_${name} STATIC ${sources})
  target_include_directories(heed_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(heed_${name} PRIVATE heed_flags PUBLIC ${ARGN})
  # One precompiled header for all folders: they have the same flags.
  if(name STREQUAL "base")
    heed_precompile(heed_base)
  elseif(HEED_PRECOMPILED_HEADERS)
    target_precompile_headers(heed_${name} REUSE_FROM heed_base)
  endif()
  heed_compile_together(heed_${name} 8)
  set_property(GLOBAL APPEND PROPERTY HEED_FOLDERS heed_${name})
endfunction()
