// How large a page of attention may become.
#pragma once

#include <cstdint>
#include <string_view>

namespace heed::cli {

// Throws Error, with what to do instead, where a page of so many weights would take more than 20 MB.
void check_page_size(int64_t weights, std::string_view instead);

}  // namespace heed::cli
