// The formula of attention and nothing else: softmax(Q K^T / sqrt(D)) V, in plain loops.
// Run: make examples && build/release/examples/formula
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace formula {

using Matrix = std::vector<std::vector<double>>;  // one row for each token

// Q (L, D), K (S, D), V (S, Dv) -> output (L, Dv). L and S are at least 1.
inline Matrix attention(const Matrix& Q, const Matrix& K, const Matrix& V) {
  Matrix output(Q.size(), std::vector<double>(V[0].size(), 0.0));
  for (size_t i = 0; i < Q.size(); ++i) {
    // 1. The score of each key: its dot product with the query, divided by sqrt(D).
    std::vector<double> w(K.size(), 0.0);
    for (size_t j = 0; j < K.size(); ++j)
      for (size_t d = 0; d < Q[i].size(); ++d) w[j] += Q[i][d] * K[j][d] / std::sqrt(Q[i].size());
    // 2. The softmax turns scores into weights. The largest score is subtracted, so that exp cannot overflow.
    const double largest = *std::max_element(w.begin(), w.end());
    double sum = 0;
    for (double& x : w) sum += x = std::exp(x - largest);
    // 3. The output: the sum of the values, each times its weight.
    for (size_t j = 0; j < V.size(); ++j)
      for (size_t d = 0; d < V[j].size(); ++d) output[i][d] += w[j] / sum * V[j][d];
  }
  return output;
}

}  // namespace formula
