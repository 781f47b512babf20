// MultiHeadAttention against the oracle; its cache; its observer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "heed/error.h"
#include "heed/nn.h"
#include "oracle/gradient_check.h"
#include "oracle/transformer_oracle.h"

namespace heed::nn {
namespace {

using oracle::sample;

struct Case {
  const char* name;
  MultiHeadAttentionOptions options;
};

const Case kCases[] = {
    {"plain", {.width = 12, .heads = 3}},
    {"no biases", {.width = 12, .heads = 2, .bias = false}},
    {"grouped heads", {.width = 8, .heads = 4, .key_value_heads = 2}},
    {"one key head", {.width = 8, .heads = 4, .key_value_heads = 1, .head_size = 3}},
    {"values of another size", {.width = 10, .heads = 3, .head_size = 4, .value_size = 7}},
    {"memory of another width", {.width = 6, .heads = 2, .value_size = 2, .memory_width = 9}},
};

class AttentionOnly : public Module {
 public:
  explicit AttentionOnly(const MultiHeadAttentionOptions& options, Initializer init = Initializer(1))
      : attention(options, init) {
    add_module("mha", attention);
    name_paths();
    uint32_t seed = 100;
    for (const auto& [name, value] : named_parameters()) {
      if (name.ends_with("bias")) value.set_data(sample(value.shape(), ++seed));
    }
  }
  MultiHeadAttention attention;
};

oracle::Matrix matrix(const Tensor& t) {  // the last two axes of the first entry
  oracle::Matrix m(t.rank() == 1 ? 1 : t.size(-2), t.size(-1));
  const Tensor dense = t.contiguous();
  for (size_t i = 0; i < m.values.size(); ++i) m.values[i] = dense.data<float>()[i];
  return m;
}

oracle::Transformer oracle_of(const AttentionOnly& root, const MultiHeadAttentionOptions& o) {
  oracle::Transformer t;
  t.width = o.width;
  t.heads = o.heads;
  t.key_value_heads = o.key_value_heads != 0 ? o.key_value_heads : o.heads;
  t.head_size = o.head_size != 0 ? o.head_size : o.width / o.heads;
  t.value_size = o.value_size != 0 ? o.value_size : t.head_size;
  for (const auto& [name, value] : root.named_parameters()) t.weights[name] = matrix(value.data());
  return t;
}

void expect_near(const Tensor& got, const oracle::Matrix& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.numel(), static_cast<int64_t>(want.values.size())) << what;
  const Tensor dense = got.contiguous();
  for (size_t i = 0; i < want.values.size(); ++i) {
    ASSERT_NEAR(dense.data<float>()[i], want.values[i], tolerance) << what << ", element " << i;
  }
}

TEST(MultiHeadAttention, IsTheFormula) {
  for (const Case& c : kCases) {
    const AttentionOnly root(c.options);
    const oracle::Transformer plain = oracle_of(root, c.options);
    const int64_t memory_width = c.options.memory_width != 0 ? c.options.memory_width : c.options.width;
    const Tensor x = sample({2, 5, c.options.width}, 1), memory = sample({2, 7, memory_width}, 2);
    const Tensor crossed = root.attention.cross(Value(x), Value(memory), {}).data();
    for (int64_t b = 0; b < 2; ++b) {
      expect_near(crossed.select(0, b),
                  plain.attention(matrix(x.select(0, b)), matrix(memory.select(0, b)), false, "mha"), 2e-6, c.name);
    }
    if (memory_width != c.options.width) continue;
    const AttentionOptions causal = {.causal = Causal::top_left()};
    const Tensor own = root.attention.self(Value(x), causal).data();
    for (int64_t b = 0; b < 2; ++b) {
      const oracle::Matrix row = matrix(x.select(0, b));
      expect_near(own.select(0, b), plain.attention(row, row, true, "mha"), 2e-6, c.name);
    }
  }
}

TEST(MultiHeadAttention, HasTheNamedParameters) {
  const AttentionOnly root(
      {.width = 6, .heads = 2, .key_value_heads = 1, .head_size = 4, .value_size = 5, .memory_width = 9});
  std::map<std::string, Shape> shapes;
  for (const auto& [name, value] : root.named_parameters()) shapes[name] = value.shape();
  EXPECT_EQ(shapes.size(), 8u);
  EXPECT_EQ(shapes["mha.query.weight"], (Shape{8, 6}));
  EXPECT_EQ(shapes["mha.key.weight"], (Shape{4, 9}));
  EXPECT_EQ(shapes["mha.value.weight"], (Shape{5, 9}));
  EXPECT_EQ(shapes["mha.output.weight"], (Shape{6, 10}));
  EXPECT_EQ(shapes["mha.output.bias"], (Shape{6}));
}

TEST(MultiHeadAttention, WithACacheGivesTheSameBits) {
  for (const Case& c : kCases) {
    if (c.options.memory_width != 0) continue;
    const AttentionOnly root(c.options);
    const Tensor x = sample({2, 9, c.options.width}, 1);
    const AttentionOptions causal = {.causal = Causal::top_left()};
    const Tensor whole = root.attention.self(Value(x), causal).data();
    KeyValueCache cache = root.attention.start(2);
    int64_t at = 0;
    for (const int64_t count : {4, 1, 1, 3}) {
      const Tensor part = root.attention.self(Value(x.slice(1, at, at + count).contiguous()), cache).data();
      for (int64_t b = 0; b < 2; ++b) {
        const Tensor want = whole.select(0, b).slice(0, at, at + count).contiguous();
        const Tensor got = part.select(0, b).contiguous();
        EXPECT_EQ(std::memcmp(got.raw(), want.raw(), static_cast<size_t>(want.nbytes())), 0) << c.name << " at " << at;
      }
      at += count;
    }
    const Tensor lengths = Tensor::from(std::span<const int32_t>(std::vector<int32_t>{9, 4}), {2});
    const AttentionOptions padding = {.key_lengths = lengths};
    const Tensor direct = root.attention.cross(Value(x), Value(x), padding).data();
    const Tensor remembered = root.attention.cross(Value(x), root.attention.remember(Value(x), lengths)).data();
    EXPECT_EQ(
        std::memcmp(direct.contiguous().raw(), remembered.contiguous().raw(), static_cast<size_t>(direct.nbytes())), 0);
  }
}

TEST(MultiHeadAttention, ACacheHasTheWindowToo) {
  for (const int64_t window : {0, 1, 2}) {
    const AttentionOnly root({.width = 16, .heads = 2, .window = window});
    const Tensor x = sample({2, 6, 16}, 1);
    const Tensor whole = root.attention.self(Value(x), {.causal = Causal::top_left()}).data().contiguous();
    KeyValueCache cache = root.attention.start(2);
    for (int64_t at = 0; at < 6; ++at) {
      const Tensor part = root.attention.self(Value(x.slice(1, at, at + 1).contiguous()), cache).data();
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t e = 0; e < 16; ++e) EXPECT_EQ(part.at({b, 0, e}), whole.at({b, at, e})) << window << " at " << at;
    }
  }
}

TEST(MultiHeadAttention, RotaryPositionsGoOnFromOneLength) {
  const AttentionOnly root({.width = 16, .heads = 2, .rotary = ops::rotary_tables(12, 8)});
  KeyValueCache cache = root.attention.start(2);
  (void)root.attention.self(Value(sample({2, 9, 16}, 1)), cache);
  cache.truncate(1, 6);
  EXPECT_THROW((void)root.attention.self(Value(sample({2, 1, 16}, 2)), cache), Error);
  cache.truncate(0, 6);
  (void)root.attention.self(Value(sample({2, 1, 16}, 2)), cache);
}

TEST(MultiHeadAttention, NoMaskIsIgnored) {
  const AttentionOnly root({.width = 16, .heads = 2});
  const Value x(sample({2, 9, 16}, 1));
  EXPECT_THROW((void)root.attention.self(x, {.window = {.left = 2}}), Error);
  EXPECT_THROW((void)root.attention.self(x, {.alibi_slopes = alibi_slopes(2)}), Error);
  Initializer init(1);
  EXPECT_THROW(MultiHeadAttention({.width = 12, .heads = 3, .scale = -1}, init), Error);
}

class Listener : public AttentionObserver {
 public:
  void on_attention(std::string_view path, const Tensor& weights) override {
    paths.emplace_back(path);
    last = weights;
  }
  std::vector<std::string> paths;
  Tensor last;
};

TEST(MultiHeadAttention, TellsItsObserverTheWeightsAndNothingChanges) {
  const Case& c = kCases[2];
  const AttentionOnly root(c.options);
  const oracle::Transformer plain = oracle_of(root, c.options);
  const Tensor x = sample({1, 6, c.options.width}, 1);
  const Tensor before = root.attention.self(Value(x), {}).data();
  Listener listener, inner;
  Tensor watched;
  {
    const ObserverScope scope(listener);
    watched = root.attention.self(Value(x), {}).data();
    {
      const ObserverScope nested(inner);
      (void)root.attention.self(Value(x), {});
    }
  }
  (void)root.attention.self(Value(x), {});
  EXPECT_EQ(listener.paths, std::vector<std::string>{"mha"});
  EXPECT_EQ(inner.paths.size(), 1u);
  EXPECT_EQ(std::memcmp(before.raw(), watched.raw(), static_cast<size_t>(before.nbytes())), 0);
  ASSERT_EQ(listener.last.shape(), (Shape{1, 4, 6, 6}));
  const oracle::Matrix row = matrix(x.select(0, 0));
  (void)plain.attention(row, row, false, "mha");
  expect_near(listener.last.select(0, 0).select(0, 0), plain.seen.at("mha"), 1e-6, "weights of head 0");
}

// Glorot's bound for query, key and value as one matrix (3E, E), and for the output alone.
TEST(MultiHeadAttention, StartsWithTheBoundsOfOneProjection) {
  Initializer init(1);
  const MultiHeadAttention attention({.width = 64, .heads = 4}, init);
  for (const auto& [name, value] : attention.named_parameters()) {
    double largest = 0;
    for (int64_t i = 0; i < value.data().numel(); ++i) {
      largest = std::max(largest, std::abs(double{value.data().data<float>()[i]}));
    }
    const double bound = std::sqrt(6.0 / (name.starts_with("output") ? 2 * 64 : 4 * 64));
    EXPECT_NEAR(largest, name.ends_with("bias") ? 0 : bound, 0.01 * bound) << name;
  }
}

// Central differences of the oracle, in double, for every element of every parameter.
TEST(MultiHeadAttention, HasTheGradientsOfAllItsParameters) {
  for (const Case& c : kCases) {
    const AttentionOnly root(c.options);
    const int64_t memory_width = c.options.memory_width != 0 ? c.options.memory_width : c.options.width;
    const Tensor x = sample({1, 3, c.options.width}, 1), memory = sample({1, 4, memory_width}, 2);
    const Tensor projector = sample({1, 3, c.options.width}, 3);
    sum(root.attention.cross(Value(x), Value(memory), {}) * Value(projector)).backward();
    oracle::Transformer plain = oracle_of(root, c.options);
    const oracle::Matrix queries = matrix(x), keys = matrix(memory), projection = matrix(projector);
    const auto loss = [&] {
      const oracle::Matrix y = plain.attention(queries, keys, false, "mha");
      double total = 0;
      for (size_t i = 0; i < y.values.size(); ++i) total += y.values[i] * projection.values[i];
      return total;
    };
    for (const auto& [name, value] : root.named_parameters()) {
      ASSERT_TRUE(value.grad().defined()) << c.name << ": no gradient reached " << name;
      const Tensor gradient = value.grad().contiguous();
      for (size_t i = 0; i < plain.weights[name].values.size(); ++i) {
        const double centre = plain.weights[name].values[i], h = 1e-4;
        plain.weights[name].values[i] = centre + h;
        const double up = loss();
        plain.weights[name].values[i] = centre - h;
        const double down = loss();
        plain.weights[name].values[i] = centre;
        ASSERT_NEAR(gradient.data<float>()[i], (up - down) / (2 * h), 1e-5)
            << c.name << ": " << name << " element " << i;
      }
    }
  }
}

TEST(MultiHeadAttention, DropsWeightsInTrainingOnly) {
  const AttentionOnly root({.width = 8, .heads = 2, .attention_dropout = 0.5f});
  const Tensor x = sample({1, 6, 8}, 1);
  const auto run = [&] { return root.attention.self(Value(x), {}).data().clone(); };
  const Tensor quiet = run();
  Tensor first, second;
  {
    const TrainingScope training(7, 1);
    first = run();
    second = run();
  }
  const TrainingScope training(7, 1);
  const Tensor again = run();
  const auto same = [](const Tensor& a, const Tensor& b) {
    return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
  };
  EXPECT_FALSE(same(quiet, first));
  EXPECT_FALSE(same(first, second));
  EXPECT_TRUE(same(first, again));
}

// What an observer hears in training are the weights that made the output, dropout included.
TEST(MultiHeadAttention, TellsItsObserverTheWeightsThatDropoutLeft) {
  const AttentionOnly root({.width = 8, .heads = 2, .attention_dropout = 0.5f});
  const Tensor x = sample({2, 6, 8}, 1);
  Listener listener;
  const TrainingScope training(7, 1);
  const ObserverScope scope(listener);
  const Tensor output = root.attention.self(Value(x), {}).data();
  int64_t dropped = 0;
  for (int64_t n = 0; n < listener.last.numel(); ++n) dropped += listener.last.contiguous().data<float>()[n] == 0;
  EXPECT_GT(dropped, 0);
  std::map<std::string, Tensor> parameters;
  for (const auto& [name, value] : root.named_parameters()) parameters[name] = value.data();
  const Value v =
      heads(linear(Value(x), Value(parameters["mha.value.weight"]), Value(parameters["mha.value.bias"])), 2, 4);
  const Value mixed = merge_heads(matmul(Value(listener.last), Value(v.data().contiguous())));
  const Tensor expected =
      linear(mixed, Value(parameters["mha.output.weight"]), Value(parameters["mha.output.bias"])).data();
  for (int64_t n = 0; n < expected.numel(); ++n)
    EXPECT_NEAR(output.contiguous().data<float>()[n], expected.data<float>()[n], 1e-5);
}

TEST(MultiHeadAttention, RefusesSizesThatDoNotFit) {
  Initializer init(1);
  EXPECT_THROW(MultiHeadAttention({.width = 10, .heads = 3}, init), Error);
  EXPECT_THROW(MultiHeadAttention({.width = 12, .heads = 4, .key_value_heads = 3}, init), Error);
  EXPECT_THROW(MultiHeadAttention({.width = 12, .heads = 0}, init), Error);
}

// The slopes of Press et al. 2022 and their published code: 8 and 12 heads.
TEST(AlibiSlopes, AreThePublishedOnes) {
  const Tensor eight = alibi_slopes(8), twelve = alibi_slopes(12);
  for (int64_t h = 0; h < 8; ++h) {
    EXPECT_EQ(eight.at({h}), std::pow(2.0, -static_cast<double>(h + 1)));
    EXPECT_EQ(twelve.at({h}), eight.at({h}));
  }
  for (int64_t h = 8; h < 12; ++h)
    EXPECT_FLOAT_EQ(static_cast<float>(twelve.at({h})), static_cast<float>(std::pow(2.0, -0.5 - double(h - 8))));
  EXPECT_THROW((void)alibi_slopes(0), Error);
}

}  // namespace
}  // namespace heed::nn
