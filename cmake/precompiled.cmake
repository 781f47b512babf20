# heed_precompile(TARGET [HEADERS...]) compiles the standard headers that most files include once for the target, which
# saves half a second a file. With ccache they are left alone: it keeps no file that uses a precompiled header unless it
# is told to be sloppy.
if(HEED_CCACHE)
  option(HEED_PRECOMPILED_HEADERS "Compile standard headers once" OFF)
else()
  option(HEED_PRECOMPILED_HEADERS "Compile standard headers once" ON)
endif()

set(HEED_STANDARD_HEADERS <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <optional>
  <span> <sstream> <string> <string_view> <utility> <vector>)

function(heed_precompile target)
  if(HEED_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} PRIVATE ${HEED_STANDARD_HEADERS} ${ARGN})
  endif()
endfunction()
