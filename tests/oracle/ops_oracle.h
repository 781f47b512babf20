// Double-precision texts of the operations, and gradients by central differences. No code in common with the product.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace heed::oracle {

using Array = std::vector<double>;

inline double relu(double x) { return x > 0 ? x : 0; }
inline double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
inline double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}
inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double tanh(double x) { return std::tanh(x); }

inline Array map(const Array& x, double (*f)(double)) {
  Array y;
  for (const double value : x) y.push_back(f(value));
  return y;
}

// (M, K) (K, N) -> (M, N).
inline Array matmul(const Array& a, const Array& b, size_t m, size_t k, size_t n) {
  Array c(m * n, 0.0);
  for (size_t i = 0; i < m; ++i) {
    for (size_t p = 0; p < k; ++p) {
      for (size_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
  }
  return c;
}

inline Array transpose(const Array& a, size_t rows, size_t columns) {
  Array t(a.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

inline Array softmax(const Array& x, size_t columns) {
  Array y(x.size());
  for (size_t row = 0; row < x.size(); row += columns) {
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < columns; ++j) most = std::max(most, x[row + j]);
    for (size_t j = 0; j < columns; ++j) sum += y[row + j] = std::exp(x[row + j] - most);
    for (size_t j = 0; j < columns; ++j) y[row + j] /= sum;
  }
  return y;
}

inline Array log_softmax(const Array& x, size_t columns) {
  Array y = softmax(x, columns);
  for (double& value : y) value = std::log(value);
  return y;
}

inline Array layer_norm(const Array& x, const Array& gain, const Array& bias, double epsilon) {
  const size_t columns = gain.size();
  Array y(x.size());
  for (size_t row = 0; row < x.size(); row += columns) {
    double mean = 0, variance = 0;
    for (size_t j = 0; j < columns; ++j) mean += x[row + j] / static_cast<double>(columns);
    for (size_t j = 0; j < columns; ++j) variance += std::pow(x[row + j] - mean, 2) / static_cast<double>(columns);
    for (size_t j = 0; j < columns; ++j) {
      y[row + j] = (x[row + j] - mean) / std::sqrt(variance + epsilon) * gain[j] + (bias.empty() ? 0.0 : bias[j]);
    }
  }
  return y;
}

inline Array rms_norm(const Array& x, const Array& gain, double epsilon) {
  const size_t columns = gain.size();
  Array y(x.size());
  for (size_t row = 0; row < x.size(); row += columns) {
    double square = 0;
    for (size_t j = 0; j < columns; ++j) square += x[row + j] * x[row + j] / static_cast<double>(columns);
    for (size_t j = 0; j < columns; ++j) y[row + j] = x[row + j] / std::sqrt(square + epsilon) * gain[j];
  }
  return y;
}

// The sum over the rows that are not ignored.
inline double cross_entropy(const Array& logits, const std::vector<int32_t>& targets, size_t columns, int64_t ignored,
                            double smoothing) {
  const Array log_p = log_softmax(logits, columns);
  double loss = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] == ignored) continue;
    double all = 0;
    for (size_t j = 0; j < columns; ++j) all -= log_p[i * columns + j] / static_cast<double>(columns);
    loss += (1 - smoothing) * -log_p[i * columns + static_cast<size_t>(targets[i])] + smoothing * all;
  }
  return loss;
}

// What R-Drop adds: weight / 2 * (KL(p || q) + KL(q || p)) of rows i and i + n/2, summed over the pairs.
inline double divergence(const Array& logits, const std::vector<int32_t>& targets, size_t columns, int64_t ignored,
                         double weight) {
  const Array log_p = log_softmax(logits, columns);
  const size_t half = targets.size() / 2;
  double sum = 0;
  for (size_t i = 0; i < half; ++i) {
    if (targets[i] == ignored) continue;
    for (size_t j = 0; j < columns; ++j) {
      const double p = log_p[i * columns + j], q = log_p[(i + half) * columns + j];
      sum += (std::exp(p) - std::exp(q)) * (p - q);
    }
  }
  return weight / 2 * sum;
}

// d sum(weights * f(x)) / d x.
inline Array gradient(const std::function<Array(const Array&)>& f, Array x, const Array& weights) {
  Array result(x.size());
  const auto value = [&] {
    const Array y = f(x);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    return sum;
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const double before = x[i], step = 1e-5;
    x[i] = before + step;
    const double above = value();
    x[i] = before - step;
    const double below = value();
    x[i] = before;
    result[i] = (above - below) / (2 * step);
  }
  return result;
}

}  // namespace heed::oracle
