// The taps, computed from all weights exactly as they are defined. f32 or f64.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "attention/observe/taps.h"

namespace heed::reference {
namespace {

template <class T>
AttentionTapped taps(const Tensor& weights, const Tensor& scores, const AttentionTaps& wanted) {
  const int64_t B = weights.size(0), H = weights.size(1), L = weights.size(2), S = weights.size(3);
  const DType dtype = dtype_of<T>::value;
  const T* const all = weights.data<T>();
  const auto row_of = [&](int64_t b, int64_t h, int64_t i) { return all + ((b * H + h) * L + i) * S; };
  AttentionTapped result;
  if (wanted.entropy) {
    result.entropy = Tensor::zeros({B, H, L}, dtype);
    for (int64_t n = 0; n < B * H * L * S; ++n) {
      if (all[n] != 0) result.entropy.data<T>()[n / S] -= all[n] * std::log(all[n]);
    }
  }
  if (wanted.top_k > 0) {
    result.top_keys = Tensor::empty({B, H, L, wanted.top_k}, DType::i32);
    std::fill_n(result.top_keys.data<int32_t>(), result.top_keys.numel(), -1);
    result.top_weights = Tensor::zeros({B, H, L, wanted.top_k}, dtype);
    for (int64_t r = 0; r < B * H * L; ++r) {
      std::vector<int32_t> keys(static_cast<size_t>(S));
      std::iota(keys.begin(), keys.end(), 0);
      const T* const w = all + r * S;
      keys.erase(std::remove_if(keys.begin(), keys.end(), [&](int32_t j) { return !(w[j] > 0); }), keys.end());
      std::stable_sort(keys.begin(), keys.end(), [&](int32_t a, int32_t b) { return w[a] > w[b]; });
      for (size_t n = 0; n < std::min(keys.size(), static_cast<size_t>(wanted.top_k)); ++n) {
        const int64_t at = r * wanted.top_k + static_cast<int64_t>(n);
        result.top_keys.data<int32_t>()[at] = keys[n];
        result.top_weights.data<T>()[at] = w[keys[n]];
      }
    }
  }
  if (wanted.column_sums) {
    result.column_sums = Tensor::zeros({B, H, S}, dtype);
    for (int64_t n = 0; n < B * H * L * S; ++n) result.column_sums.data<T>()[n / (L * S) * S + n % S] += all[n];
  }
  if (wanted.map.rows > 0) {
    const int64_t rows = wanted.map.rows, columns = wanted.map.columns;
    result.map = Tensor::zeros({B, H, rows, columns}, dtype);
    for (int64_t n = 0; n < result.map.numel(); ++n) {
      const int64_t c = n % columns, r = n / columns % rows, head = n / columns / rows;
      T& cell = result.map.data<T>()[n];
      int64_t count = 0;
      for (int64_t i = r * L / rows; i < (r + 1) * L / rows; ++i) {
        for (int64_t j = c * S / columns; j < (c + 1) * S / columns; ++j, ++count) {
          const T w = row_of(0, head, i)[j];
          cell = !wanted.map.largest ? cell + w : w > cell ? w : cell;
        }
      }
      if (!wanted.map.largest) cell /= static_cast<T>(count);
    }
  }
  if (!wanted.rows.empty()) {
    const auto count = static_cast<int64_t>(wanted.rows.size());
    result.rows = Tensor::empty({B, count, S}, dtype);
    if (wanted.row_scores) result.row_scores = Tensor::empty({B, count, S}, dtype);
    for (int64_t n = 0; n < B * count; ++n) {
      const AttentionTaps::Row& row = wanted.rows[static_cast<size_t>(n % count)];
      const T* const from = row_of(n / count, row.head, row.query);
      std::copy_n(from, S, result.rows.data<T>() + n * S);
      if (wanted.row_scores) std::copy_n(scores.data<T>() + (from - all), S, result.row_scores.data<T>() + n * S);
    }
  }
  return result;
}

}  // namespace

AttentionTapped taps_of(const Tensor& weights, const Tensor& scores, const AttentionTaps& wanted) {
  return weights.dtype() == DType::f64 ? taps<double>(weights, scores, wanted) : taps<float>(weights, scores, wanted);
}

}  // namespace heed::reference
