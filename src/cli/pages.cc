#include "cli/pages.h"

#include <fmt/core.h>

#include "cli/console.h"
#include "cli/numbers.h"
#include "heed/error.h"
#include "heed/inspect.h"

namespace heed::cli {
namespace {

constexpr int64_t kLargestPage = 20'000'000;
constexpr int64_t kBytesOfAWeight = 8;  // "0.01234," on pages of sentences of 10 to 100 tokens

}  // namespace

void check_page_size(int64_t weights, std::string_view instead) {
  const int64_t bytes = weights * kBytesOfAWeight;
  if (bytes <= kLargestPage) return;
  throw Error(fmt::format("the page would hold {} weights and take about {}, more than {}; {}, or --force",
                          with_commas(weights), bytes_text(bytes), bytes_text(kLargestPage), instead));
}

void write_page(const std::string& file, const std::string& page, const Context& context) {
  if (const std::string warning = inspect::large_page_warning(page); !warning.empty()) message(context, warning);
  write_result(file, page);
}

}  // namespace heed::cli
