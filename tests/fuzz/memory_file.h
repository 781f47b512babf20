// One file whose bytes lie in memory, for a fuzzer: open(), fstat(), pread(), mmap() and the rest answer for it without
// the system. Writing each input takes as long as many a parser takes to read it; and bytes in the heap have
// AddressSanitizer's guards at both ends, which bytes of a mapped page lack.
#pragma once

#include <string_view>

#include "fuzz/target.h"

namespace heed::fuzz {

// From now on `file` has these bytes, which must live until the next call. It should exist, because the system answers
// the questions whether it does.
void serve_from_memory(const Path& file, std::string_view contents);
// Ends the program where nobody opened the file since then, or where it is still open or mapped.
void require_all_returned();

}  // namespace heed::fuzz
