// One head for a terminal: each row's strongest columns.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "heed/error.h"
#include "heed/inspect.h"
#include "inspect/utf8.h"
#include "inspect/weights.h"

namespace heed::inspect {
namespace {

constexpr int64_t kLongestName = 20;

std::string padded(std::string text, int64_t width) {
  text.append(static_cast<size_t>(std::max<int64_t>(0, width - terminal_width(text))), ' ');
  return text;
}

int64_t widest_name(const std::vector<std::string>& names) {
  int64_t width = 1;
  for (const std::string& name : names) width = std::max(width, terminal_width(label(name, kLongestName)));
  return width;
}

}  // namespace

std::string to_text(const Tensor& weights, const std::vector<std::string>& rows,
                    const std::vector<std::string>& columns, int64_t top) {
  const Head head = check_head("inspect::to_text", weights, rows, columns);
  require(top > 0, "inspect::to_text", "at least one column to show; found ", top);
  const int64_t row_width = widest_name(head.rows), column_width = widest_name(head.columns);
  std::vector<int64_t> order(static_cast<size_t>(head.column_count()));
  std::string out;
  for (int64_t i = 0; i < head.row_count(); ++i) {
    const float* row = head.row(i);
    // NaN first: it is what the reader must see. Equal weights in the order of the columns.
    const auto key = [row](int64_t j) { return std::isnan(row[j]) ? INFINITY : row[j]; };
    std::iota(order.begin(), order.end(), 0);
    const auto shown = order.begin() + std::min(top, head.column_count());
    std::partial_sort(order.begin(), shown, order.end(),
                      [&](int64_t a, int64_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    out += padded(label(head.rows[static_cast<size_t>(i)], kLongestName), row_width);
    for (auto j = order.begin(); j != shown; ++j) {
      if (row[*j] == 0) break;
      char amount[32];
      std::snprintf(amount, sizeof amount, "%.3f", static_cast<double>(row[*j]));
      out += "  " + std::string(amount) + " " +
             padded(label(head.columns[static_cast<size_t>(*j)], kLongestName), column_width);
    }
    while (out.back() == ' ') out.pop_back();
    out += '\n';
  }
  return out;
}

}  // namespace heed::inspect
