#include "cli/pages.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "cli/console.h"
#include "cli/numbers.h"
#include "cli/options.h"
#include "heed/error.h"
#include "heed/inspect.h"

namespace heed::cli {
namespace {

constexpr int64_t kBytesOfAWeight = 8;  // "0.01234," on pages of sentences of 10 to 100 tokens
constexpr int64_t kLargestPage = inspect::kWeightsOfAPage * kBytesOfAWeight;
constexpr int64_t kBytesOfAZero = 2;  // "0,"

}  // namespace

void check_page_size(int64_t weights, int64_t masked, std::string_view instead) {
  const int64_t bytes = (weights - masked) * kBytesOfAWeight + masked * kBytesOfAZero;
  if (bytes <= kLargestPage) return;
  const bool possible = weights <= inspect::kMostWeights;  // with --force
  throw Error(fmt::format("the page would hold {} weights and take about {}, more than {}; {}{}", with_commas(weights),
                          bytes_text(bytes), bytes_text(kLargestPage), instead, possible ? ", or --force" : ""));
}

void check_page_name(const char* option, const std::string& file) {
  const std::string ending = std::filesystem::path(file).extension().string();
  if (file.empty() || file == "-" || ending == ".html" || ending == ".htm") return;
  const bool picture = ending == ".svg" || ending == ".png";
  throw UsageError(fmt::format("{} takes a name that ends in .html, or -; found {}{}", option, in_quotes(file),
                               picture ? fmt::format(" (--{} draws one head)", ending.substr(1)) : ""));
}

int64_t pixels_of_a_weight(int64_t rows, int64_t columns) {
  constexpr int64_t kMost = 16, kSide = 4096;
  return std::clamp<int64_t>(kSide / std::max<int64_t>({rows, columns, 1}), 1, kMost);
}

void write_page(const std::string& file, const std::string& page, const Context& context) {
  if (const std::string warning = inspect::large_page_warning(page); !warning.empty()) message(context, warning);
  write_result(file, page);
}

}  // namespace heed::cli
