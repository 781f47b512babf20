// Functions that score functions are made of are always inlined: a call would move vectors through memory.
#pragma once

#define HEED_INLINE inline __attribute__((always_inline))
