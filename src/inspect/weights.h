// What the writers share: weights checked and made plain, and their tokens.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "heed/tensor.h"

namespace heed::inspect {

// Weights (L, S) as contiguous f32, with one name a row and a column.
struct Head {
  Tensor weights;
  std::vector<std::string> rows;
  std::vector<std::string> columns;

  [[nodiscard]] int64_t row_count() const { return weights.size(0); }
  [[nodiscard]] int64_t column_count() const { return weights.size(1); }
  [[nodiscard]] const float* row(int64_t i) const { return weights.data<float>() + i * column_count(); }
};

// Throws Error("[function] ...") unless weights is (L, S) and the names are none or as many as rows and columns.
[[nodiscard]] Head check_head(std::string_view function, const Tensor& weights, const std::vector<std::string>& rows,
                              const std::vector<std::string>& columns);

// 4 significant digits, at most 6 decimals; "null" for what is not finite.
void append_weight(std::string& out, float weight);
void append_json_strings(std::string& out, const std::vector<std::string>& texts);  // ["a","b"]
void append_json_rows(std::string& out, const Head& head);                          // [[0.1,0.9],[1,0]]

}  // namespace heed::inspect
