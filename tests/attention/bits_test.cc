// The same bits: on every instruction set, with any number of threads, alone or in a batch, whatever the strides.
#include <functional>

#include "attention/attention_case.h"

namespace heed {
namespace {

using testing::KeepSettings;
using testing::Problem;
using testing::random_case;
using testing::RandomCase;
using testing::same_bits;

struct Answer {
  AttentionResult forward;
  AttentionGradients backward;
};

Answer run(const Problem& p) {
  Answer e;
  e.forward = attention(p.q, p.k, p.v, p.options);
  e.backward = attention_backward(p.d_out, p.q, p.k, p.v, e.forward, p.options, {.bias = p.options.bias.defined()});
  return e;
}

void expect_same(const Answer& a, const Answer& b, const std::string& text) {
  EXPECT_TRUE(same_bits(a.forward.output, b.forward.output)) << text;
  EXPECT_TRUE(same_bits(a.forward.logsumexp, b.forward.logsumexp)) << text;
  EXPECT_TRUE(same_bits(a.forward.weights, b.forward.weights)) << text;
  EXPECT_TRUE(same_bits(a.backward.query, b.backward.query)) << text;
  EXPECT_TRUE(same_bits(a.backward.key, b.backward.key)) << text;
  EXPECT_TRUE(same_bits(a.backward.value, b.backward.value)) << text;
  EXPECT_TRUE(same_bits(a.backward.bias, b.backward.bias)) << text;
  EXPECT_TRUE(same_bits(a.backward.sinks, b.backward.sinks)) << text;
}

TEST(AttentionBits, DoNotDependOnTheInstructionSet) {
  const KeepSettings keep;
  const std::vector<Isa> isas = available_isas();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomCase c = random_case(seed, seed % 10 == 0 ? 600 : 70);
    set_isa(isas.back());
    const Answer best = run(c.problem);
    for (const Isa isa : isas) {
      if (isa == Isa::portable && seed % 10 == 0) continue;  // slow there
      set_isa(isa);
      ASSERT_EQ(active_isa(), isa);
      expect_same(best, run(c.problem), c.text + " on " + std::string(to_string(isa)));
    }
  }
}

TEST(AttentionBits, DoNotDependOnTheNumberOfThreads) {
  const KeepSettings keep;
  for (uint64_t seed = 100; seed < 140; ++seed) {
    const RandomCase c = random_case(seed, seed % 4 == 0 ? 1100 : 200);
    set_num_threads(1);
    const Answer one = run(c.problem);
    for (const int threads : {2, 3, 7}) {
      set_num_threads(threads);
      expect_same(one, run(c.problem), c.text + " with " + std::to_string(threads) + " threads");
    }
  }
}

// Sequence b on its own.
Problem alone(const Problem& p, int64_t b) {
  const auto cut = [b](const Tensor& t) { return t.defined() && t.size(0) > 1 ? t.slice(0, b, b + 1) : t; };
  Problem one{cut(p.q), cut(p.k), cut(p.v), cut(p.d_out), p.options};
  one.options.key_lengths = cut(p.options.key_lengths);
  one.options.mask = cut(p.options.mask);
  one.options.bias = cut(p.options.bias);
  one.options.query_documents = cut(p.options.query_documents);
  one.options.key_documents = cut(p.options.key_documents);
  return one;
}

TEST(AttentionBits, DoNotDependOnTheRestOfTheBatch) {
  int checked = 0;
  for (uint64_t seed = 200; seed < 290; ++seed) {
    RandomCase c = random_case(seed, 180);
    Problem& p = c.problem;
    if (p.q.size(0) < 2) continue;
    p.options.dropout = {};  // drawn per (seed, b, h, i, j): sequence 1 on its own draws as sequence 0
    if (p.options.mask.defined() && p.options.mask.size(0) == 1) p.options.mask = {};
    const Answer both = run(p);
    for (int64_t b = 0; b < p.q.size(0); ++b, ++checked) {
      const Answer one = run(alone(p, b));
      EXPECT_TRUE(same_bits(both.forward.output.slice(0, b, b + 1), one.forward.output)) << c.text;
      EXPECT_TRUE(same_bits(both.forward.logsumexp.slice(0, b, b + 1), one.forward.logsumexp)) << c.text;
      EXPECT_TRUE(same_bits(both.backward.query.slice(0, b, b + 1), one.backward.query)) << c.text;
      EXPECT_TRUE(same_bits(both.backward.key.slice(0, b, b + 1), one.backward.key)) << c.text;
      EXPECT_TRUE(same_bits(both.backward.value.slice(0, b, b + 1), one.backward.value)) << c.text;
    }
  }
  EXPECT_GT(checked, 40);
}

// From 12 MB on the tiles prefetch what comes after them, across heads and sequences.
TEST(AttentionBits, OfABatchLargerThanTheCacheAreThoseOfEachSequence) {
  testing::Random random(7);
  for (const int64_t kv_heads : {6, 2}) {
    for (const int64_t queries : {16, 100}) {
      const int64_t batch = 12000 / (queries * 6) * 3;
      const Problem p{random.tensor({batch, 6, queries, 48}),
                      random.tensor({batch, kv_heads, 67, 48}),
                      random.tensor({batch, kv_heads, 67, 40}),
                      random.tensor({batch, 6, queries, 40}),
                      {.causal = Causal::bottom_right(), .want = {.logsumexp = true}}};
      ASSERT_GE((p.q.numel() + p.k.numel() + p.v.numel() + p.d_out.numel()) * 4, int64_t{12} << 20);
      const Answer all = run(p);
      for (int64_t b = 0; b < batch; ++b) {
        const Answer one = run(alone(p, b));
        EXPECT_TRUE(same_bits(all.forward.output.slice(0, b, b + 1), one.forward.output)) << b;
        EXPECT_TRUE(same_bits(all.backward.query.slice(0, b, b + 1), one.backward.query)) << b;
        EXPECT_TRUE(same_bits(all.backward.key.slice(0, b, b + 1), one.backward.key)) << b;
        EXPECT_TRUE(same_bits(all.backward.value.slice(0, b, b + 1), one.backward.value)) << b;
      }
    }
  }
}

TEST(AttentionBits, DoNotDependOnStrides) {
  for (uint64_t seed = 300; seed < 380; ++seed) {
    const RandomCase c = random_case(seed, 130);
    const Problem& p = c.problem;
    const Problem dense{p.q.clone(), p.k.clone(), p.v.clone(), p.d_out.clone(), p.options};
    expect_same(run(dense), run(p), c.text);
  }
}

// A query's result does not depend on the other queries of the call: decoding and prefill agree.
TEST(AttentionBits, OfAQueryDoNotDependOnTheOtherQueries) {
  testing::Random random(9);
  const Tensor q = random.tensor({1, 4, 130, 32}), k = random.tensor({1, 2, 700, 32}),
               v = random.tensor({1, 2, 700, 32});
  const Tensor whole = attention(q, k, v, {.causal = Causal::offset(570)}).output;
  for (const int64_t i : {0, 1, 47, 48, 95, 129}) {
    const Tensor one = attention(q.slice(2, i, i + 1), k, v, {.causal = Causal::offset(570 + i)}).output;
    EXPECT_TRUE(same_bits(whole.slice(2, i, i + 1), one)) << i;
  }
}

}  // namespace
}  // namespace heed
