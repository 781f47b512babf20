#include "serve/heads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace heed::serve {
namespace {

struct Share {
  double sum = 0;
  int64_t rows = 0;
  void add(double weight) {
    sum += weight;
    ++rows;
  }
  [[nodiscard]] double mean() const { return rows > 0 ? sum / static_cast<double>(rows) : 0; }
};

}  // namespace

HeadName name_head(const Tensor& weights, std::string_view part, const Ids& rows) {
  constexpr double kClear = 0.5, kEven = 0.93, kBeside = 1.5;
  const int64_t count = weights.size(0), columns = weights.size(1);
  const bool self = part != "cross", decoder = part == "decoder";
  if (count < 2 || columns < 3) return {};
  Share previous, next, same, first, end, diagonal, induction;
  double entropy = 0, most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = weights.data<float>() + i * columns;
    const int64_t seen = decoder ? i + 1 : columns;
    double total = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const double w = static_cast<double>(row[j]);
      total += w;
      if (w > 0) entropy -= w * std::log2(w);
    }
    if (!(total > 0)) continue;  // a row that attends to nothing
    most += std::log2(static_cast<double>(seen));
    const auto at = [&](int64_t j) { return static_cast<double>(row[j]); };
    if (self) {
      if (i > 0) previous.add(at(i - 1));
      if (i + 1 < columns && !decoder) next.add(at(i + 1));
      if (!decoder || i > 0) same.add(at(i));
    }
    if (!decoder || i > 0) first.add(at(0));
    if (!decoder) end.add(at(columns - 1));
    if (!self) {
      const double line = static_cast<double>(i * (columns - 1)) / static_cast<double>(count - 1);
      double near = 0, even = 0;
      for (int64_t j = 0; j < columns; ++j) {
        if (std::abs(static_cast<double>(j) - line) > kBeside) continue;
        near += at(j);
        even += 1 / static_cast<double>(columns);
      }
      diagonal.add((near - even) / std::max(1 - even, 1e-9));
    }
    if (decoder) {
      double copies = 0;
      bool any = false;
      for (int64_t j = 1; j < i; ++j) {
        if (rows[static_cast<size_t>(j - 1)] != rows[static_cast<size_t>(i)]) continue;
        copies += at(j);
        any = true;
      }
      if (any) induction.add(copies);
    }
  }
  const std::array<std::pair<const char*, double>, 7> shares = {{{"previous", previous.mean()},
                                                                 {"next", next.mean()},
                                                                 {"same", same.mean()},
                                                                 {"first", first.mean()},
                                                                 {"end", end.mean()},
                                                                 {"induction", induction.mean()},
                                                                 {"diagonal", diagonal.mean()}}};
  HeadName best;
  for (const auto& [name, share] : shares)
    if (share > best.measure) best = {.name = name, .measure = share};
  const double even = most > 0 ? entropy / most : 0;
  if (even > kEven) return {.name = "broad", .measure = even};
  if (best.measure <= kClear) best.name.clear();
  return best;
}

}  // namespace heed::serve
