// Score functions: against the oracle, finite differences in double precision, and themselves on every instruction set.
#include "heed/score.h"

#include "attention/attention_case.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {
namespace {

using testing::close;
using testing::KeepSettings;
using testing::Problem;
using testing::Random;
using testing::same_bits;
using testing::to_doubles;

// score - w_h log(1 + |i + offset - j|), as in the header's example.
struct LogDistance {
  Tensor table;
  template <class At>
  HEED_INLINE auto entry(const At& at) const {
    return at.head();
  }
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& score, const Number& w, const At& at) const {
    return score - w * log(Number(1.0f) + Number(abs(at.distance())));
  }
};

// A function that uses everything: sequence, head, query and key, and is not linear in the score.
struct AnyScore {
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& score, const At& at) const {
    const Number tilt(to_real(at.head() - at.key()) * 0.01f);
    const Number bent = select(score > Number(0.0f), score * score * 0.25f, exp(score) - 1.0f);
    return max(min(bent + tilt, Number(5.0f)), tanh(score)) + Number(to_real(at.query())) * 0.02f +
           static_cast<float>(at.sequence());
  }
};
double everything(double s, int64_t b, int64_t h, int64_t i, int64_t j) {
  const double tilt = static_cast<double>(h - j) * static_cast<double>(0.01f);
  const double bent = s > 0 ? s * s * 0.25 : std::exp(s) - 1;
  return std::max(std::min(bent + tilt, 5.0), std::tanh(s)) + static_cast<double>(i) * static_cast<double>(0.02f) +
         static_cast<double>(b);
}

// A derivative of one's own: that of s |s|, where none of the operations tells it.
struct OwnDerivative {
  template <class Real, class At>
  HEED_INLINE Real operator()(const Real& score, const At&) const {
    return score * abs(score);
  }
  template <class Real, class At>
  HEED_INLINE Real derivative(const Real& score, const At&) const {
    return abs(score) * 2.0f;
  }
};

// sum(out * d_out), in double precision.
double loss(const oracle::AttentionCase& c) {
  const oracle::AttentionAnswer a = oracle::attention(c);
  double sum = 0;
  for (size_t n = 0; n < a.out.size(); ++n) sum += a.out[n] * c.d_out[n];
  return sum;
}

std::vector<double> slope_by(oracle::AttentionCase c, std::vector<double>& numbers,
                             const std::function<void(oracle::AttentionCase&)>& set) {
  std::vector<double> gradient;
  for (double& x : numbers) {
    const double before = x, step = 1e-5;
    x = before + step, set(c);
    const double above = loss(c);
    x = before - step, set(c);
    const double below = loss(c);
    x = before, set(c);
    gradient.push_back((above - below) / (2 * step));
  }
  return gradient;
}

Problem small(Random& random) {
  Problem p;
  p.q = random.tensor({2, 4, 9, 8});
  p.k = random.tensor({2, 2, 11, 8});
  p.v = random.tensor({2, 2, 11, 5});
  p.d_out = random.tensor({2, 4, 9, 5});
  p.options.want.logsumexp = true;
  return p;
}

void expect_oracle(const Problem& p, oracle::AttentionCase& c, const AttentionWantGradients& want,
                   AttentionGradients& gradients) {
  const AttentionResult r = attention(p.q, p.k, p.v, p.options);
  gradients = attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, want);
  const oracle::AttentionAnswer a = oracle::attention(c);
  EXPECT_TRUE(close(to_doubles(r.output), a.out, 2e-6, "output"));
  EXPECT_TRUE(close(to_doubles(r.logsumexp), a.lse, 2e-6, "logsumexp"));
  for (const auto& [found, numbers, set] :
       {std::tuple{gradients.query, c.q,
                   std::function([](oracle::AttentionCase& x) -> std::vector<double>& { return x.q; })},
        {gradients.key, c.k, [](oracle::AttentionCase& x) -> std::vector<double>& { return x.k; }}}) {
    std::vector<double> values = numbers;
    const auto expected = slope_by(c, values, [&](oracle::AttentionCase& x) { set(x) = values; });
    EXPECT_TRUE(close(to_doubles(found), expected, 2e-5, "gradient"));
  }
  EXPECT_TRUE(close(to_doubles(gradients.value), a.d_v, 5e-6, "d_v"));
  // The reference in double precision, and its gradients.
  Problem d = p;
  for (Tensor* t : {&d.q, &d.k, &d.v, &d.d_out}) *t = t->to(DType::f64);
  const AttentionResult plain = reference::attention(d.q, d.k, d.v, p.options);
  EXPECT_TRUE(close(to_doubles(plain.output), a.out, 1e-7, "reference"));
  const AttentionGradients g = reference::attention_backward(d.d_out, d.q, d.k, d.v, p.options);
  EXPECT_TRUE(close(to_doubles(gradients.query), to_doubles(g.query), 1e-5, "reference d_q"));
  EXPECT_TRUE(close(to_doubles(gradients.key), to_doubles(g.key), 1e-5, "reference d_k"));
  if (want.score_table) {
    EXPECT_TRUE(close(to_doubles(gradients.score_table), to_doubles(g.score_table), 1e-5, "reference d_table"));
  }
  if (want.alibi_slopes) {
    EXPECT_TRUE(close(to_doubles(gradients.alibi_slopes), to_doubles(g.alibi_slopes), 1e-5, "reference d_slopes"));
  }
}

TEST(ScoreFunction, SeesSequenceHeadQueryAndKey) {
  Random random(21);
  Problem p = small(random);
  p.options.score = AnyScore{};
  oracle::AttentionCase c = testing::oracle_case(p, oracle::AttentionCase::Causal::none, 0);
  c.score = everything;
  AttentionGradients g;
  expect_oracle(p, c, {}, g);
}

TEST(ScoreFunction, MayBringItsDerivative) {
  Random random(22);
  Problem p = small(random);
  p.options.score = OwnDerivative{};
  p.options.causal = Causal::bottom_right();
  oracle::AttentionCase c = testing::oracle_case(p, oracle::AttentionCase::Causal::bottom_right, 0);
  c.score = [](double s, int64_t, int64_t, int64_t, int64_t) { return s * std::abs(s); };
  AttentionGradients g;
  expect_oracle(p, c, {}, g);
}

TEST(ScoreFunction, ItsTableGetsAGradient) {
  Random random(23);
  Problem p = small(random);
  const Tensor weights = random.tensor({4});
  p.options.score = LogDistance{weights};
  p.options.softcap = 1.5f;
  p.options.alibi_slopes = random.tensor({4}, 0.3);
  oracle::AttentionCase c = testing::oracle_case(p, oracle::AttentionCase::Causal::none, 0);
  std::vector<double> w = to_doubles(weights);
  // The oracle's ALiBi acts after `score`, here it acts before: both only add, so the order does not matter.
  c.score = [&w](double s, int64_t, int64_t h, int64_t i, int64_t j) {
    return s - w[static_cast<size_t>(h)] * std::log(1 + std::fabs(static_cast<double>(i + 2 - j)));
  };
  AttentionGradients g;
  expect_oracle(p, c, {.alibi_slopes = true, .score_table = true}, g);
  EXPECT_TRUE(close(to_doubles(g.score_table), slope_by(c, w, [](oracle::AttentionCase&) {}), 2e-5, "table"));
  std::vector<double> slopes = c.slopes;
  const auto d_slopes = slope_by(c, slopes, [&](oracle::AttentionCase& x) { x.slopes = slopes; });
  EXPECT_TRUE(close(to_doubles(g.alibi_slopes), d_slopes, 2e-5, "slopes"));
}

// A table that multiplies the score: its derivative must not be taken through the function's own derivative.
struct Temperature {
  Tensor table;  // (H)
  HEED_INLINE auto entry(const auto& at) const { return at.head(); }
  template <class Number>
  HEED_INLINE Number operator()(const Number& score, const Number& t, const auto&) const {
    return score * t;
  }
};

TEST(ScoreFunction, ATableMayMultiplyTheScore) {
  Random random(29);
  Problem p = small(random);
  const Tensor temperatures = random.tensor({4}, 3);
  p.options.score = Temperature{temperatures};
  p.options.softcap = 2;
  oracle::AttentionCase c = testing::oracle_case(p, oracle::AttentionCase::Causal::none, 0);
  std::vector<double> t = to_doubles(temperatures);
  c.score = [&t](double s, int64_t, int64_t h, int64_t, int64_t) { return s * t[static_cast<size_t>(h)]; };
  AttentionGradients g;
  expect_oracle(p, c, {.score_table = true}, g);
  EXPECT_TRUE(close(to_doubles(g.score_table), slope_by(c, t, [](oracle::AttentionCase&) {}), 2e-5, "table"));
}

TEST(ScoreFunction, RelativePositionsWithTheirGradient) {
  Random random(24);
  Problem p = small(random);
  const Tensor table = random.tensor({4, 7});
  p.options.score = score::RelativePosition{table, 3};
  p.options.causal = Causal::offset(1);
  oracle::AttentionCase c = testing::oracle_case(p, oracle::AttentionCase::Causal::offset, 1);
  std::vector<double> t = to_doubles(table);
  c.score = [&t](double s, int64_t, int64_t h, int64_t i, int64_t j) {
    return s + t[static_cast<size_t>(h * 7 + std::clamp<int64_t>(i + 1 - j, -3, 3) + 3)];
  };
  AttentionGradients g;
  expect_oracle(p, c, {.score_table = true}, g);
  EXPECT_EQ(g.score_table.shape(), table.shape());
  EXPECT_TRUE(close(to_doubles(g.score_table), slope_by(c, t, [](oracle::AttentionCase&) {}), 2e-5, "table"));
}

TEST(ScoreFunction, HasTheSameBitsEverywhere) {
  const KeepSettings keep;
  for (uint64_t seed = 300; seed < 330; ++seed) {
    testing::RandomCase c = testing::random_case(seed, seed % 5 == 0 ? 700 : 90);
    Problem& p = c.problem;
    Random random(seed);
    const int64_t H = p.q.size(1);
    switch (seed % 3) {
      case 0: p.options.score = AnyScore{}; break;
      case 1: p.options.score = LogDistance{random.tensor({H})}; break;
      default: p.options.score = score::RelativePosition{random.tensor({H, 21}), 10};
    }
    const AttentionWantGradients want{.alibi_slopes = p.options.alibi_slopes.defined(), .score_table = seed % 3 != 0};
    set_isa(available_isas().back());
    set_num_threads(1);
    const AttentionResult best = attention(p.q, p.k, p.v, p.options);
    const AttentionGradients d = attention_backward(p.d_out, p.q, p.k, p.v, best, p.options, want);
    const int64_t rows = std::min<int64_t>(p.q.size(2), 1);  // the decode engine agrees with the tiles
    if (!p.options.mask.defined() && !p.options.bias.defined() && !p.options.query_documents.defined()) {
      AttentionOptions o = p.options;
      o.want = {.logsumexp = true};
      const int64_t offset = p.q.size(2) - rows;
      if (!o.causal.enabled() && o.window.left < 0 && o.window.right < 0 && offset == 0) {
        EXPECT_TRUE(same_bits(attention(p.q.slice(2, 0, rows), p.k, p.v, o).output, best.output.slice(2, 0, rows)));
      }
    }
    for (const Isa isa : available_isas()) {
      if (isa == Isa::portable && seed % 5 == 0) continue;  // slow there
      set_isa(isa);
      set_num_threads(static_cast<int>(random.integer(2, 7)));
      const AttentionResult r = attention(p.q, p.k, p.v, p.options);
      ASSERT_TRUE(same_bits(r.output, best.output)) << c.text << " on " << to_string(isa);
      ASSERT_TRUE(same_bits(r.logsumexp, best.logsumexp)) << c.text;
      ASSERT_TRUE(same_bits(r.weights, best.weights)) << c.text;
      const AttentionGradients e = attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, want);
      ASSERT_TRUE(same_bits(e.query, d.query)) << c.text;
      ASSERT_TRUE(same_bits(e.key, d.key)) << c.text;
      ASSERT_TRUE(same_bits(e.score_table, d.score_table)) << c.text;
      ASSERT_TRUE(same_bits(e.alibi_slopes, d.alibi_slopes)) << c.text;
    }
  }
}

// Whether or not this machine can run them.
TEST(ScoreFunction, HasCodeForEveryInstructionSet) {
  const Score s = score::Softcap{5.0f};
  for (const Isa isa : {Isa::avx512bf16, Isa::amx}) EXPECT_EQ(s.run(isa), s.run(Isa::avx512)) << to_string(isa);
  for (const Isa isa : available_isas()) {
    alignas(64) float scores[16];
    constexpr int32_t places[16] = {};
    std::fill_n(scores, 16, 10.0f);
    score::Block block;
    block.scores = scores, block.head = block.query = block.key = places;
    block.width = 16, block.lines = 1;
    s.run(isa)(s.function(), block);
    EXPECT_NEAR(scores[15], 5.0 * std::tanh(2.0), 1e-6) << to_string(isa);
  }
}

TEST(ScoreFunction, RefusesWhatDoesNotFit) {
  Random random(25);
  Problem p = small(random);
  AttentionOptions o;
  o.score = LogDistance{};
  EXPECT_THROW((void)attention(p.q, p.k, p.v, o), Error);
  o.score = LogDistance{random.tensor({4}).to(DType::f64)};
  EXPECT_THROW((void)attention(p.q, p.k, p.v, o), Error);
  const AttentionResult r = attention(p.q, p.k, p.v, p.options);
  EXPECT_THROW((void)attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, {.score_table = true}), Error);
  EXPECT_THROW((void)attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, {.alibi_slopes = true}), Error);
  // An entry beyond the table is the nearest one of it: two numbers for four heads.
  AttentionOptions two, four;
  two.score = LogDistance{Tensor::from({0.5f, 1.5f}, {2})};
  four.score = LogDistance{Tensor::from({0.5f, 1.5f, 1.5f, 1.5f}, {4})};
  EXPECT_TRUE(same_bits(attention(p.q, p.k, p.v, two).output, attention(p.q, p.k, p.v, four).output));
}

// Units in the last place of `expected`, a normal number.
double units(float found, double expected) {
  int exponent = 0;
  (void)std::frexp(expected, &exponent);
  return std::fabs(static_cast<double>(found) - expected) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

TEST(ScoreLanes, ElementaryFunctionsAreAccurate) {
  using score::Lanes;
  double worst_exp = 0, worst_log = 0, worst_tanh = 0;
  Random random(26);
  for (int n = 0; n < 20000; ++n) {
    Lanes x, y;
    for (int lane = 0; lane < 16; ++lane) {
      x.v[lane] = static_cast<float>(random.uniform(-87, 88));
      y.v[lane] = static_cast<float>(std::exp2(random.uniform(-126, 127.9)));
    }
    const Lanes e = exp(x), l = log(y), t = tanh(x * 0.1f), s = tanh(x * 0.01f);
    for (int lane = 0; lane < 16; ++lane) {
      const double at = static_cast<double>(x.v[lane]);
      worst_exp = std::max(worst_exp, units(e.v[lane], std::exp(at)));
      worst_log = std::max(worst_log, units(l.v[lane], std::log(static_cast<double>(y.v[lane]))));
      worst_tanh = std::max(worst_tanh, units(t.v[lane], std::tanh(static_cast<double>(x.v[lane] * 0.1f))));
      worst_tanh = std::max(worst_tanh, units(s.v[lane], std::tanh(static_cast<double>(x.v[lane] * 0.01f))));
    }
  }
  EXPECT_LT(worst_exp, 2);
  EXPECT_LT(worst_log, 2);
  EXPECT_LT(worst_tanh, 2);
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp(Lanes(-inf)).v[0], 0);
  EXPECT_EQ(exp(Lanes(inf)).v[0], inf);
  EXPECT_EQ(exp(Lanes(0.0f)).v[0], 1);
  EXPECT_TRUE(std::isnan(exp(Lanes(std::nanf(""))).v[0]));
  EXPECT_EQ(log(Lanes(0.0f)).v[0], -inf);
  EXPECT_EQ(log(Lanes(inf)).v[0], inf);
  EXPECT_TRUE(std::isnan(log(Lanes(-1.0f)).v[0]));
  EXPECT_EQ(tanh(Lanes(inf)).v[0], 1);
  EXPECT_EQ(tanh(Lanes(-inf)).v[0], -1);
}

// The fused engine against attention pooling with the same kernel, and its gradients against finite differences.
TEST(AttentionRadial, IsPoolingWithThatKernel) {
  Random random(27);
  const Tensor q = random.tensor({1, 1, 40, 3}), k = random.tensor({1, 1, 70, 3}), v = random.tensor({1, 1, 70, 6});
  const auto rows = [](const Tensor& t) { return t.reshape({t.size(2), t.size(3)}); };
  const std::pair<Score, alpha::Kernel> kernels[] = {{score::Gaussian{0.5f}, alpha::gaussian(0.5f)},
                                                     {score::Boxcar{0.6f}, alpha::boxcar(0.6f)},
                                                     {score::Epanechnikov{0.8f}, alpha::epanechnikov(0.8f)}};
  for (const auto& [log_alpha, alpha] : kernels) {
    const AttentionResult fused = attention_radial(q, k, v, log_alpha, {.want = {.logsumexp = true, .weights = true}});
    const PoolingResult plain = attention_pooling(rows(q), rows(k), rows(v), alpha);
    EXPECT_TRUE(close(to_doubles(fused.output), to_doubles(plain.output), 1e-5, "output"));
    EXPECT_TRUE(close(to_doubles(fused.weights), to_doubles(plain.weights), 1e-5, "weights"));
  }
  const Tensor far = Tensor::full({1, 1, 1, 3}, 100);  // nothing within reach
  EXPECT_EQ(attention_radial(far, k, v, score::Boxcar{0.6f}).output.at({0, 0, 0, 0}), 0);
}

// At a distance of 0 the root in Epanechnikov's kernel has no derivative.
TEST(AttentionRadial, AKeyAtTheQueryHasFiniteGradients) {
  const Tensor q = Tensor::from({0.0f, 0.0f, 1.0f, 0.0f}, {1, 1, 2, 2}),
               k = Tensor::from({0.0f, 0.0f, 0.5f, 0.5f, 3.0f, 0.0f}, {1, 1, 3, 2}),
               v = Tensor::from({1.0f, 2.0f, 4.0f}, {1, 1, 3, 1}), d = Tensor::full({1, 1, 2, 1}, 1.0f);
  const AttentionOptions options{.want = {.logsumexp = true}};
  const Score tent = score::Epanechnikov{2};
  const AttentionGradients g =
      attention_radial_backward(d, q, k, v, tent, attention_radial(q, k, v, tent, options), options);
  for (const Tensor& gradient : {g.query, g.key, g.value})
    for (const double x : to_doubles(gradient)) EXPECT_TRUE(std::isfinite(x));
  EXPECT_THROW((void)score::Gaussian(0), Error);
  EXPECT_THROW((void)score::Boxcar(-2), Error);
  EXPECT_THROW((void)score::Epanechnikov(std::numeric_limits<float>::quiet_NaN()), Error);
}

TEST(AttentionRadial, HasTheGradientsOfTheFormula) {
  Random random(28);
  const Tensor q = random.tensor({2, 2, 5, 4}), k = random.tensor({2, 1, 7, 4}), v = random.tensor({2, 1, 7, 3}),
               d = random.tensor({2, 2, 5, 3});
  const AttentionOptions options{.causal = Causal::offset(3), .want = {.logsumexp = true}};
  const Score gaussian = score::Gaussian{0.9f};
  const AttentionGradients g =
      attention_radial_backward(d, q, k, v, gaussian, attention_radial(q, k, v, gaussian, options), options);
  const auto loss_of = [&](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t i = 0; i < 5; ++i) {
          double total = 0;
          std::vector<double> w(7, 0.0);
          for (int64_t j = 0; j <= std::min<int64_t>(i + 3, 6); ++j) {
            double square = 0;
            for (int64_t e = 0; e < 4; ++e) {
              const double x =
                  a[static_cast<size_t>(((n * 2 + h) * 5 + i) * 4 + e)] - b[static_cast<size_t>((n * 7 + j) * 4 + e)];
              square += x * x;
            }
            const double width = static_cast<double>(0.9f);
            total += w[static_cast<size_t>(j)] = std::exp(-square / (2 * width * width));
          }
          for (int64_t j = 0; j < 7; ++j) {
            for (int64_t e = 0; e < 3; ++e) {
              sum += w[static_cast<size_t>(j)] / total * v.at({n, 0, j, e}) * d.at({n, h, i, e});
            }
          }
        }
      }
    }
    return sum;
  };
  std::vector<double> a = to_doubles(q), b = to_doubles(k), d_a, d_b;
  for (auto [numbers, gradient] : {std::pair{&a, &d_a}, {&b, &d_b}}) {
    for (double& x : *numbers) {
      const double before = x;
      x = before + 1e-5;
      const double above = loss_of(a, b);
      x = before - 1e-5;
      const double below = loss_of(a, b);
      x = before;
      gradient->push_back((above - below) / 2e-5);
    }
  }
  EXPECT_TRUE(close(to_doubles(g.query), d_a, 1e-5, "d_q"));
  EXPECT_TRUE(close(to_doubles(g.key), d_b, 1e-5, "d_k"));
}

}  // namespace
}  // namespace heed
