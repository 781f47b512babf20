// Special values and bad memory: what is masked cannot be seen, what is attended cannot hide, nothing is read outside.
#include <functional>
#include <limits>

#include "attention/attention_case.h"
#include "attention/guarded.h"

namespace heed {
namespace {

using testing::Guarded;
using testing::KeepSettings;
using testing::Random;
using testing::same_bits;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void fill_rows(const Tensor& tensor, int64_t begin, int64_t end, float value) {
  Tensor rows = tensor.slice(2, begin, end);
  for (int64_t b = 0; b < rows.size(0); ++b) {
    for (int64_t h = 0; h < rows.size(1); ++h) {
      for (int64_t i = 0; i < rows.size(2); ++i) {
        for (int64_t d = 0; d < rows.size(3); ++d) {
          rows.data<float>()[b * rows.stride(0) + h * rows.stride(1) + i * rows.stride(2) + d * rows.stride(3)] = value;
        }
      }
    }
  }
}

bool all_are(const Tensor& tensor, const std::function<bool(double)>& holds) {
  for (const double x : testing::to_doubles(tensor)) {
    if (!holds(x)) return false;
  }
  return true;
}
bool finite(double x) { return std::isfinite(x); }
bool zero(double x) { return x == 0; }
bool nan(double x) { return std::isnan(x); }

struct SpecialCase {
  Tensor q, k, v, d_out;
  explicit SpecialCase(uint64_t seed, int64_t queries = 70, int64_t keys = 150, int64_t size = 20) {
    Random random(seed);
    q = random.tensor({2, 2, queries, size});
    k = random.tensor({2, 1, keys, size});
    v = random.tensor({2, 1, keys, size});
    d_out = random.tensor({2, 2, queries, size});
  }
};

Tensor i32(std::initializer_list<int32_t> values) {
  return Tensor::from(std::span<const int32_t>(values.begin(), values.size()), {static_cast<int64_t>(values.size())});
}

// Every way of masking keys 100 and up, with garbage there.
TEST(AttentionSpecial, WhatIsBehindAMaskCannotLeak) {
  const KeepSettings keep;
  Tensor mask = Tensor::empty({1, 1, 1, 150}, DType::boolean), wide = Tensor::empty({70, 150}, DType::boolean);
  Tensor bias = Tensor::zeros({1, 1, 70, 150});
  for (int64_t n = 0; n < 150; ++n) mask.data<bool>()[n] = n < 100;
  for (int64_t n = 0; n < 70 * 150; ++n) wide.data<bool>()[n] = n % 150 < 100;
  for (int64_t n = 0; n < 70 * 150; ++n) bias.data<float>()[n] = n % 150 < 100 ? 0.0f : -kInfinity;
  Tensor q_documents = Tensor::zeros({2, 70}, DType::i32), k_documents = Tensor::zeros({2, 150}, DType::i32);
  for (int64_t n = 0; n < 300; ++n) k_documents.data<int32_t>()[n] = n % 150 < 100 ? 0 : 1;
  const AttentionOptions::Want want{.logsumexp = true, .weights = true};
  const std::pair<const char*, AttentionOptions> ways[] = {
      {"key_lengths", {.key_lengths = i32({100, 100}), .want = want}},
      {"mask", {.mask = mask, .want = want}},
      {"wide mask", {.mask = wide, .want = want}},
      {"bias", {.bias = bias, .want = want}},
      {"softcap and bias", {.bias = bias, .softcap = 3, .want = want}},
      {"documents", {.query_documents = q_documents, .key_documents = k_documents, .want = want}},
      {"window", {.causal = Causal::offset(30), .window = {.right = 0}, .want = want}},
  };
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const auto& [name, options] : ways) {
      SpecialCase f(1);
      const bool bias_too = options.bias.defined();
      const AttentionResult clean = attention(f.q, f.k, f.v, options);
      const AttentionGradients clean_g = attention_backward(f.d_out, f.q, f.k, f.v, clean, options, {.bias = bias_too});
      for (const float garbage : {kNaN, kInfinity, -kInfinity, 3e38f}) {
        if (isa == Isa::portable && garbage < kInfinity) continue;  // slow there: NaN and infinity are enough
        fill_rows(f.k, 100, 150, garbage);
        fill_rows(f.v, 100, 150, garbage);
        const AttentionResult r = attention(f.q, f.k, f.v, options);
        EXPECT_TRUE(same_bits(clean.output, r.output)) << name << " " << garbage;
        EXPECT_TRUE(same_bits(clean.logsumexp, r.logsumexp)) << name << " " << garbage;
        EXPECT_TRUE(same_bits(clean.weights, r.weights)) << name << " " << garbage;
        const AttentionGradients g = attention_backward(f.d_out, f.q, f.k, f.v, r, options, {.bias = bias_too});
        EXPECT_TRUE(same_bits(clean_g.query, g.query)) << name << " " << garbage;
        EXPECT_TRUE(same_bits(clean_g.key, g.key)) << name << " " << garbage;
        EXPECT_TRUE(same_bits(clean_g.value, g.value)) << name << " " << garbage;
        EXPECT_TRUE(same_bits(clean_g.bias, g.bias)) << name << " " << garbage;
        EXPECT_TRUE(all_are(g.key.slice(2, 100, 150), zero)) << name;
        if (isa != Isa::portable) continue;
        EXPECT_TRUE(all_are(reference::attention(f.q, f.k, f.v, options).output, finite)) << name;
      }
    }
  }
}

// A NaN query row that may only see key 0 spoils its own output, and the gradients of what it sees; nothing else.
TEST(AttentionSpecial, ANaNSpoilsExactlyWhatAttendsToIt) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    SpecialCase f(2, 100, 100);
    const AttentionOptions options{.causal = Causal::top_left(), .want = {.logsumexp = true, .weights = true}};
    for (const float bad : {kNaN, kInfinity}) {
      Tensor k = f.k.clone();
      fill_rows(k, 60, 61, bad);
      const AttentionResult r = attention(f.q, k, f.v, options);
      EXPECT_TRUE(all_are(r.output.slice(2, 0, 60), finite));
      // An infinite key gives some queries a score of -inf, which counts as not attended, others NaN.
      if (std::isnan(bad)) {
        EXPECT_TRUE(all_are(r.output.slice(2, 60, 100), nan));
        EXPECT_TRUE(all_are(r.logsumexp.slice(2, 60, 100), nan));
      }
      Tensor v = f.v.clone();
      fill_rows(v, 60, 61, bad);
      const AttentionResult s = attention(f.q, f.k, v, options);
      EXPECT_TRUE(all_are(s.output.slice(2, 0, 60), finite));
      EXPECT_TRUE(all_are(s.output.slice(2, 60, 100), [](double x) { return !std::isfinite(x); }));
      EXPECT_TRUE(all_are(s.weights, finite));
    }
    Tensor q = f.q.clone();
    fill_rows(q, 3, 4, kNaN);
    const AttentionResult r = attention(q, f.k, f.v, options);
    EXPECT_TRUE(all_are(r.output.slice(2, 3, 4), nan));
    EXPECT_TRUE(all_are(r.output.slice(2, 4, 100), finite));
    const AttentionGradients g = attention_backward(f.d_out, q, f.k, f.v, r, options);
    EXPECT_TRUE(all_are(g.key.slice(2, 0, 4), nan));
    EXPECT_TRUE(all_are(g.key.slice(2, 4, 100), finite));
    EXPECT_TRUE(all_are(g.value.slice(2, 4, 100), finite));
    EXPECT_TRUE(all_are(g.query.slice(2, 3, 4), nan));
    EXPECT_TRUE(all_are(g.query.slice(2, 4, 100), finite));
  }
}

TEST(AttentionSpecial, SpecialValuesGiveTheSameBitsEverywhere) {
  const KeepSettings keep;
  const float specials[] = {kNaN,    -kNaN,  kInfinity, -kInfinity, 0.0f,  -0.0f,  1e-42f,
                            -1e-42f, 1e-38f, 3e38f,     -3e38f,     1e30f, 6.5e4f, -2.45e5f};
  const std::vector<Isa> isas = available_isas();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    SpecialCase f(seed, 20, 70, 8);
    for (Tensor* t : {&f.q, &f.k, &f.v, &f.d_out}) {
      for (int64_t n = 0; n < random.integer(0, 6); ++n) {
        t->data<float>()[random.integer(0, t->numel() - 1)] = specials[random.integer(0, 13)];
      }
    }
    AttentionOptions options{.want = {.logsumexp = true, .weights = true}};
    if (seed % 2 == 0) options.causal = Causal::bottom_right();
    set_isa(isas.back());
    const AttentionResult best = attention(f.q, f.k, f.v, options);
    const AttentionGradients best_g = attention_backward(f.d_out, f.q, f.k, f.v, best, options);
    for (const Isa isa : isas) {
      set_isa(isa);
      const AttentionResult r = attention(f.q, f.k, f.v, options);
      EXPECT_TRUE(same_bits(best.output, r.output)) << seed << to_string(isa);
      EXPECT_TRUE(same_bits(best.logsumexp, r.logsumexp)) << seed << to_string(isa);
      EXPECT_TRUE(same_bits(best.weights, r.weights)) << seed << to_string(isa);
      const AttentionGradients g = attention_backward(f.d_out, f.q, f.k, f.v, r, options);
      EXPECT_TRUE(same_bits(best_g.query, g.query)) << seed << to_string(isa);
      EXPECT_TRUE(same_bits(best_g.key, g.key)) << seed << to_string(isa);
      EXPECT_TRUE(same_bits(best_g.value, g.value)) << seed << to_string(isa);
    }
  }
}

TEST(AttentionSpecial, LargeScoresDoNotOverflow) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const float large : {1e4f, 1e30f, 3e38f}) {
      const Tensor q = Tensor::full({1, 1, 1, 1}, 1), k = Tensor::from({large, -large, large / 2, large}, {1, 1, 4, 1});
      const Tensor v = Tensor::from({1, 2, 3, 4}, {1, 1, 4, 1});
      const AttentionOptions options{.scale = 1.0f, .want = {.logsumexp = true, .weights = true}};
      const AttentionResult r = attention(q, k, v, options);
      EXPECT_EQ(testing::to_doubles(r.weights), (std::vector<double>{0.5, 0, 0, 0.5})) << large;
      EXPECT_EQ(r.output.at({0, 0, 0, 0}), 2.5);
      EXPECT_EQ(testing::to_doubles(reference::attention(q, k, v, options).output), std::vector<double>{2.5});
      const AttentionGradients g = attention_backward(Tensor::full({1, 1, 1, 1}, 1), q, k, v, r, options);
      EXPECT_TRUE(all_are(g.value, finite));
      EXPECT_TRUE(all_are(g.key, finite));
    }
  }
}

// Scores 0, -74 and -76, once in tiles and once in the decode engine. Values make the small weights visible.
TEST(AttentionSpecial, WeightsBelowTheLeastAreZeroEverywhere) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const int64_t queries : {1, 50}) {
      for (const auto& [score, counts] : {std::pair{-74.0f, true}, {-76.0f, false}}) {
        const Tensor q = Tensor::full({1, 1, queries, 1}, 1), k = Tensor::from({0, score}, {1, 1, 2, 1});
        const Tensor v = Tensor::from({0, 1e38f}, {1, 1, 2, 1});
        AttentionOptions options{.scale = 1.0f, .want = {.logsumexp = true}};
        const AttentionResult r = attention(q, k, v, options);
        const double expected = counts ? std::exp(static_cast<double>(score)) * 1e38 : 0.0;
        for (const double x : testing::to_doubles(r.output)) EXPECT_NEAR(x, expected, 1e-6 * expected) << score;
        options.want.weights = true;
        const auto alike = [&](double weight) { return (weight > 0) == counts; };
        EXPECT_TRUE(all_are(attention(q, k, v, options).weights.slice(3, 1, 2), alike)) << score;
        const Tensor d = Tensor::full({1, 1, queries, 1}, 1e30f);
        EXPECT_TRUE(all_are(attention_backward(d, q, k, v, r, options).value.slice(2, 1, 2), alike)) << score;
      }
    }
  }
}

TEST(AttentionSpecial, RowsThatAttendToNothingAreZero) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    SpecialCase f(5, 60, 90);
    // Offset -20: queries 0 .. 19 see nothing. Sequence 1 has no key at all.
    const AttentionOptions options{
        .causal = Causal::offset(-20), .key_lengths = i32({90, 0}), .want = {.logsumexp = true, .weights = true}};
    for (const bool garbage : {false, true}) {
      if (garbage) {
        fill_rows(f.q.slice(0, 1, 2), 0, 60, kNaN);
        fill_rows(f.q, 0, 20, kNaN);
        fill_rows(f.d_out, 0, 20, kInfinity);
      }
      const AttentionResult r = attention(f.q, f.k, f.v, options);
      const auto minus_infinity = [](double x) { return x == -std::numeric_limits<double>::infinity(); };
      for (const auto& [b, end] : {std::pair<int64_t, int64_t>{0, 20}, {1, 60}}) {
        EXPECT_TRUE(all_are(r.output.slice(0, b, b + 1).slice(2, 0, end), zero));
        EXPECT_TRUE(all_are(r.weights.slice(0, b, b + 1).slice(2, 0, end), zero));
        EXPECT_TRUE(all_are(r.logsumexp.slice(0, b, b + 1).slice(2, 0, end), minus_infinity));
      }
      EXPECT_TRUE(all_are(r.output, finite));
      const AttentionGradients g = attention_backward(f.d_out, f.q, f.k, f.v, r, options);
      EXPECT_TRUE(all_are(g.query.slice(2, 0, 20), zero));
      EXPECT_TRUE(all_are(g.query, finite));
      EXPECT_TRUE(all_are(g.key, finite));
      EXPECT_TRUE(all_are(g.value, finite));
      EXPECT_TRUE(all_are(g.key.slice(0, 1, 2), zero));
      EXPECT_TRUE(all_are(g.value.slice(0, 1, 2), zero));
    }
  }
}

TEST(AttentionSpecial, EmptyExtents) {
  Random random(6);
  const AttentionOptions options{.want = {.logsumexp = true, .weights = true}};
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}, {0, 0}}) {
    const Tensor q = random.tensor({2, 2, queries, 8}), k = random.tensor({2, 1, keys, 8}),
                 v = random.tensor({2, 1, keys, 3});
    const AttentionResult r = attention(q, k, v, options);
    EXPECT_EQ(r.output.shape(), (Shape{2, 2, queries, 3}));
    EXPECT_EQ(r.weights.shape(), (Shape{2, 2, queries, keys}));
    EXPECT_TRUE(all_are(r.output, zero));
    const AttentionGradients g = attention_backward(random.tensor({2, 2, queries, 3}), q, k, v, r, options);
    EXPECT_EQ(g.query.shape(), q.shape());
    EXPECT_TRUE(all_are(g.query, zero));
    EXPECT_TRUE(all_are(g.key, zero));
    EXPECT_TRUE(all_are(g.value, zero));
  }
  const AttentionResult none =
      attention(Tensor::empty({0, 2, 3, 4}), Tensor::empty({0, 2, 5, 4}), Tensor::empty({0, 2, 5, 4}));
  EXPECT_EQ(none.output.shape(), (Shape{0, 2, 3, 4}));
}

TEST(AttentionSpecial, NothingIsReadBeyondTheTensors) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const int64_t size : {1, 3, 7, 16, 19, 33}) {
      for (const int64_t length : {1, 5, 17, 50}) {
        Random random(static_cast<uint64_t>(size * 100 + length));
        const Guarded q(random.tensor({1, 1, length, size})), k(random.tensor({1, 1, length + 2, size}));
        const Guarded v(random.tensor({1, 1, length + 2, size})), d_out(random.tensor({1, 1, length, size}));
        const Guarded bias(random.tensor({length, length + 2}));
        Tensor all_true = Tensor::empty({length, length + 2}, DType::boolean);
        std::fill_n(all_true.data<bool>(), all_true.numel(), true);
        const Guarded mask(all_true);
        const AttentionOptions options{.causal = Causal::bottom_right(),
                                       .mask = mask.tensor,
                                       .bias = bias.tensor,
                                       .want = {.logsumexp = true, .weights = true}};
        const AttentionResult r = attention(q.tensor, k.tensor, v.tensor, options);
        const AttentionGradients g =
            attention_backward(d_out.tensor, q.tensor, k.tensor, v.tensor, r, options, {.bias = true});
        EXPECT_TRUE(all_are(g.bias, finite));
      }
    }
  }
}

}  // namespace
}  // namespace heed
