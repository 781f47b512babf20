#include "models/pooling.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "models/bert_head.h"

namespace heed::models {
namespace {

// The weight of token l in a sum over the tokens.
double weight_of(TokenPooling pooling, int64_t l, int64_t length) {
  const auto count = static_cast<double>(length);
  switch (pooling) {
    case TokenPooling::mean: return 1 / count;
    case TokenPooling::mean_by_root: return 1 / std::sqrt(count);
    case TokenPooling::weighted_mean: return 2 * static_cast<double>(l + 1) / (count * (count + 1));
    case TokenPooling::first: return l == 0 ? 1 : 0;
    case TokenPooling::last: return l == length - 1 ? 1 : 0;
    case TokenPooling::largest: break;
  }
  fail("pooled_states", "a pooling that is a sum of states; found the largest number");
}

// One pooling of states (length, width), in one order of additions.
void pool(TokenPooling pooling, const float* states, int64_t length, int64_t width, float* out) {
  if (length == 0) return;
  const auto row = [&](int64_t l) { return states + l * width; };
  if (pooling == TokenPooling::first || pooling == TokenPooling::last) {
    std::copy_n(row(pooling == TokenPooling::first ? 0 : length - 1), width, out);
    return;
  }
  if (pooling == TokenPooling::largest) {
    std::copy_n(row(0), width, out);
    for (int64_t l = 1; l < length; ++l) {
      for (int64_t e = 0; e < width; ++e) out[e] = std::max(out[e], row(l)[e]);
    }
    return;
  }
  const bool weighted = pooling == TokenPooling::weighted_mean;
  const auto count = static_cast<double>(length);
  const double share = weighted ? 2 / (count * (count + 1)) : 1 / std::sqrt(count);
  for (int64_t e = 0; e < width; ++e) {
    double sum = 0;
    for (int64_t l = 0; l < length; ++l) {
      sum += static_cast<double>(row(l)[e]) * (weighted ? static_cast<double>(l + 1) : 1.0);
    }
    out[e] = static_cast<float>(sum * share);
  }
}

// d_out (width) -> adds to d_states (length, width).
void pool_backward(TokenPooling pooling, const float* states, const float* d_out, int64_t length, int64_t width,
                   float* d_states) {
  if (pooling == TokenPooling::largest) {
    for (int64_t e = 0; e < width && length > 0; ++e) {
      int64_t largest = 0;  // the first of equal ones
      for (int64_t l = 1; l < length; ++l) {
        if (states[l * width + e] > states[largest * width + e]) largest = l;
      }
      d_states[largest * width + e] += d_out[e];
    }
    return;
  }
  for (int64_t l = 0; l < length; ++l) {
    const auto weight = static_cast<float>(weight_of(pooling, l, length));
    if (weight == 0) continue;
    for (int64_t e = 0; e < width; ++e) d_states[l * width + e] += weight * d_out[e];
  }
}

Tensor pooled_side_by_side(const Tensor& all, const Tensor& lengths, std::span<const TokenPooling> poolings) {
  const int64_t batch = all.size(0), longest = all.size(1), width = all.size(2);
  const auto count = std::ssize(poolings);
  const Tensor rows = Tensor::zeros({batch, width * count});
  const NoGradScope no_grad;
  const Tensor means = mean_of_states(Value(all), lengths).data();
  for (int64_t b = 0; b < batch; ++b) {
    const auto length = static_cast<int64_t>(lengths.at({b}));
    for (int64_t p = 0; p < count; ++p) {
      float* const out = rows.data<float>() + (b * count + p) * width;
      const TokenPooling pooling = poolings[static_cast<size_t>(p)];
      if (pooling == TokenPooling::mean) {
        std::copy_n(means.data<float>() + b * width, width, out);
      } else {
        pool(pooling, all.data<float>() + b * longest * width, length, width, out);
      }
    }
  }
  return rows;
}

}  // namespace

Value pooled_states(const Value& x, const Tensor& lengths, std::span<const TokenPooling> poolings) {
  if (poolings.size() == 1 && poolings[0] == TokenPooling::mean) return mean_of_states(x, lengths);
  const Tensor all = x.data().contiguous();
  return Value::record(pooled_side_by_side(all, lengths, poolings), {x},
                       [=, kinds = std::vector<TokenPooling>(poolings.begin(), poolings.end())](const Tensor& d_rows) {
                         const int64_t longest = all.size(1), width = all.size(2);
                         const auto count = std::ssize(kinds);
                         const Tensor d_states = Tensor::zeros(all.shape());
                         for (int64_t b = 0; b < all.size(0); ++b) {
                           for (int64_t p = 0; p < count; ++p) {
                             pool_backward(kinds[static_cast<size_t>(p)], all.data<float>() + b * longest * width,
                                           d_rows.data<float>() + (b * count + p) * width,
                                           static_cast<int64_t>(lengths.at({b})), width,
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
