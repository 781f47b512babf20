// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace heed {

[[nodiscard]] std::string with_commas(int64_t number);  // "12,345,678"

}  // namespace heed
