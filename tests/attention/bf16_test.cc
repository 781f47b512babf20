// The bf16 engines: those of this machine, and otherwise the same loops over emulated units, so that a machine without
// AVX512-BF16 and AMX tests all but the instructions themselves.
#include "kernels/attention/engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/bf16_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/bf16/units-inl.h"
#include "kernels/emulated_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// vdpbf16ps as Intel's manual has it, but for numbers below 2^-126, which the instruction takes for 0.
struct EmulatedDot {
  static HWY_INLINE UV pair(FV low, FV high) { return pair_of(low, high); }
  static HWY_INLINE FV add(FV sum, UV a, UV x) {
    const auto low = [](UV pairs) HWY_ATTR { return hn::BitCast(kF, hn::ShiftLeft<16>(pairs)); };
    const auto high = [](UV pairs) HWY_ATTR { return hn::BitCast(kF, hn::And(pairs, hn::Set(kU, 0xFFFF0000))); };
    return fma(low(a), low(x), fma(high(a), high(x), sum));
  }
};

struct EmulatedTiles : testing::EmulatedTiles {
  static HWY_INLINE UV pair(FV low, FV high) { return pair_of(low, high); }
};

// The bf16 engines with emulated units, which run on any instruction set.
constexpr kernels::Engine engine_of(const char* name, decltype(kernels::Engine::bind) bind,
                                    decltype(kernels::Engine::forward) forward,
                                    decltype(kernels::Engine::backward) backward) {
  return {.name = name,
          .accepts = kernels::suits_bf16_tiles,
          .whole_groups = false,
          .bf16_in_place = true,
          .forward_scratch = kernels::bf16_forward_scratch,
          .backward_scratch = kernels::bf16_backward_scratch,
          .bind = bind,
          .forward = forward,
          .backward = backward,
          .run_peak = nullptr};
}

constexpr kernels::Engine kVectors = engine_of(
    "bf16 tiles (emulated vectors)",
    [](kernels::AttentionGroup& group, kernels::Operands& operands, bool backward) {
      kernels::bind_bf16(group, false, backward, operands.bf16);
    },
    forward_bf16_tile<VectorPairs<EmulatedDot>>, backward_bf16_tile<VectorPairs<EmulatedDot>>);
constexpr kernels::Engine kTiles = engine_of(
    "bf16 tiles (emulated tiles)",
    [](kernels::AttentionGroup& group, kernels::Operands& operands, bool backward) {
      kernels::bind_bf16(group, true, backward, operands.bf16);
    },
    forward_bf16_tile<TilePairs<EmulatedTiles>>, backward_bf16_tile<TilePairs<EmulatedTiles>>);

const kernels::Engine* emulated_vectors() { return &kVectors; }
const kernels::Engine* emulated_tiles() { return &kTiles; }

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <array>

#include "attention/attention_case.h"
#include "heed/error.h"

namespace heed {
namespace {

HWY_EXPORT(emulated_vectors);
HWY_EXPORT(emulated_tiles);

using testing::close;
using testing::KeepSettings;
using testing::Random;
using testing::same_bits;
using testing::to_doubles;

// f() with each bf16 engine in turn.
template <class F>
void on_every_engine(const F& f) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    if (isa == Isa::portable && available_isas().size() > 1) continue;  // minutes
    if (kernels::bf16_engine() != nullptr) {
      SCOPED_TRACE(kernels::bf16_engine()->name);
      f();
      continue;
    }
    for (const kernels::Engine* const engine :
         {HWY_DYNAMIC_DISPATCH(emulated_vectors)(), HWY_DYNAMIC_DISPATCH(emulated_tiles)()}) {
      SCOPED_TRACE(std::string(engine->name) + " on " + std::string(to_string(isa)));
      kernels::ask_first(engine);
      f();
      kernels::ask_first(nullptr);
    }
  }
}

testing::Problem in_bf16(const testing::Problem& p) {
  const auto narrow = [](const Tensor& x) { return x.to(DType::bf16); };
  return {narrow(p.q), narrow(p.k), narrow(p.v), narrow(p.d_out), p.options};
}

// Lanes beyond the last query have no logsumexp: whatever the scores are, nothing of them may reach a gradient. (With
// scores of 89, 178 or 266 they once were infinities, times rows of zeros.)
TEST(AttentionBf16, LargeScoresHaveFiniteGradients) {
  on_every_engine([] {
    for (const int64_t queries : {1, 2, 3, 15, 17, 49}) {
      for (float score = 60; score < 1000; score += queries == 1 ? 0.5f : 7.25f) {
        const Tensor q = Tensor::full({1, 1, queries, 2}, score).to(DType::bf16);
        const Tensor k = Tensor::from({1.0f, 0.0f, 0.5f, 0.5f}, {1, 1, 2, 2}).to(DType::bf16);
        const Tensor v = Tensor::from({1.0f, 2.0f, 3.0f, 4.0f}, {1, 1, 2, 2}).to(DType::bf16);
        const Tensor d = Tensor::full({1, 1, queries, 2}, 1.0f).to(DType::bf16);
        const AttentionOptions options{.scale = 1.0f, .want = {.logsumexp = true}};
        const AttentionGradients g = attention_backward(d, q, k, v, attention(q, k, v, options), options);
        const double half = static_cast<double>(queries) / 2, scaled = static_cast<double>(score) * half / 2;
        ASSERT_TRUE(close(to_doubles(g.value), {half, half, half, half}, 0x1p-7, "d_value")) << score;
        // d score = weight * (d weight - mean) = 1/2 (3 - 5), 1/2 (7 - 5)
        ASSERT_TRUE(close(to_doubles(g.key), {-2 * scaled * 2, -2 * scaled * 2, 2 * scaled * 2, 2 * scaled * 2}, 0x1p-7,
                          "d_key"))
            << score;
      }
    }
  });
}

TEST(AttentionBf16, MatchTheOracleOnRandomProblems) {
  on_every_engine([] {
    for (uint64_t seed = 1; seed <= 120; ++seed) {
      testing::RandomCase c = testing::random_case(40'000 + seed, seed % 4 == 0 ? 200 : 70);
      const testing::Problem p = in_bf16(c.problem);
      c.oracle.q = to_doubles(p.q), c.oracle.k = to_doubles(p.k), c.oracle.v = to_doubles(p.v);
      c.oracle.d_out = to_doubles(p.d_out);
      const oracle::AttentionAnswer a = oracle::attention(c.oracle);
      const bool bias = p.options.bias.defined();
      const AttentionResult r = attention(p.q, p.k, p.v, p.options);
      const AttentionGradients g = attention_backward(p.d_out, p.q, p.k, p.v, r, p.options, {.bias = bias});
      // Scores are f32; weights and the output are rounded to bf16 once each, and so is what backward starts from.
      constexpr double kUnit = 0x1p-8;
      ASSERT_TRUE(close(to_doubles(r.logsumexp), a.lse, 8e-6, "logsumexp")) << c.text;
      ASSERT_TRUE(close(to_doubles(r.weights), a.weights, 1.6e-5, "weights")) << c.text;
      ASSERT_TRUE(close(to_doubles(r.output), a.out, 1.5 * kUnit, "output")) << c.text;
      ASSERT_TRUE(close(to_doubles(g.query), a.d_q, 24 * kUnit, "d_query")) << c.text;
      ASSERT_TRUE(close(to_doubles(g.key), a.d_k, 24 * kUnit, "d_key")) << c.text;
      ASSERT_TRUE(close(to_doubles(g.value), a.d_v, 3 * kUnit, "d_value")) << c.text;
      if (!bias) continue;
      const Shape scores{p.q.size(0), p.q.size(1), p.q.size(2), p.k.size(2)};
      ASSERT_TRUE(close(to_doubles(g.bias), testing::reduce_bias(a.d_bias, scores, p.options.bias.shape()), 24 * kUnit,
                        "d_bias"))
          << c.text;
    }
  });
}

// Taps come from the scores of the engine's own forward pass.
TEST(AttentionBf16, HaveTapsThatMatchTheOracle) {
  on_every_engine([] {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      testing::RandomCase c = testing::random_case(41'000 + seed, seed % 4 == 0 ? 300 : 70);
      const testing::Problem p = in_bf16(c.problem);
      c.oracle.q = to_doubles(p.q), c.oracle.k = to_doubles(p.k), c.oracle.v = to_doubles(p.v);
      const int64_t B = p.q.size(0), H = p.q.size(1), L = p.q.size(2), S = p.k.size(2);
      if (L == 0 || S == 0) continue;
      const std::vector<double> weights = oracle::attention(c.oracle).weights;
      std::vector<double> sums, first;
      for (int64_t at = 0; at < B * H; ++at) {
        for (int64_t j = 0; j < S; ++j) {
          double sum = 0;
          for (int64_t i = 0; i < L; ++i) sum += weights[static_cast<size_t>((at * L + i) * S + j)];
          sums.push_back(sum);
          if (at % H == 0) first.push_back(weights[static_cast<size_t>(at * L * S + j)]);
        }
      }
      AttentionOptions options = p.options;
      options.want = {.taps = {.column_sums = true, .map = {1, S}, .rows = {{0, 0}}}};
      const AttentionTapped tapped = attention(p.q, p.k, p.v, options).taps;
      ASSERT_TRUE(close(to_doubles(tapped.column_sums), sums, 1.6e-5, "column sums")) << c.text;
      ASSERT_TRUE(close(to_doubles(tapped.rows), first, 1.6e-5, "row")) << c.text;
      for (double& sum : sums) sum /= static_cast<double>(L);
      ASSERT_TRUE(close(to_doubles(tapped.map), sums, 1.6e-5, "map")) << c.text;
    }
  });
}

TEST(AttentionBf16, SayThatTheyRun) {
  on_every_engine([] {
    Random random(1);
    const Tensor x = random.tensor({1, 1, 64, 16}), narrow = x.to(DType::bf16);
    const std::string found = attention_plan(narrow, narrow, narrow, {}).text;
    EXPECT_NE(found.find("bf16 tiles"), std::string::npos) << found;
    EXPECT_EQ(attention_plan(x, x, x, {}).text.find("bf16 tiles"), std::string::npos);
  });
}

// Neither threads nor neighbours nor the layout show in the bits.
TEST(AttentionBf16, HaveTheSameBitsWhateverIsAround) {
  on_every_engine([] {
    Random random(2);
    const Tensor q = random.tensor({3, 4, 130, 40}).to(DType::bf16), k = random.tensor({3, 2, 300, 40}).to(DType::bf16),
                 v = random.tensor({3, 2, 300, 24}).to(DType::bf16), d = random.tensor({3, 4, 130, 24}).to(DType::bf16);
    const AttentionOptions options{
        .causal = Causal::bottom_right(), .dropout = {.rate = 0.2f, .seed = 5}, .want = {.logsumexp = true}};
    set_num_threads(1);
    const AttentionResult r = attention(q, k, v, options);
    const AttentionGradients g = attention_backward(d, q, k, v, r, options);
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      const AttentionResult s = attention(q, k, v, options);
      const AttentionGradients h = attention_backward(d, q, k, v, s, options);
      EXPECT_TRUE(same_bits(s.output, r.output) && same_bits(s.logsumexp, r.logsumexp));
      EXPECT_TRUE(same_bits(h.query, g.query) && same_bits(h.key, g.key) && same_bits(h.value, g.value));
    }
    const auto first = [](const Tensor& x) { return x.slice(0, 0, 1); };
    const AttentionResult alone = attention(first(q), first(k), first(v), options);
    EXPECT_TRUE(same_bits(alone.output, first(r.output)));
    const auto transposed = [](const Tensor& x) { return x.transpose(1, 2).contiguous().transpose(1, 2); };
    EXPECT_TRUE(same_bits(attention(transposed(q), transposed(k), transposed(v), options).output, r.output));
  });
}

// What lies two columns to a word goes another way than what does not: rows an odd number apart, columns that are.
TEST(AttentionBf16, HaveTheSameBitsWhateverTheStrides) {
  on_every_engine([] {
    Random random(4);
    for (const int64_t size : {32, 40, 6}) {
      const Tensor q = random.tensor({2, 2, 70, size}).to(DType::bf16),
                   k = random.tensor({2, 2, 90, size}).to(DType::bf16),
                   v = random.tensor({2, 2, 90, size}).to(DType::bf16);
      const AttentionOptions options{.causal = Causal::bottom_right(), .want = {.logsumexp = true}};
      const AttentionResult r = attention(q, k, v, options);
      const auto odd = [](const Tensor& x) {
        const Tensor wide = Tensor::zeros({x.size(0), x.size(1), x.size(2), x.size(3) + 1}, DType::bf16);
        const Tensor inside = wide.slice(3, 1, x.size(3) + 1);
        inside.copy_from(x);
        return inside;
      };
      const auto apart = [](const Tensor& x) { return x.transpose(2, 3).contiguous().transpose(2, 3); };
      for (const auto& [queries, keys, values] : {std::array{odd(q), odd(k), odd(v)},
                                                  {apart(q), apart(k), apart(v)},
                                                  {q, odd(k), apart(v)},
                                                  {odd(q), k, v}}) {
        const AttentionResult s = attention(queries, keys, values, options);
        EXPECT_TRUE(same_bits(s.output, r.output) && same_bits(s.logsumexp, r.logsumexp)) << size;
      }
      AttentionOptions elsewhere = options;
      elsewhere.want.output = odd(q);
      EXPECT_TRUE(same_bits(attention(q, k, v, elsewhere).output, r.output)) << size;
    }
  });
}

// NaN and infinity behind a mask change no bit; attended, they spoil what attends to them and nothing else.
TEST(AttentionBf16, KeepWhatIsNotFiniteInItsPlace) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  Tensor mask = Tensor::empty({1, 1, 100, 200}, DType::boolean);
  for (int64_t n = 0; n < 100 * 200; ++n) mask.data<bool>()[n] = n % 200 != 77 || n / 200 == 3;  // key 77: query 3 only
  on_every_engine([&] {
    for (const float garbage : {kNaN, kInfinity, -kInfinity}) {
      Random random(3);
      const Tensor q = random.tensor({1, 1, 100, 32}), k = random.tensor({1, 1, 200, 32}),
                   v = random.tensor({1, 1, 200, 32}), d = random.tensor({1, 1, 100, 32});
      const AttentionOptions options{.mask = mask, .want = {.logsumexp = true}};
      const auto run = [&] {
        const Tensor bq = q.to(DType::bf16), bk = k.to(DType::bf16), bv = v.to(DType::bf16), bd = d.to(DType::bf16);
        const AttentionResult r = attention(bq, bk, bv, options);
        return std::pair{r, attention_backward(bd, bq, bk, bv, r, options)};
      };
      const auto [clean, clean_g] = run();
      v.data<float>()[77 * 32 + 5] = garbage;
      const auto [r, g] = run();
      for (int64_t i = 0; i < 100; ++i) {
        const auto row = [i](const Tensor& x) { return x.slice(2, i, i + 1); };
        if (i != 3) {
          EXPECT_TRUE(same_bits(row(r.output), row(clean.output))) << i;
          EXPECT_TRUE(same_bits(row(g.query), row(clean_g.query))) << i;
        }
      }
      const std::vector<double> spoilt = to_doubles(r.output.slice(2, 3, 4));
      for (size_t n = 0; n < spoilt.size(); ++n) EXPECT_EQ(std::isfinite(spoilt[n]), n != 5) << n;
      for (int64_t d_index = 0; d_index < 32; ++d_index) k.data<float>()[77 * 32 + d_index] = garbage;
      const auto [s, h] = run();
      for (int64_t i = 0; i < 100; ++i) {
        const auto row = [i](const Tensor& x) { return x.slice(2, i, i + 1); };
        if (i != 3) {
          EXPECT_TRUE(same_bits(row(s.output), row(clean.output))) << i;
          EXPECT_TRUE(same_bits(row(h.query), row(clean_g.query))) << i;
        }
      }
      // A row of the output's gradient, of query 3: only what query 3 sees may notice, which is everything; so mask it
      // out of half the keys first.
      for (int64_t j = 0; j < 100; ++j) mask.data<bool>()[3 * 200 + j] = false;
      v.data<float>()[77 * 32 + 5] = 0.5f;
      for (int64_t d_index = 0; d_index < 32; ++d_index) k.data<float>()[77 * 32 + d_index] = 0.25f;
      // With -inf against these every score of query 3 is -inf: its weights are 0, and 0 times -inf is NaN.
      for (int64_t j = 0; j < 200; ++j) k.data<float>()[j * 32 + 2] = 1;
      const auto [before, before_g] = run();
      d.data<float>()[3 * 32 + 1] = garbage;
      q.data<float>()[3 * 32 + 2] = garbage;
      const auto [after, after_g] = run();
      const auto early = [](const Tensor& x) { return x.slice(2, 0, 100); };
      EXPECT_TRUE(same_bits(early(after_g.key), early(before_g.key)));
      EXPECT_TRUE(same_bits(early(after_g.value), early(before_g.value)));
      const auto wide = [](const Tensor& x) { return x.to(DType::bf16).to(DType::f32); };
      const AttentionResult f32 = attention(wide(q), wide(k), wide(v), options);
      const AttentionGradients f32_g = attention_backward(wide(d), wide(q), wide(k), wide(v), f32, options);
      for (const auto& [found, expected] : {std::pair{after_g.key, f32_g.key},
                                            {after_g.value, f32_g.value},
                                            {after_g.query, f32_g.query},
                                            {after.output, f32.output}}) {
        const std::vector<double> a = to_doubles(found), b = to_doubles(expected);
        for (size_t n = 0; n < a.size(); ++n) ASSERT_EQ(std::isfinite(a[n]), std::isfinite(b[n])) << n;
      }
      for (int64_t j = 0; j < 100; ++j) mask.data<bool>()[3 * 200 + j] = true;
    }
  });
}

// The error against f64 is no larger than that of the plain formula in bf16: scores, weights and output each rounded.
// Columns behind the last whole vector are looked at one by one.
TEST(AttentionBf16, KeepWhatIsNotFiniteInTheLastColumns) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  Tensor mask = Tensor::full({1, 1, 60, 70}, 1).to(DType::boolean);
  for (int64_t i = 0; i < 60; ++i) mask.data<bool>()[i * 70 + 66] = i == 3;  // key 66: query 3 only
  on_every_engine([&] {
    for (const float garbage : {kNaN, kInfinity, -kInfinity}) {
      Random random(4);
      const Tensor q = random.tensor({1, 1, 60, 20}).to(DType::bf16), k = random.tensor({1, 1, 70, 20}).to(DType::bf16);
      const Tensor v = random.tensor({1, 1, 70, 37});
      const AttentionOptions options{.mask = mask};
      const Tensor clean = attention(q, k, v.to(DType::bf16), options).output;
      v.data<float>()[66 * 37 + 36] = garbage;
      const Tensor spoilt = attention(q, k, v.to(DType::bf16), options).output;
      for (int64_t i = 0; i < 60; ++i) {
        const auto row = [i](const Tensor& x) { return x.slice(2, i, i + 1); };
        if (i != 3) {
          EXPECT_TRUE(same_bits(row(spoilt), row(clean))) << i;
          continue;
        }
        const std::vector<double> values = to_doubles(row(spoilt));
        for (size_t n = 0; n < values.size(); ++n) EXPECT_EQ(std::isfinite(values[n]), n != 36) << n;
      }
    }
  });
}

TEST(AttentionBf16, AreMoreAccurateThanThePlainFormula) {
  on_every_engine([] {
    for (const int64_t size : {64, 80, 128}) {
      Random random(static_cast<uint64_t>(size));
      const int64_t queries = 64, keys = 300;
      const Tensor q = random.tensor({1, 1, queries, size}, 2).to(DType::bf16),
                   k = random.tensor({1, 1, keys, size}, 2).to(DType::bf16),
                   v = random.tensor({1, 1, keys, size}).to(DType::bf16);
      const std::vector<double> found = to_doubles(attention(q, k, v).output);
      const std::vector<double> qd = to_doubles(q), kd = to_doubles(k), vd = to_doubles(v);
      const auto round = [](double x) { return static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(x)))); };
      double error = 0, plain_error = 0;
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<double> exact(static_cast<size_t>(keys)), plain(static_cast<size_t>(keys));
        double sum = 0, plain_sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < size; ++c)
            dot += qd[static_cast<size_t>(i * size + c)] * kd[static_cast<size_t>(j * size + c)];
          dot /= std::sqrt(static_cast<double>(size));
          sum += exact[static_cast<size_t>(j)] = std::exp(dot);
          plain_sum += plain[static_cast<size_t>(j)] = std::exp(round(dot));
        }
        for (int64_t c = 0; c < size; ++c) {
          double out = 0, plain_out = 0;
          for (int64_t j = 0; j < keys; ++j) {
            const double value = vd[static_cast<size_t>(j * size + c)];
            out += exact[static_cast<size_t>(j)] / sum * value;
            plain_out += round(plain[static_cast<size_t>(j)] / plain_sum) * value;
          }
          error += std::fabs(found[static_cast<size_t>(i * size + c)] - out);
          plain_error += std::fabs(round(plain_out) - out);
        }
      }
      EXPECT_LE(error, plain_error) << size;
    }
  });
}

}  // namespace
}  // namespace heed
#endif
