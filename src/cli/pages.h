// The name of a page of attention, and how large it may become.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::cli {

struct Context;

// Throws UsageError unless the file that `option` names ends in .html, or is "-" or empty.
void check_page_name(const char* option, const std::string& file);
// The pixels of a weight in a PNG: 16, and fewer in a large picture, which stays within 4,096 a side where it can.
[[nodiscard]] int64_t pixels_of_a_weight(int64_t rows, int64_t columns);
// Throws Error where a page of so many weights would take more than 20 MB; it says what to do `instead`. `masked` of
// the weights are 0, which take less.
void check_page_size(int64_t weights, int64_t masked, std::string_view instead);
// Writes a page, after a message about its size where it is large all the same.
void write_page(const std::string& file, const std::string& page, const Context& context);

}  // namespace heed::cli
