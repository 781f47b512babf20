// Additive attention against the plain formula in double precision, and its gradients against finite differences.
#include <functional>

#include "attention/attention_case.h"
#include "base/message.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {
namespace {

using testing::KeepSettings;
using testing::Random;
using testing::same_bits;
using testing::to_doubles;

struct AdditiveCase {
  int64_t B = 2, H = 4, Hkv = 2, L, S, D, Dv = 9;
  Tensor q, k, v, w, d_out;
  AdditiveCase(uint64_t seed, int64_t queries, int64_t keys, int64_t size, bool per_head)
      : L(queries), S(keys), D(size) {
    Random random(seed);
    q = random.tensor({B, L, H, D}, 2).transpose(1, 2);
    k = random.tensor({B, Hkv, D, S}, 2).transpose(2, 3);
    v = random.tensor({B, Hkv, S, Dv});
    w = per_head ? random.tensor({H, D}, 1.5) : random.tensor({D}, 1.5);
    d_out = random.tensor({B, H, L, Dv});
  }
};

// sum(d_out * output) by the formula: all pairs with j <= i + S - L where causal, none kept from dropout.
struct Plain {
  std::vector<double> q, k, v, w, d_out;
  int64_t B, H, Hkv, L, S, D, Dv;
  bool causal, per_head;
  std::vector<double> output;

  Plain(const AdditiveCase& f, bool is_causal)
      : q(to_doubles(f.q)),
        k(to_doubles(f.k)),
        v(to_doubles(f.v)),
        w(to_doubles(f.w)),
        d_out(to_doubles(f.d_out)),
        B(f.B),
        H(f.H),
        Hkv(f.Hkv),
        L(f.L),
        S(f.S),
        D(f.D),
        Dv(f.Dv),
        causal(is_causal),
        per_head(f.w.rank() == 2) {}

  double loss() {
    output.assign(static_cast<size_t>(B * H * L * Dv), 0);
    double total = 0;
    for (int64_t row = 0; row < B * H * L; ++row) {
      const int64_t i = row % L, h = row / L % H, b = row / L / H, g = b * Hkv + h * Hkv / H;
      std::vector<double> weights;
      double sum = 0;
      for (int64_t j = 0; j < S; ++j) {
        double score = 0;
        for (int64_t d = 0; d < D; ++d) {
          score += w[static_cast<size_t>((per_head ? h * D : 0) + d)] *
                   std::tanh(q[static_cast<size_t>(row * D + d)] + k[static_cast<size_t>((g * S + j) * D + d)]);
        }
        weights.push_back(causal && j > i + S - L ? 0 : std::exp(score));
        sum += weights.back();
      }
      for (int64_t c = 0; c < Dv && sum > 0; ++c) {
        double& out = output[static_cast<size_t>(row * Dv + c)];
        for (int64_t j = 0; j < S; ++j) {
          out += weights[static_cast<size_t>(j)] / sum * v[static_cast<size_t>((g * S + j) * Dv + c)];
        }
        total += out * d_out[static_cast<size_t>(row * Dv + c)];
      }
    }
    return total;
  }

  // d loss / d x at some of its places.
  void expect_gradient(std::vector<double>& x, const Tensor& gradient, const char* what) {
    const std::vector<double> found = to_doubles(gradient);
    ASSERT_EQ(found.size(), x.size()) << what;
    for (size_t n = 0; n < x.size(); n += 1 + x.size() / 40) {
      const double before = x[n], step = 1e-5;
      x[n] = before + step;
      const double above = loss();
      x[n] = before - step;
      const double below = loss();
      x[n] = before;
      EXPECT_NEAR(found[n], (above - below) / (2 * step), 2e-4) << what << " " << n;
    }
  }
};

TEST(AttentionAdditive, IsTheFormulaAndItsGradients) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const bool causal : {false, true}) {
      for (const bool per_head : {false, true}) {
        const AdditiveCase f(causal ? 1 : 2, 21, 70, per_head ? 19 : 16, per_head);
        const AttentionOptions options{.causal = causal ? Causal::bottom_right() : Causal::none(),
                                       .want = {.logsumexp = true}};
        const AttentionResult r = attention_additive(f.q, f.k, f.v, f.w, options);
        Plain plain(f, causal);
        (void)plain.loss();
        ASSERT_TRUE(testing::close(to_doubles(r.output), plain.output, 1e-5, "output"));
        if (isa != available_isas().back()) continue;  // the same bits: see below
        const AttentionGradients g = attention_additive_backward(f.d_out, f.q, f.k, f.v, f.w, r, options);
        plain.expect_gradient(plain.q, g.query, "d_query");
        plain.expect_gradient(plain.k, g.key, "d_key");
        plain.expect_gradient(plain.v, g.value, "d_value");
        plain.expect_gradient(plain.w, g.additive_weight, "d_weight");
        EXPECT_EQ(g.additive_weight.shape(), f.w.shape());
      }
    }
  }
}

// The pooling kernel of the same name is the reference that ships.
TEST(AttentionAdditive, AgreesWithThePoolingKernel) {
  Random random(3);
  const Tensor q = random.tensor({12, 5}), k = random.tensor({30, 5}), v = random.tensor({30, 4});
  const Tensor eye = Tensor::zeros({5, 5}), w = random.tensor({5});
  for (int64_t n = 0; n < 5; ++n) eye.data<float>()[n * 6] = 1;
  const PoolingResult expected = attention_pooling(q, k, v, alpha::additive(eye, eye, w));
  const auto one = [](const Tensor& x) { return x.reshape({1, 1, x.size(0), x.size(1)}); };
  const AttentionResult found = attention_additive(one(q), one(k), one(v), w, {.want = {.weights = true}});
  EXPECT_TRUE(testing::close(to_doubles(found.output), to_doubles(expected.output), 2e-6, "output"));
  EXPECT_TRUE(testing::close(to_doubles(found.weights), to_doubles(expected.weights), 2e-6, "weights"));
}

TEST(AttentionAdditive, HasTheSameBitsEverywhere) {
  const KeepSettings keep;
  const AdditiveCase f(4, 130, 300, 24, true);
  const AttentionOptions options{.causal = Causal::bottom_right(),
                                 .dropout = {.rate = 0.1f, .seed = 9},
                                 .want = {.logsumexp = true, .taps = {.entropy = true, .column_sums = true}}};
  AttentionResult first;
  AttentionGradients first_g;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (const int threads : {1, 3}) {
      if (isa == Isa::portable && threads == 3) continue;  // slow there
      set_num_threads(threads);
      const AttentionResult r = attention_additive(f.q, f.k, f.v, f.w, options);
      const AttentionGradients g = attention_additive_backward(f.d_out, f.q, f.k, f.v, f.w, r, options);
      if (!first.output.defined()) first = r, first_g = g;
      EXPECT_TRUE(same_bits(r.output, first.output) && same_bits(r.logsumexp, first.logsumexp));
      EXPECT_TRUE(same_bits(r.taps.entropy, first.taps.entropy));
      EXPECT_TRUE(same_bits(r.taps.column_sums, first.taps.column_sums));
      EXPECT_TRUE(same_bits(g.query, first_g.query) && same_bits(g.key, first_g.key));
      EXPECT_TRUE(same_bits(g.value, first_g.value) && same_bits(g.additive_weight, first_g.additive_weight));
    }
  }
}

TEST(AttentionAdditive, KeepsMaskedGarbageOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const AdditiveCase f(5, 20, 60, 7, false);
  const std::vector<int32_t> lengths{40, 40};
  const AttentionOptions options{.key_lengths = Tensor::from(std::span<const int32_t>(lengths), {2}),
                                 .want = {.logsumexp = true}};
  Tensor k = f.k.clone(), v = f.v.clone();
  const AttentionResult clean = attention_additive(f.q, k, v, f.w, options);
  const AttentionGradients clean_g = attention_additive_backward(f.d_out, f.q, k, v, f.w, clean, options);
  for (Tensor* t : {&k, &v}) {
    const Tensor beyond = t->slice(2, 40, 60);
    beyond.copy_from(Tensor::full({}, nan).expand(beyond.shape()));
  }
  const AttentionResult r = attention_additive(f.q, k, v, f.w, options);
  const AttentionGradients g = attention_additive_backward(f.d_out, f.q, k, v, f.w, r, options);
  EXPECT_TRUE(same_bits(r.output, clean.output));
  EXPECT_TRUE(same_bits(g.query, clean_g.query) && same_bits(g.key, clean_g.key));
  EXPECT_TRUE(same_bits(g.additive_weight, clean_g.additive_weight));
}

// In the middle of a block that others attend to.
TEST(AttentionAdditive, KeepsGarbageBehindABooleanMaskOut) {
  const KeepSettings keep;
  const AdditiveCase f(7, 20, 60, 7, true);
  AttentionOptions options{.mask = Tensor::empty({1, 1, 1, 60}, DType::boolean), .want = {.logsumexp = true}};
  Tensor k = f.k.clone(), v = f.v.clone();
  const auto hidden = [](int64_t j) { return j == 0 || j == 17 || j == 59; };
  for (int64_t j = 0; j < 60; ++j) options.mask.data<bool>()[j] = !hidden(j);
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    AttentionResult r[2];
    AttentionGradients g[2];
    for (const int n : {0, 1}) {
      const float garbage = n == 0 ? 0.5f : std::numeric_limits<float>::quiet_NaN();
      for (int64_t j = 0; j < 60; ++j) {
        if (!hidden(j)) continue;
        for (const Tensor* t : {&k, &v}) {
          const Tensor row = t->slice(2, j, j + 1);
          row.copy_from(Tensor::full({}, garbage).expand(row.shape()));
        }
      }
      r[n] = attention_additive(f.q, k, v, f.w, options);
      g[n] = attention_additive_backward(f.d_out, f.q, k, v, f.w, r[n], options);
    }
    EXPECT_TRUE(same_bits(r[0].output, r[1].output) && same_bits(r[0].logsumexp, r[1].logsumexp)) << to_string(isa);
    EXPECT_TRUE(same_bits(g[0].query, g[1].query) && same_bits(g[0].key, g[1].key)) << to_string(isa);
    EXPECT_TRUE(same_bits(g[0].value, g[1].value)) << to_string(isa);
    EXPECT_TRUE(same_bits(g[0].additive_weight, g[1].additive_weight)) << to_string(isa);
  }
}

TEST(AttentionAdditive, SaysWhatItExpected) {
  const AdditiveCase f(6, 3, 4, 5, false);
  EXPECT_EQ(testing::message_of([&] { (void)attention_additive(f.q, f.k, f.v, Tensor::zeros({4})); }),
            "[attention_additive] weight (D) = (5) or (H, D) = (4, 5) in f32; found (4) in f32");
  EXPECT_EQ(testing::message_of([&] { (void)attention_additive(f.q, f.k, f.v, {}); }),
            "[attention_additive] weight (D) = (5) or (H, D) = (4, 5) in f32; found none");
  EXPECT_EQ(testing::message_of([&] { (void)attention_additive(f.q, f.k, f.v, f.w, {.scale = 2.0f}); }),
            "[attention_additive] no scale (it belongs into weight); found one");
}

}  // namespace
}  // namespace heed
