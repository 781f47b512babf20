// Gradients to which several heads add: the same bits whichever pass adds them up, and however many threads.
#include "attention/attention_case.h"

namespace heed {
namespace {

using testing::KeepSettings;
using testing::Random;
using testing::same_bits;

struct Operands {
  Tensor q, k, v, d_out;
};

Operands operands(Random& random, int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                  DType dtype) {
  const auto make = [&](int64_t h, int64_t rows) { return random.tensor({batch, h, rows, 16}).to(dtype); };
  return {make(heads, queries), make(kv_heads, keys), make(kv_heads, keys), make(heads, queries)};
}

AttentionGradients gradients(const Operands& x, AttentionOptions options, const AttentionWantGradients& want) {
  options.want.logsumexp = true;
  const AttentionResult r = attention(x.q, x.k, x.v, options);
  return attention_backward(x.d_out, x.q, x.k, x.v, r, options, want);
}

// The gradient of a bias of every head's own, summed into `shape` as the promise says: one by one, b before h before i.
Tensor summed(const Tensor& full, const Shape& shape) {
  const Tensor sum = Tensor::zeros(shape);
  for (int64_t b = 0; b < full.size(0); ++b) {
    for (int64_t h = 0; h < full.size(1); ++h) {
      for (int64_t i = 0; i < full.size(2); ++i) {
        for (int64_t j = 0; j < full.size(3); ++j) {
          const int64_t own[4] = {b, h, i, j};
          int64_t at = 0;
          for (int axis = 4 - sum.rank(); axis < 4; ++axis) {
            const int64_t size = shape[axis - 4 + sum.rank()];
            at = at * size + (size == 1 ? 0 : own[axis]);
          }
          sum.data<float>()[at] += full.slice(0, b, b + 1).slice(1, h, h + 1).data<float>()[i * full.size(3) + j];
        }
      }
    }
  }
  return sum;
}

TEST(SharedGradients, OfABiasAreSumsInOneOrder) {
  const KeepSettings keep;
  Random random(1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const auto& [heads, kv_heads, queries, keys] :
         {std::array<int64_t, 4>{4, 4, 130, 100}, {4, 2, 130, 70}, {4, 2, 20, 70}, {4, 4, 20, 33}, {3, 3, 49, 64}}) {
      const Operands x = operands(random, 3, heads, kv_heads, queries, keys, dtype);
      for (const Shape& shape :
           {Shape{queries, keys}, Shape{1, heads, queries, keys}, Shape{3, 1, queries, keys}, Shape{3, heads, 1, keys},
            Shape{heads, queries, 1}, Shape{1, 1, 1, keys}, Shape{3, heads, queries, keys}}) {
        AttentionOptions options{.causal = Causal::bottom_right(), .bias = random.tensor(shape)};
        AttentionOptions expanded = options;
        expanded.bias = options.bias.expand({3, heads, queries, keys}).contiguous();
        const Tensor expected = summed(gradients(x, expanded, {.bias = true}).bias, shape);
        for (const int threads : {1, 2, 5, 64}) {
          set_num_threads(threads);
          const AttentionGradients found = gradients(x, options, {.bias = true});
          ASSERT_TRUE(same_bits(found.bias, expected))
              << to_string(shape) << " of " << to_string(x.q.shape()) << ", " << threads << " threads";
          const AttentionGradients without = gradients(x, options, {});
          ASSERT_TRUE(same_bits(found.query, without.query) && same_bits(found.key, without.key) &&
                      same_bits(found.value, without.value));
        }
      }
    }
  }
}

// An entry that leads from one to the next along the rows, backwards, in steps, or nowhere: each goes another way.
struct Wandering {
  Tensor table;
  int32_t forward, step;
  template <class At>
  HEED_INLINE auto entry(const At& at) const {
    using Int = decltype(at.head());
    return at.ahead() * Int(forward) + at.key() * Int(step) + Int(40);
  }
  template <class Number, class At>
  HEED_INLINE Number operator()(const Number& score, const Number& entry, const At&) const {
    return score + entry * Number(0.5f);
  }
};

TEST(SharedGradients, OfATableHaveTheSameBitsEverywhereAndAddUp) {
  const KeepSettings keep;
  Random random(2);
  const Operands x = operands(random, 2, 2, 2, 130, 90, DType::f32);
  for (const auto& [forward, step] : {std::array<int32_t, 2>{1, 0}, {-1, 0}, {2, 1}, {0, 1}, {0, 0}, {1, 7}}) {
    const AttentionOptions options{.causal = Causal::bottom_right(),
                                   .score = Wandering{random.tensor({120}), forward, step}};
    AttentionOptions biased = options;
    biased.bias = Tensor::zeros({2, 2, 130, 90});
    set_isa(available_isas().back());
    set_num_threads(1);
    const AttentionGradients expected = gradients(x, options, {.score_table = true});
    const Tensor d_scores = gradients(x, biased, {.bias = true}).bias;  // a bias of zeros: the gradient of the scores
    std::vector<double> sums(120, 0.0);
    for (int64_t n = 0; n < d_scores.numel(); ++n) {
      const int64_t i = n / 90 % 130, j = n % 90, entry = (i - 40 - j) * forward + j * step + 40;  // offset S - L
      sums[static_cast<size_t>(std::clamp<int64_t>(entry, 0, 119))] += 0.5 * double{d_scores.data<float>()[n]};
    }
    EXPECT_TRUE(testing::close(testing::to_doubles(expected.score_table), sums, 1e-6, "table"));
    for (const Isa isa : available_isas()) {
      set_isa(isa);
      for (const int threads : {1, 3, 16}) {
        set_num_threads(threads);
        const AttentionGradients found = gradients(x, options, {.score_table = true});
        EXPECT_TRUE(same_bits(found.score_table, expected.score_table)) << to_string(isa) << ' ' << threads;
        EXPECT_TRUE(same_bits(found.query, expected.query));
      }
    }
  }
}

// Slopes and a table at once: a kernel adds to one of them at a time.
TEST(SharedGradients, OfTwoTablesAreThoseOfEach) {
  const KeepSettings keep;
  Random random(3);
  for (const int64_t kv_heads : {4, 2}) {
    for (const int64_t queries : {20, 100}) {
      const Operands x = operands(random, 2, 4, kv_heads, queries, 80, DType::f32);
      const AttentionOptions options{.alibi_slopes = random.tensor({4}),
                                     .score = score::RelativePosition{random.tensor({4, 21}), 10}};
      for (const int threads : {1, 2, 16}) {
        set_num_threads(threads);
        const AttentionGradients both = gradients(x, options, {.alibi_slopes = true, .score_table = true});
        EXPECT_TRUE(same_bits(both.alibi_slopes, gradients(x, options, {.alibi_slopes = true}).alibi_slopes));
        EXPECT_TRUE(same_bits(both.score_table, gradients(x, options, {.score_table = true}).score_table));
      }
    }
  }
}

}  // namespace
}  // namespace heed
