# What makes a first build quick: standard headers that are compiled once for all targets, and several files of a folder
# compiled as one, because the headers take longer than the files. With ccache both are off: it does not keep files that
# use a precompiled header, and after a change it can reuse more where each file is compiled by itself.
if(HEED_CCACHE)
  set(first_build OFF)
else()
  set(first_build ON)
endif()
option(HEED_PRECOMPILED_HEADERS "Compile standard headers once" ${first_build})
option(HEED_UNITY_BUILD "Compile the files of a folder several at a time" ${first_build})

set(HEED_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <optional>
  <span> <sstream> <string> <string_view> <utility> <vector>)

function(heed_precompile target)
  if(HEED_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} PRIVATE ${HEED_STANDARD_HEADERS} ${ARGN})
  endif()
endfunction()

# heed_compile_together(TARGET FILES): up to FILES files at a time. Sources that are compiled once for each instruction
# set, or that replace operator new, stay by themselves.
function(heed_compile_together target files)
  if(NOT HEED_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    file(STRINGS ${source} alone REGEX "foreach_target|operator new" LIMIT_COUNT 1)
    if(alone)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()
