// The Transformer in double precision, one sentence at a time, one loop after the other. Shares no code with the
// product: weights come in as plain numbers under their paths. Counts its multiplications inside matrix products.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace heed::oracle {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  double& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  [[nodiscard]] double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

struct Transformer {
  std::map<std::string, Matrix> weights;  // vectors are one row
  int64_t width = 0, heads = 0, key_value_heads = 0, head_size = 0, value_size = 0;
  int64_t encoder_layers = 0, decoder_layers = 0;
  std::string activation = "relu", positions = "sinusoidal";
  bool pre_norm = false, rms = false, halves = false, scale_embedding = true;
  int64_t first_position = 0, padding_id = -1;
  double epsilon = 1e-5;

  mutable int64_t products = 0;                // multiply-adds so far
  mutable std::map<std::string, Matrix> seen;  // weights of head 0 of each attention, by path

  [[nodiscard]] bool has(const std::string& name) const { return weights.count(name) != 0; }

  // x W^T + b
  [[nodiscard]] Matrix linear(const Matrix& x, const std::string& name) const {
    return multiply(x, weights.at(name + ".weight"), has(name + ".bias") ? &weights.at(name + ".bias") : nullptr);
  }

  [[nodiscard]] Matrix multiply(const Matrix& x, const Matrix& w, const Matrix* bias) const {
    Matrix y(x.rows, w.rows);
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t o = 0; o < w.rows; ++o) {
        double sum = bias != nullptr ? bias->at(0, o) : 0;
        for (int64_t k = 0; k < x.columns; ++k, ++products) sum += x.at(i, k) * w.at(o, k);
        y.at(i, o) = sum;
      }
    }
    return y;
  }

  [[nodiscard]] Matrix norm(const Matrix& x, const std::string& name) const {
    Matrix y = x;
    for (int64_t i = 0; i < x.rows; ++i) {
      double mean = 0, square = 0;
      if (!rms) {
        for (int64_t e = 0; e < x.columns; ++e) mean += x.at(i, e) / static_cast<double>(x.columns);
      }
      for (int64_t e = 0; e < x.columns; ++e) {
        square += (x.at(i, e) - mean) * (x.at(i, e) - mean) / static_cast<double>(x.columns);
      }
      for (int64_t e = 0; e < x.columns; ++e) {
        y.at(i, e) = (x.at(i, e) - mean) / std::sqrt(square + epsilon) * weights.at(name + ".gain").at(0, e);
        if (has(name + ".bias")) y.at(i, e) += weights.at(name + ".bias").at(0, e);
      }
    }
    return y;
  }

  [[nodiscard]] double activate(double x) const {
    if (activation == "relu") return x > 0 ? x : 0;
    if (activation == "gelu") return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    if (activation == "gelu_tanh") {
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    }
    return x / (1 + std::exp(-x));  // silu
  }

  [[nodiscard]] Matrix activated(Matrix x) const {
    for (double& value : x.values) value = activate(value);
    return x;
  }

  [[nodiscard]] Matrix attention(const Matrix& x, const Matrix& memory, bool causal, const std::string& name) const {
    const Matrix q = linear(x, name + ".query"), k = linear(memory, name + ".key"), v = linear(memory, name + ".value");
    Matrix mixed(x.rows, heads * value_size);
    Matrix first(x.rows, memory.rows);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t g = h * key_value_heads / heads;
      for (int64_t i = 0; i < x.rows; ++i) {
        std::vector<double> p(static_cast<size_t>(memory.rows));
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t j = 0; j < memory.rows; ++j) {
          double score = 0;
          for (int64_t d = 0; d < head_size; ++d, ++products) {
            score += q.at(i, h * head_size + d) * k.at(j, g * head_size + d);
          }
          score /= std::sqrt(double(head_size));
          if (positions == "alibi" && name.ends_with("self_attention"))  // heads: a power of two
            score -= std::pow(2.0, -8.0 * double(h + 1) / double(heads)) * std::abs(double(i - j));
          p[static_cast<size_t>(j)] = causal && j > i ? -std::numeric_limits<double>::infinity() : score;
          largest = std::max(largest, p[static_cast<size_t>(j)]);
        }
        for (double& value : p) sum += value = std::exp(value - largest);
        for (int64_t j = 0; j < memory.rows; ++j) {
          const double weight = p[static_cast<size_t>(j)] / sum;
          if (h == 0) first.at(i, j) = weight;
          for (int64_t d = 0; d < value_size; ++d, ++products) {
            mixed.at(i, h * value_size + d) += weight * v.at(j, g * value_size + d);
          }
        }
      }
    }
    seen[name] = first;
    return linear(mixed, name + ".output");
  }

  static Matrix sum(const Matrix& a, const Matrix& b) {
    Matrix y = a;
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += b.values[i];
    return y;
  }

  template <class F>
  [[nodiscard]] Matrix sublayer(const Matrix& x, const std::string& norm_name, F&& f) const {
    return pre_norm ? sum(x, f(norm(x, norm_name))) : norm(sum(x, f(x)), norm_name);
  }

  [[nodiscard]] Matrix layer(Matrix x, const Matrix* memory, bool causal, const std::string& name) const {
    x = sublayer(x, name + ".self_attention_norm",
                 [&](const Matrix& y) { return attention(y, y, causal, name + ".self_attention"); });
    if (memory != nullptr) {
      x = sublayer(x, name + ".cross_attention_norm",
                   [&](const Matrix& y) { return attention(y, *memory, false, name + ".cross_attention"); });
    }
    return sublayer(x, name + ".feed_forward_norm", [&](const Matrix& y) {
      return linear(activated(linear(y, name + ".feed_forward.inner")), name + ".feed_forward.outer");
    });
  }

  [[nodiscard]] double position(int64_t at, int64_t e) const {
    if (halves) {
      const int64_t half = width / 2, i = e % half;
      const double angle = double(at) * std::pow(10000.0, -double(i) / double(half - 1));
      return e < half ? std::sin(angle) : std::cos(angle);
    }
    const double angle = double(at) / std::pow(10000.0, double(e / 2 * 2) / double(width));
    return e % 2 == 0 ? std::sin(angle) : std::cos(angle);
  }

  [[nodiscard]] Matrix embed(const std::vector<int32_t>& ids, const std::string& stack, const Matrix& table) const {
    Matrix x(static_cast<int64_t>(ids.size()), width);
    for (int64_t l = 0; l < x.rows; ++l) {
      for (int64_t e = 0; e < width; ++e) {
        const int32_t id = ids[static_cast<size_t>(l)];
        double value = id == padding_id ? 0 : table.at(id, e);
        if (scale_embedding) value *= std::sqrt(double(width));
        if (positions == "sinusoidal") value += position(first_position + l, e);
        if (positions == "learned") value += weights.at(stack + ".embedding.positions").at(l, e);
        x.at(l, e) = value;
      }
    }
    return has(stack + ".embedding.norm.gain") ? norm(x, stack + ".embedding.norm") : x;
  }

  // The whole stack over ids (L) -> (L, E).
  [[nodiscard]] Matrix run(const std::vector<int32_t>& ids, const std::string& stack, const Matrix& table,
                           int64_t layers, const Matrix* memory, bool causal) const {
    Matrix x = embed(ids, stack, table);
    for (int64_t i = 0; i < layers; ++i) x = layer(x, memory, causal, stack + ".layers." + std::to_string(i));
    return has(stack + ".norm.gain") ? norm(x, stack + ".norm") : x;
  }

  [[nodiscard]] const Matrix& table(const std::string& stack) const {
    return weights.at((has(stack + ".embedding.tokens.weight") ? stack : "encoder") + ".embedding.tokens.weight");
  }

  [[nodiscard]] Matrix logits(const Matrix& x, const std::string& output, const Matrix& tied) const {
    return multiply(x, has(output + ".weight") ? weights.at(output + ".weight") : tied,
                    has(output + ".bias") ? &weights.at(output + ".bias") : nullptr);
  }

  [[nodiscard]] Matrix encode(const std::vector<int32_t>& ids) const {
    return run(ids, "encoder", table("encoder"), encoder_layers, nullptr, false);
  }
  [[nodiscard]] Matrix translate(const std::vector<int32_t>& source, const std::vector<int32_t>& target) const {
    const Matrix memory = encode(source);
    return logits(run(target, "decoder", table("decoder"), decoder_layers, &memory, true), "output", table("decoder"));
  }
  [[nodiscard]] Matrix gpt(const std::vector<int32_t>& ids) const {
    return logits(run(ids, "decoder", table("decoder"), decoder_layers, nullptr, true), "output", table("decoder"));
  }
  [[nodiscard]] Matrix bert(const std::vector<int32_t>& ids) const {
    return logits(norm(activated(linear(encode(ids), "head.dense")), "head.norm"), "head.output", table("encoder"));
  }
};

}  // namespace heed::oracle
