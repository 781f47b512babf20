// Packed ragged batches against the same sequences one at a time, and in a padded batch: the same memory.
#include <numeric>

#include "attention/attention_case.h"
#include "base/message.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {
namespace {

using testing::close;
using testing::KeepSettings;
using testing::Random;
using testing::same_bits;
using testing::to_doubles;

struct Batch {
  std::vector<int32_t> queries{0}, keys{0};
  Tensor q, k, v, d_out;
  CuSeqlens lengths;
  [[nodiscard]] size_t size() const { return queries.size() - 1; }
};

Batch random_batch(Random& random, int64_t sequences, int64_t longest, int64_t heads, int64_t kv_heads) {
  Batch batch;
  for (int64_t b = 0; b < sequences; ++b) {
    const auto length = [&] { return static_cast<int32_t>(random.chance(0.15) ? 0 : random.integer(1, longest)); };
    batch.queries.push_back(batch.queries.back() + length());
    batch.keys.push_back(batch.keys.back() + length());
  }
  batch.q = random.tensor({batch.queries.back(), heads, 16}, 2);
  batch.k = random.tensor({batch.keys.back(), kv_heads, 16}, 2);
  batch.v = random.tensor({batch.keys.back(), kv_heads, 24});
  batch.d_out = random.tensor({batch.queries.back(), heads, 24});
  const auto tensor = [](const std::vector<int32_t>& values) {
    return Tensor::from(std::span<const int32_t>(values), {static_cast<int64_t>(values.size())});
  };
  batch.lengths = {tensor(batch.queries), tensor(batch.keys)};
  return batch;
}

// Rows [begin, end) of (T, H, D) as (1, H, L, D), copied.
Tensor sequence(const Tensor& packed, int32_t begin, int32_t end) {
  return packed.slice(0, begin, end).transpose(0, 1).clone().reshape({1, packed.size(1), end - begin, packed.size(2)});
}

AttentionWantGradients want_all(const AttentionOptions& o) {
  return {.alibi_slopes = o.alibi_slopes.defined(), .score_table = o.score.defined()};
}

std::vector<AttentionOptions> rules(Random& random, int64_t heads) {
  std::vector<AttentionOptions> list(7);
  list[1].causal = Causal::bottom_right();
  list[2].causal = Causal::top_left();
  list[2].softcap = 2;
  list[3].window = {.left = 5, .right = 3};
  list[3].scale = 0.3f;
  list[4].alibi_slopes = random.tensor({heads});
  list[5].sinks = random.tensor({heads});
  list[5].causal = Causal::bottom_right();
  list[6].score = score::RelativePosition{random.tensor({heads, 9}), 4};
  list[6].alibi_slopes = random.tensor({heads});
  return list;
}

// Adds the gradients of every sequence, where they are wanted.
void add(const Tensor& gradient, std::vector<double>& sums) {
  if (!gradient.defined()) return;
  const std::vector<double> numbers = to_doubles(gradient);
  sums.resize(numbers.size());
  for (size_t n = 0; n < numbers.size(); ++n) sums[n] += numbers[n];
}

TEST(AttentionVarlen, HasTheBitsOfEverySequenceAlone) {
  Random random(1);
  for (int trial = 0; trial < 9; ++trial) {
    const DType dtype = trial % 3 == 0 ? DType::f32 : trial % 3 == 1 ? DType::bf16 : DType::f16;
    Batch batch = random_batch(random, trial == 0 ? 0 : 7, trial % 2 == 0 ? 40 : 150, 4, 2);
    for (Tensor* tensor : {&batch.q, &batch.k, &batch.v, &batch.d_out}) *tensor = tensor->to(dtype);
    for (AttentionOptions& o : rules(random, 4)) {
      o.want.logsumexp = true;
      const AttentionResult all = attention_varlen(batch.q, batch.k, batch.v, batch.lengths, o);
      const AttentionGradients gradients =
          attention_varlen_backward(batch.d_out, batch.q, batch.k, batch.v, batch.lengths, all, o, want_all(o));
      EXPECT_EQ(all.output.dtype(), dtype);
      std::vector<double> sinks(4), slopes(4), table(36);
      for (size_t b = 0; b < batch.size(); ++b) {
        const int32_t q0 = batch.queries[b], q1 = batch.queries[b + 1], k0 = batch.keys[b], k1 = batch.keys[b + 1];
        const Tensor q = sequence(batch.q, q0, q1), k = sequence(batch.k, k0, k1), v = sequence(batch.v, k0, k1);
        const AttentionResult one = attention(q, k, v, o);
        EXPECT_TRUE(same_bits(sequence(all.output, q0, q1), one.output)) << trial << " sequence " << b;
        EXPECT_TRUE(same_bits(all.logsumexp.slice(1, q0, q1).clone().reshape(one.logsumexp.shape()), one.logsumexp));
        const AttentionGradients g = attention_backward(sequence(batch.d_out, q0, q1), q, k, v, one, o, want_all(o));
        EXPECT_TRUE(same_bits(sequence(gradients.query, q0, q1), g.query)) << trial << " sequence " << b;
        EXPECT_TRUE(same_bits(sequence(gradients.key, k0, k1), g.key)) << trial << " sequence " << b;
        EXPECT_TRUE(same_bits(sequence(gradients.value, k0, k1), g.value)) << trial << " sequence " << b;
        add(g.sinks, sinks);
        add(g.alibi_slopes, slopes);
        add(g.score_table, table);
      }
      EXPECT_EQ(gradients.sinks.defined(), o.sinks.defined());
      EXPECT_EQ(gradients.alibi_slopes.defined(), o.alibi_slopes.defined());
      EXPECT_EQ(gradients.score_table.defined(), o.score.defined());
      if (o.sinks.defined()) {
        EXPECT_TRUE(close(to_doubles(gradients.sinks), sinks, 1e-6, "sinks"));
      }
      if (o.alibi_slopes.defined()) {
        EXPECT_TRUE(close(to_doubles(gradients.alibi_slopes), slopes, 1e-6, "slopes"));
      }
      if (o.score.defined()) {
        EXPECT_TRUE(close(to_doubles(gradients.score_table), table, 1e-6, "table"));
      }
    }
  }
}

TEST(AttentionVarlen, RefusesWhatIsNotThere) {
  Random random(4);
  Batch batch = random_batch(random, 3, 20, 2, 1);
  AttentionOptions o;
  o.want.logsumexp = true;
  const AttentionResult r = attention_varlen(batch.q, batch.k, batch.v, batch.lengths, o);
  const auto backward = [&](const Tensor& d_out, const AttentionWantGradients& want) {
    (void)attention_varlen_backward(d_out, batch.q, batch.k, batch.v, batch.lengths, r, o, want);
  };
  EXPECT_THROW(backward(batch.d_out, {.bias = true}), Error);
  EXPECT_THROW(backward(batch.d_out, {.alibi_slopes = true}), Error);
  EXPECT_THROW(backward(batch.d_out, {.score_table = true}), Error);
  EXPECT_THROW(backward(batch.d_out.to(DType::bf16), {}), Error);
  EXPECT_THROW((void)attention_varlen(batch.q.to(DType::f16), batch.k, batch.v, batch.lengths, o), Error);
}

TEST(AttentionVarlen, DropsAsAPaddedBatchDoes) {
  Random random(2);
  const Batch batch = random_batch(random, 5, 60, 4, 2);
  const auto sequences = static_cast<int64_t>(batch.size());
  AttentionOptions o{.causal = Causal::top_left(), .dropout = {.rate = 0.3f, .seed = 9}, .want = {.logsumexp = true}};
  const AttentionResult packed = attention_varlen(batch.q, batch.k, batch.v, batch.lengths, o);
  const AttentionGradients packed_gradients =
      attention_varlen_backward(batch.d_out, batch.q, batch.k, batch.v, batch.lengths, packed, o);
  const auto pad = [&](const Tensor& rows, const std::vector<int32_t>& begins) {
    const Tensor padded = Tensor::zeros({sequences, rows.size(1), 60, rows.size(2)});
    for (int64_t b = 0; b < sequences; ++b) {
      const int32_t begin = begins[static_cast<size_t>(b)], end = begins[static_cast<size_t>(b) + 1];
      padded.slice(0, b, b + 1).slice(2, 0, end - begin).copy_from(sequence(rows, begin, end));
    }
    return padded;
  };
  std::vector<int32_t> key_lengths;
  for (size_t b = 0; b < batch.size(); ++b) key_lengths.push_back(batch.keys[b + 1] - batch.keys[b]);
  o.key_lengths = Tensor::from(std::span<const int32_t>(key_lengths), {sequences});
  const Tensor q = pad(batch.q, batch.queries), k = pad(batch.k, batch.keys), v = pad(batch.v, batch.keys),
               d_out = pad(batch.d_out, batch.queries);
  const AttentionResult padded = attention(q, k, v, o);
  const AttentionGradients padded_gradients = attention_backward(d_out, q, k, v, padded, o);
  for (int64_t b = 0; b < sequences; ++b) {
    const auto n = static_cast<size_t>(b);
    const int32_t q0 = batch.queries[n], q1 = batch.queries[n + 1], k0 = batch.keys[n], k1 = batch.keys[n + 1];
    const auto cut = [b](const Tensor& t, int64_t rows) { return t.slice(0, b, b + 1).slice(2, 0, rows); };
    EXPECT_TRUE(same_bits(sequence(packed.output, q0, q1), cut(padded.output, q1 - q0))) << b;
    EXPECT_TRUE(same_bits(sequence(packed_gradients.query, q0, q1), cut(padded_gradients.query, q1 - q0))) << b;
    // Sums over queries, which the padding cuts into other tiles.
    const Tensor d_key = sequence(packed_gradients.key, k0, k1), expected = cut(padded_gradients.key, k1 - k0);
    EXPECT_TRUE(close(to_doubles(d_key), to_doubles(expected), 1e-6, "d_key")) << b;
  }
}

TEST(AttentionVarlen, DoesNotDependOnTheNumberOfThreads) {
  const KeepSettings keep;
  Random random(3);
  const Batch batch = random_batch(random, 30, 90, 2, 1);
  const AttentionOptions o{.causal = Causal::bottom_right(),
                           .alibi_slopes = random.tensor({2}),
                           .sinks = random.tensor({2}),
                           .want = {.logsumexp = true}};
  const auto run = [&](int threads) {
    set_num_threads(threads);
    const AttentionResult r = attention_varlen(batch.q, batch.k, batch.v, batch.lengths, o);
    const AttentionGradients g =
        attention_varlen_backward(batch.d_out, batch.q, batch.k, batch.v, batch.lengths, r, o, want_all(o));
    return std::vector<Tensor>{r.output, r.logsumexp, g.query, g.key, g.value, g.sinks, g.alibi_slopes};
  };
  const std::vector<Tensor> expected = run(1);
  for (const int threads : {2, 3, 7, 9}) {
    const std::vector<Tensor> found = run(threads);
    for (size_t n = 0; n < found.size(); ++n) EXPECT_TRUE(same_bits(found[n], expected[n])) << threads << " " << n;
  }
}

TEST(AttentionVarlen, RefusesLengthsThatDoNotFit) {
  const Tensor q = Tensor::zeros({5, 4, 8}), k = Tensor::zeros({7, 2, 8});
  const auto message = [&](std::initializer_list<int32_t> queries, std::initializer_list<int32_t> keys,
                           const AttentionOptions& options = {}) -> std::string {
    const auto tensor = [](std::initializer_list<int32_t> v) {
      return Tensor::from(std::span<const int32_t>(v.begin(), v.size()), {static_cast<int64_t>(v.size())});
    };
    return testing::message_of([&] { (void)attention_varlen(q, k, k, {tensor(queries), tensor(keys)}, options); });
  };
  EXPECT_EQ(message({0, 2, 5}, {0, 7, 7}), "");
  EXPECT_EQ(message({0, 2, 4}, {0, 7, 7}),
            "[attention_varlen] cu_seqlens.queries that end with the number of rows, 5; found 4");
  EXPECT_EQ(message({0, 6, 5}, {0, 7, 7}),
            "[attention_varlen] cu_seqlens.queries from 0 on, never decreasing; found 5 after 6");
  EXPECT_EQ(message({1, 5}, {0, 7}),
            "[attention_varlen] cu_seqlens.queries from 0 on, never decreasing; found 1 after 0");
  EXPECT_EQ(message({0, 5}, {0, 3, 7}), "[attention_varlen] as many sequences of keys as of queries; found 2 and 1");
  EXPECT_EQ(message({0, 5}, {0, 7}, {.mask = Tensor::zeros({1}, DType::boolean)}),
            "[attention_varlen] no mask, bias, key_lengths or documents; found one");
  EXPECT_EQ(message({0, 5}, {0, 7}, {.want = {.weights = true}}),
            "[attention_varlen] no weights, scores, taps or output wanted; found one");
  EXPECT_THROW((void)attention_varlen(q, k, k, {}), Error);
  EXPECT_THROW((void)attention_varlen(q, Tensor::zeros({7, 3, 8}), Tensor::zeros({7, 3, 8}), {}), Error);
}

}  // namespace
}  // namespace heed
