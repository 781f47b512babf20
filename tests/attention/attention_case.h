// Random attention problems for the tests: tensors and options for heed, the same as plain arrays for the oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/cpu.h"
#include "oracle/attention_oracle.h"

namespace heed::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }
  int64_t integer(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double p) { return uniform(0, 1) < p; }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[integer(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  Tensor tensor(const Shape& shape, double spread = 1) {
    Tensor t = Tensor::empty(shape);
    for (int64_t n = 0; n < t.numel(); ++n) t.data<float>()[n] = static_cast<float>(uniform(-spread, spread));
    return t;
  }

 private:
  std::mt19937_64 engine_;
};

inline std::vector<double> to_doubles(const Tensor& tensor) {
  const Tensor dense = tensor.to(DType::f64).contiguous();
  return {dense.data<double>(), dense.data<double>() + dense.numel()};
}

struct Problem {
  Tensor q, k, v, d_out;
  AttentionOptions options;
};

inline double realised_dropout(const AttentionOptions::Dropout& dropout, int64_t b, int64_t h, int64_t i, int64_t j) {
  return attention_dropout_keeps(dropout, b, h, i, j) ? 1 / (1 - static_cast<double>(dropout.rate)) : 0.0;
}

// `causal` and `offset` are given beside the options, which keep theirs to themselves.
inline oracle::AttentionCase oracle_case(const Problem& p, oracle::AttentionCase::Causal causal, int64_t offset) {
  oracle::AttentionCase c;
  const AttentionOptions& o = p.options;
  c.B = p.q.size(0), c.H = p.q.size(1), c.L = p.q.size(2), c.D = p.q.size(3);
  c.Hkv = p.k.size(1), c.S = p.k.size(2), c.Dv = p.v.size(3);
  c.q = to_doubles(p.q), c.k = to_doubles(p.k), c.v = to_doubles(p.v);
  if (p.d_out.defined()) c.d_out = to_doubles(p.d_out);
  c.scale = o.scale ? static_cast<double>(*o.scale) : 1 / std::sqrt(static_cast<double>(c.D));
  c.softcap = static_cast<double>(o.softcap);
  c.causal = causal;
  c.causal_offset = offset;
  c.left = o.window.left, c.right = o.window.right;
  const Shape scores{c.B, c.H, c.L, c.S};
  if (o.key_lengths.defined()) {
    for (const double x : to_doubles(o.key_lengths)) c.lengths.push_back(static_cast<int>(x));
  }
  if (o.mask.defined()) {
    for (const double x : to_doubles(o.mask.expand(scores))) c.mask.push_back(x != 0);
  }
  if (o.bias.defined()) c.bias = to_doubles(o.bias.expand(scores));
  if (o.alibi_slopes.defined()) c.slopes = to_doubles(o.alibi_slopes);
  if (o.sinks.defined()) c.sinks = to_doubles(o.sinks);
  if (o.query_documents.defined()) {
    for (const double x : to_doubles(o.query_documents)) c.q_documents.push_back(static_cast<int>(x));
    for (const double x : to_doubles(o.key_documents)) c.k_documents.push_back(static_cast<int>(x));
  }
  if (o.dropout.rate > 0) {
    c.dropout = [dropout = o.dropout](int64_t b, int64_t h, int64_t i, int64_t j) {
      return realised_dropout(dropout, b, h, i, j);
    };
  }
  return c;
}

struct RandomCase {
  Problem problem;
  oracle::AttentionCase oracle;
  std::string text;  // for messages
};

// The rows (axis 2) of a dense tensor in reverse, by a negative stride over memory that lives as long as the program.
inline Tensor reversed_rows(const Tensor& t) {
  static std::vector<Tensor> kept;
  kept.push_back(t);
  const int64_t H = t.size(1), L = t.size(2), D = t.size(3);
  return Tensor::wrap(t.data<float>() + (L - 1) * D, t.shape(), {H * L * D, L * D, -D, 1}, DType::f32);
}

// The same mask with every element two apart, over memory that lives as long as the program.
inline Tensor every_other_column(const Tensor& mask) {
  static std::vector<Tensor> kept;
  Shape wide{mask.numel() * 2}, strides = mask.strides();
  kept.push_back(Tensor::zeros(wide, DType::boolean));
  for (int64_t n = 0; n < mask.numel(); ++n) kept.back().data<bool>()[2 * n] = mask.data<bool>()[n];
  for (int axis = 0; axis < strides.rank(); ++axis) strides[axis] *= 2;
  return Tensor::wrap(kept.back().raw(), mask.shape(), strides, DType::boolean);
}

// One value of `shape` as a strided view: heads from a fused projection, reversed rows, every other column, or dense.
inline Tensor random_view(Random& random, const Shape& shape) {
  const int64_t B = shape[0], H = shape[1], L = shape[2], D = shape[3];
  switch (random.integer(0, 4)) {
    case 0: return random.tensor({B, L, H, D}).transpose(1, 2);
    case 1: {  // rows backwards; the view keeps no memory alive, so the tensor it looks at does
      const Tensor t = random.tensor(shape);
      return t.numel() == 0 ? t : reversed_rows(t);
    }
    case 2: return random.tensor({B, H, D, L}).transpose(2, 3);  // columns apart
    case 3: return random.tensor({B, 1, L, D}).expand(shape);    // one head for all
    default: return random.tensor(shape);
  }
}

// A random problem. `extent` bounds L and S.
inline RandomCase random_case(uint64_t seed, int64_t extent) {
  Random random(seed);
  RandomCase r;
  const int64_t B = random.integer(1, 2), Hkv = random.integer(1, 2), group = random.pick<int64_t>({1, 1, 2, 3});
  const int64_t H = Hkv * group;
  int64_t L = random.integer(1, extent), S = random.integer(1, extent);
  if (random.chance(0.2)) L = random.integer(1, 5);
  if (random.chance(0.3)) S = L;
  if (random.chance(0.03)) L = 0;
  if (random.chance(0.03)) S = 0;
  const int64_t D = random.pick<int64_t>({1, 3, 8, 16, 17, 32, 64, 80});
  const int64_t Dv = random.chance(0.6) ? D : random.pick<int64_t>({1, 5, 16, 31, 64});
  Problem& p = r.problem;
  p.q = random_view(random, {B, H, L, D});
  p.k = random_view(random, {B, Hkv, S, D});
  p.v = random_view(random, {B, Hkv, S, Dv});
  p.d_out = random_view(random, {B, H, L, Dv});
  AttentionOptions& o = p.options;
  o.want = {.logsumexp = true, .weights = true};
  r.text = "seed " + std::to_string(seed) + " q " + to_string(p.q.shape()) + " k " + to_string(p.k.shape()) + " v " +
           to_string(p.v.shape());
  if (random.chance(0.3)) o.scale = static_cast<float>(random.uniform(-0.5, 1));
  auto causal = oracle::AttentionCase::Causal::none;
  int64_t offset = 0;
  if (random.chance(0.5)) {
    switch (random.integer(0, 2)) {
      case 0: o.causal = Causal::top_left(), causal = oracle::AttentionCase::Causal::top_left; break;
      case 1: o.causal = Causal::bottom_right(), causal = oracle::AttentionCase::Causal::bottom_right; break;
      default:
        offset = random.integer(-extent / 2, extent);
        o.causal = Causal::offset(offset), causal = oracle::AttentionCase::Causal::offset;
    }
    r.text += " causal " + std::to_string(static_cast<int>(causal)) + "/" + std::to_string(offset);
  }
  if (random.chance(0.25)) {
    o.window = {.left = random.integer(-1, extent / 2), .right = random.integer(-1, extent / 2)};
    r.text += " window " + std::to_string(o.window.left) + "," + std::to_string(o.window.right);
  }
  if (random.chance(0.25)) {
    std::vector<int32_t> lengths;
    for (int64_t b = 0; b < B; ++b) lengths.push_back(static_cast<int32_t>(random.integer(0, S)));
    o.key_lengths = Tensor::from(std::span<const int32_t>(lengths), {B});
    r.text += " lengths";
  }
  const auto broadcast = [&] {
    return Shape{random.chance(0.4) ? 1 : B, random.chance(0.4) ? 1 : H, random.chance(0.3) ? 1 : L,
                 random.chance(0.15) ? 1 : S};
  };
  if (random.chance(0.3)) {
    const double density = random.pick({0.05, 0.5, 0.95});
    o.mask = Tensor::empty(broadcast(), DType::boolean);
    for (int64_t n = 0; n < o.mask.numel(); ++n) o.mask.data<bool>()[n] = random.chance(density);
    if (seed % 2 == 1) o.mask = every_other_column(o.mask);
    r.text += " mask " + to_string(o.mask.shape());
  }
  if (random.chance(0.3)) {
    const double blocked = random.pick({0.0, 0.0, 0.3, 0.9});
    o.bias = random.tensor(broadcast(), 2);
    for (int64_t n = 0; n < o.bias.numel(); ++n) {
      if (random.chance(blocked)) o.bias.data<float>()[n] = -std::numeric_limits<float>::infinity();
    }
    r.text += " bias " + to_string(o.bias.shape());
  }
  if (random.chance(0.2)) o.softcap = static_cast<float>(random.uniform(0.3, 5)), r.text += " softcap";
  if (random.chance(0.2)) o.alibi_slopes = random.tensor({H}, 0.5), r.text += " alibi";
  if (random.chance(0.2)) o.sinks = random.tensor({H}, 2), r.text += " sinks";
  if (random.chance(0.2)) {
    const auto documents = [&](int64_t length) {
      std::vector<int32_t> ids;
      int32_t id = 0;
      for (int64_t n = 0; n < B * length; ++n) {
        if (length > 0 && n % length == 0) id = 0;
        ids.push_back(id);
        if (random.chance(0.05)) ++id;
      }
      Tensor turned = Tensor::empty({length, B}, DType::i32);  // so that no stride is 1
      for (int64_t n = 0; n < B * length; ++n) {
        turned.data<int32_t>()[n % length * B + n / length] = ids[static_cast<size_t>(n)];
      }
      return turned.transpose(0, 1);
    };
    o.query_documents = documents(L);
    o.key_documents = documents(S);
    r.text += " documents";
  }
  if (random.chance(0.25)) {
    o.dropout = {.rate = static_cast<float>(random.uniform(0.05, 0.8)), .seed = seed * 0x9E3779B97F4A7C15u};
    r.text += " dropout";
  }
  r.oracle = oracle_case(p, causal, offset);
  return r;
}

// Every element within `tolerance` of the largest magnitude; -inf and the like must match exactly.
inline ::testing::AssertionResult close(const std::vector<double>& found, const std::vector<double>& expected,
                                        double tolerance, const char* what) {
  if (found.size() != expected.size()) {
    return ::testing::AssertionFailure() << what << ": " << found.size() << " elements, expected " << expected.size();
  }
  double largest = 1;
  for (const double x : expected) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
  for (size_t n = 0; n < found.size(); ++n) {
    const bool same =
        std::isfinite(expected[n]) ? std::fabs(found[n] - expected[n]) <= tolerance * largest : found[n] == expected[n];
    if (!same) {
      return ::testing::AssertionFailure() << what << "[" << n << "] is " << found[n] << ", expected " << expected[n]
                                           << " (tolerance " << tolerance * largest << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

// d_bias (B, H, L, S) summed into the shape of the bias.
inline std::vector<double> reduce_bias(const std::vector<double>& full, const Shape& scores, const Shape& bias) {
  std::vector<double> sum(static_cast<size_t>(bias.numel()), 0.0);
  for (size_t n = 0; n < full.size(); ++n) {
    int64_t rest = static_cast<int64_t>(n), index = 0, step = 1;
    for (int axis = 3; axis >= 0; --axis) {
      const int64_t position = rest % scores[axis];
      rest /= scores[axis];
      const int own = axis - (4 - bias.rank());
      if (own < 0) continue;
      index += (bias[own] == 1 ? 0 : position) * step;
      step *= bias[own];
    }
    sum[static_cast<size_t>(index)] += full[n];
  }
  return sum;
}

// The same bytes, in the order of the shape.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  const Tensor x = a.clone(), y = b.clone();
  return x.shape() == y.shape() && x.dtype() == y.dtype() &&
         std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.nbytes())) == 0;
}

// Puts threads and instruction set back at the end of a test.
class KeepSettings {
 public:
  KeepSettings() : isa_(active_isa()), threads_(num_threads()) {}
  ~KeepSettings() {
    set_isa(isa_);
    set_num_threads(threads_);
  }
  KeepSettings(const KeepSettings&) = delete;
  KeepSettings& operator=(const KeepSettings&) = delete;

 private:
  Isa isa_;
  int threads_;
};

}  // namespace heed::testing
