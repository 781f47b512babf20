#include "models/pooling.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "models/bert_head.h"

namespace heed::models {
namespace {

// The tokens of a text that are pooled.
struct Range {
  int64_t begin, end;
  [[nodiscard]] bool empty() const { return begin >= end; }
};

// The factor of a sum over these tokens.
double share_of(TokenPooling pooling, Range tokens) {
  const auto count = static_cast<double>(tokens.end - tokens.begin);
  if (pooling == TokenPooling::mean_by_root) return 1 / std::sqrt(count);
  if (pooling == TokenPooling::mean) return 1 / count;
  const auto begin = static_cast<double>(tokens.begin), end = static_cast<double>(tokens.end);
  return 2 / (end * (end + 1) - begin * (begin + 1));  // of 1, 2, 3, ...
}

// The weight of token l in a sum over the tokens.
double weight_of(TokenPooling pooling, int64_t l, Range tokens) {
  switch (pooling) {
    case TokenPooling::mean:
    case TokenPooling::mean_by_root: return share_of(pooling, tokens);
    case TokenPooling::weighted_mean: return static_cast<double>(l + 1) * share_of(pooling, tokens);
    case TokenPooling::first: return l == tokens.begin ? 1 : 0;
    case TokenPooling::last: return l == tokens.end - 1 ? 1 : 0;
    case TokenPooling::largest: break;
  }
  fail("pooled_states", "a pooling that is a sum of states; found the largest number");
}

// One pooling of states (L, width), in one order of additions.
void pool(TokenPooling pooling, const float* states, Range tokens, int64_t width, float* out) {
  if (tokens.empty()) return;
  const auto row = [&](int64_t l) { return states + l * width; };
  if (pooling == TokenPooling::first || pooling == TokenPooling::last) {
    std::copy_n(row(pooling == TokenPooling::first ? tokens.begin : tokens.end - 1), width, out);
    return;
  }
  if (pooling == TokenPooling::largest) {
    std::copy_n(row(tokens.begin), width, out);
    for (int64_t l = tokens.begin + 1; l < tokens.end; ++l) {
      for (int64_t e = 0; e < width; ++e) out[e] = std::max(out[e], row(l)[e]);
    }
    return;
  }
  const bool weighted = pooling == TokenPooling::weighted_mean;
  const double share = share_of(pooling, tokens);
  for (int64_t e = 0; e < width; ++e) {
    double sum = 0;
    for (int64_t l = tokens.begin; l < tokens.end; ++l) {
      sum += static_cast<double>(row(l)[e]) * (weighted ? static_cast<double>(l + 1) : 1.0);
    }
    out[e] = static_cast<float>(sum * share);
  }
}

// d_out (width) -> adds to d_states (L, width).
void pool_backward(TokenPooling pooling, const float* states, const float* d_out, Range tokens, int64_t width,
                   float* d_states) {
  if (pooling == TokenPooling::largest) {
    for (int64_t e = 0; e < width && !tokens.empty(); ++e) {
      int64_t largest = tokens.begin;  // the first of equal ones
      for (int64_t l = tokens.begin + 1; l < tokens.end; ++l) {
        if (states[l * width + e] > states[largest * width + e]) largest = l;
      }
      d_states[largest * width + e] += d_out[e];
    }
    return;
  }
  for (int64_t l = tokens.begin; l < tokens.end; ++l) {
    const auto weight = static_cast<float>(weight_of(pooling, l, tokens));
    if (weight == 0) continue;
    for (int64_t e = 0; e < width; ++e) d_states[l * width + e] += weight * d_out[e];
  }
}

Range tokens_of(const Tensor& lengths, int64_t text, int64_t skipped) {
  return {.begin = skipped, .end = static_cast<int64_t>(lengths.at({text}))};
}

Tensor pooled_side_by_side(const Tensor& all, const Tensor& lengths, std::span<const TokenPooling> poolings,
                           int64_t skipped) {
  const int64_t batch = all.size(0), longest = all.size(1), width = all.size(2);
  const auto count = std::ssize(poolings);
  const Tensor rows = Tensor::zeros({batch, width * count});
  const NoGradScope no_grad;
  const Tensor means = skipped == 0 ? mean_of_states(Value(all), lengths).data() : Tensor();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t p = 0; p < count; ++p) {
      float* const out = rows.data<float>() + (b * count + p) * width;
      const TokenPooling pooling = poolings[static_cast<size_t>(p)];
      if (pooling == TokenPooling::mean && skipped == 0) {
        std::copy_n(means.data<float>() + b * width, width, out);
      } else {
        pool(pooling, all.data<float>() + b * longest * width, tokens_of(lengths, b, skipped), width, out);
      }
    }
  }
  return rows;
}

}  // namespace

Value pooled_states(const Value& x, const Tensor& lengths, std::span<const TokenPooling> poolings, int64_t skipped) {
  if (poolings.size() == 1 && poolings[0] == TokenPooling::mean && skipped == 0) return mean_of_states(x, lengths);
  const Tensor all = x.data().contiguous();
  return Value::record(pooled_side_by_side(all, lengths, poolings, skipped), {x},
                       [=, kinds = std::vector<TokenPooling>(poolings.begin(), poolings.end())](const Tensor& d_rows) {
                         const int64_t longest = all.size(1), width = all.size(2);
                         const auto count = std::ssize(kinds);
                         const Tensor d_states = Tensor::zeros(all.shape());
                         for (int64_t b = 0; b < all.size(0); ++b) {
                           for (int64_t p = 0; p < count; ++p) {
                             pool_backward(kinds[static_cast<size_t>(p)], all.data<float>() + b * longest * width,
                                           d_rows.data<float>() + (b * count + p) * width,
                                           tokens_of(lengths, b, skipped), width,
                                           d_states.data<float>() + b * longest * width);
                           }
                         }
                         return std::vector<Tensor>{d_states};
                       });
}

Value unit_rows(const Value& x) {
  constexpr double kLeast = 1e-12;
  const Tensor from = x.data().contiguous(), unit = Tensor::empty(from.shape());
  const int64_t rows = from.size(0), width = from.size(1);
  std::vector<double> lengths(static_cast<size_t>(rows));
  for (int64_t b = 0; b < rows; ++b) {
    const float* const in = from.data<float>() + b * width;
    double squares = 0;
    for (int64_t e = 0; e < width; ++e) squares += static_cast<double>(in[e]) * static_cast<double>(in[e]);
    const double length = lengths[static_cast<size_t>(b)] = std::max(std::sqrt(squares), kLeast);
    for (int64_t e = 0; e < width; ++e) {
      unit.data<float>()[b * width + e] = static_cast<float>(static_cast<double>(in[e]) / length);
    }
  }
  return Value::record(unit, {x}, [=](const Tensor& d_unit) {
    const Tensor d = Tensor::empty(unit.shape());
    for (int64_t b = 0; b < rows; ++b) {
      const float *const y = unit.data<float>() + b * width, *const g = d_unit.data<float>() + b * width;
      double along = 0;  // the part that would change the length alone
      for (int64_t e = 0; e < width; ++e) along += static_cast<double>(y[e]) * static_cast<double>(g[e]);
      const double length = lengths[static_cast<size_t>(b)];
      if (length <= kLeast) along = 0;  // divided by a constant
      for (int64_t e = 0; e < width; ++e) {
        d.data<float>()[b * width + e] =
            static_cast<float>((static_cast<double>(g[e]) - along * static_cast<double>(y[e])) / length);
      }
    }
    return std::vector<Tensor>{d};
  });
}

}  // namespace heed::models
