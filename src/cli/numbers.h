// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "base/numbers.h"

namespace heed::cli {

[[nodiscard]] std::string bytes_text(int64_t bytes);                                  // "1.50 GB"
[[nodiscard]] std::string duration_text(double seconds);                              // "2:03:04" or "3:04"
[[nodiscard]] std::string counted(int64_t count, const char* one, const char* more);  // "1 model", "2 models"

}  // namespace heed::cli
