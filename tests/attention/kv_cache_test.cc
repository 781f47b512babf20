// Caches: the bits of attention() over the numbers they hold, whatever the type, the pages and the threads.
#include "heed/kv_cache.h"
#include "base/message.h"

#include "attention/attention_case.h"
#include "heed/error.h"
#include "kernels/attention/engine.h"

namespace heed {
namespace {

using testing::KeepSettings;
using testing::message_of;
using testing::Random;
using testing::same_bits;

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i8};

// What a cache of that type makes of a row of f32, worked out here: rounded to nearest, ties to even.
double rounded(double x, DType dtype, double largest) {
  if (dtype == DType::f32 || x == 0) return x;
  if (dtype == DType::i8) {
    const double scale = static_cast<double>(static_cast<float>(largest) / 127.0f);
    return scale == 0 ? 0 : std::nearbyint(static_cast<float>(x) / static_cast<float>(scale)) * scale;
  }
  int exponent = 0;
  (void)std::frexp(x, &exponent);
  const int digits = dtype == DType::bf16 ? 8 : 11, least = dtype == DType::bf16 ? -133 : -24;
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));
  return std::nearbyint(x / unit) * unit;
}

Tensor rounded(const Tensor& x, DType dtype) {
  const Tensor y = x.clone();
  const int64_t columns = y.size(3);
  for (int64_t row = 0; row < y.numel() / std::max<int64_t>(1, columns); ++row) {
    float* const values = y.data<float>() + row * columns;
    double largest = 0;
    for (int64_t d = 0; d < columns; ++d) largest = std::max(largest, std::fabs(static_cast<double>(values[d])));
    for (int64_t d = 0; d < columns; ++d) values[d] = static_cast<float>(rounded(values[d], dtype, largest));
  }
  return y;
}

struct Shapes {
  int64_t batch, heads, kv_heads, size, value_size;
};

// Sequences of their own lengths in one piece, padded with NaN.
struct Padded {
  Tensor key, value, lengths;
  Padded(Random& random, const Shapes& s, const std::vector<int32_t>& length, int64_t capacity)
      : key(random.tensor({s.batch, s.kv_heads, capacity, s.size})),
        value(random.tensor({s.batch, s.kv_heads, capacity, s.value_size})),
        lengths(Tensor::from(std::span<const int32_t>(length), {s.batch})) {}
};

// Appends what `all` holds in random portions, the same number of rows offered for every sequence.
void fill(Random& random, KeyValueCache& cache, const Padded& all) {
  const int64_t batch = all.key.size(0), capacity = all.key.size(2);
  for (;;) {
    int64_t most = 0;
    const int64_t portion = random.pick<int64_t>({1, 1, 3, 17, 64, 200});
    std::vector<int32_t> counts;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t left = all.lengths.data<int32_t>()[b] - cache.length(b);
      counts.push_back(static_cast<int32_t>(std::min(portion, left)));
      most = std::max<int64_t>(most, counts.back());
    }
    if (most == 0) return;
    Tensor k = Tensor::full({batch, all.key.size(1), most, all.key.size(3)}, std::nanf(""));
    Tensor v = Tensor::full({batch, all.key.size(1), most, all.value.size(3)}, std::nanf(""));
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t at = cache.length(b), count = counts[static_cast<size_t>(b)];
      k.slice(0, b, b + 1).slice(2, 0, count).copy_from(all.key.slice(0, b, b + 1).slice(2, at, at + count));
      v.slice(0, b, b + 1).slice(2, 0, count).copy_from(all.value.slice(0, b, b + 1).slice(2, at, at + count));
    }
    cache.append(k, v, Tensor::from(std::span<const int32_t>(counts), {batch}));
    ASSERT_LE(cache.length(0), capacity);
  }
}

TEST(KeyValueCache, HasTheBitsOfAttentionOverTheRoundedNumbers) {
  const KeepSettings keep;
  Random random(11);
  for (int trial = 0; trial < 160; ++trial) {
    const int64_t kv_heads = random.integer(1, 3), group = random.pick<int64_t>({1, 2, 4, 8});
    const Shapes s{random.integer(1, 3), kv_heads * group, kv_heads, random.pick<int64_t>({1, 8, 17, 64, 128}),
                   random.pick<int64_t>({0, 1, 16, 31, 64, 144})};
    const int64_t capacity = random.pick<int64_t>({5, 70, 300, 1300});
    std::vector<int32_t> lengths;
    for (int64_t b = 0; b < s.batch; ++b) lengths.push_back(static_cast<int32_t>(random.integer(0, capacity)));
    const Padded all(random, s, lengths, capacity);
    const DType dtype = kTypes[trial % 4];
    KeyValueCache cache(s.batch, s.kv_heads, capacity, s.size, s.value_size,
                        {.dtype = dtype, .page = random.pick<int64_t>({0, 1, 16, 48, 64, 128})});
    fill(random, cache, all);

    const int64_t queries = random.pick<int64_t>({1, 1, 2, 8, 50});
    const Tensor q = random.tensor({s.batch, s.heads, queries, s.size});
    AttentionOptions options;
    if (random.chance(0.7)) options.causal = Causal::bottom_right();
    if (random.chance(0.3)) options.window.left = random.integer(0, 200);
    if (random.chance(0.2)) options.softcap = 2;
    options.want.logsumexp = true;
    options.want.weights = random.chance(0.2);
    options.want.taps.entropy = options.want.taps.column_sums = random.chance(0.3);
    const std::vector<Isa> isas = available_isas();
    const Isa isa = isas[static_cast<size_t>(random.integer(0, static_cast<int64_t>(isas.size()) - 1))];
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    set_num_threads(static_cast<int>(random.integer(1, 5)));
    const AttentionResult found = attention(q, cache, options);

    int64_t longest = 0;
    for (const int32_t length : lengths) longest = std::max<int64_t>(longest, length);
    AttentionOptions plain = options;
    plain.key_lengths = all.lengths;
    const AttentionResult expected = attention(q, rounded(all.key, dtype).slice(2, 0, longest),
                                               rounded(all.value, dtype).slice(2, 0, longest), plain);
    const std::string text = "trial " + std::to_string(trial) + " in " + std::string(to_string(dtype)) + " on " +
                             std::string(to_string(isa));
    ASSERT_TRUE(same_bits(found.output, expected.output)) << text;
    ASSERT_TRUE(same_bits(found.logsumexp, expected.logsumexp)) << text;
    ASSERT_TRUE(same_bits(found.weights, expected.weights)) << text;
    ASSERT_TRUE(same_bits(found.taps.entropy, expected.taps.entropy)) << text;
    ASSERT_TRUE(same_bits(found.taps.column_sums, expected.taps.column_sums)) << text;
  }
}

TEST(KeyValueCache, DecodingHasTheBitsOfAPrefill) {
  const KeepSettings keep;
  Random random(12);
  constexpr int64_t kLength = 1100, kPrompt = 700;
  const Tensor q = random.tensor({2, 6, kLength, 32}), k = random.tensor({2, 3, kLength, 32}),
               v = random.tensor({2, 3, kLength, 48});
  const AttentionResult whole = attention(q, k, v, {.causal = Causal::bottom_right(), .want = {.logsumexp = true}});
  KeyValueCache cache(2, 3, kLength, 32, 48, {.page = 96});
  cache.append(k.slice(2, 0, kPrompt), v.slice(2, 0, kPrompt));
  for (int64_t at = kPrompt; at < kLength;) {
    const int64_t next = std::min(kLength, at + random.pick<int64_t>({1, 1, 1, 2, 4, 9}));
    cache.append(k.slice(2, at, next), v.slice(2, at, next));
    set_num_threads(static_cast<int>(random.integer(1, 7)));
    const AttentionResult step =
        attention(q.slice(2, at, next), cache, {.causal = Causal::bottom_right(), .want = {.logsumexp = true}});
    ASSERT_TRUE(same_bits(step.output, whole.output.slice(2, at, next))) << at;
    ASSERT_TRUE(same_bits(step.logsumexp, whole.logsumexp.slice(2, at, next))) << at;
    at = next;
  }
}

// One group and many threads: the chunks of its keys are shared out, some of them masked as a whole.
TEST(KeyValueCache, SplittingKeysOverThreadsChangesNoBit) {
  const KeepSettings keep;
  Random random(13);
  for (int trial = 0; trial < 30; ++trial) {
    const int64_t keys = random.integer(513, 5000), heads = random.integer(1, 8), queries = heads <= 4 ? 2 : 1;
    const Tensor q = random.tensor({1, heads, queries, 40}), k = random.tensor({1, 1, keys, 40}),
                 v = random.tensor({1, 1, keys, 24});
    AttentionOptions options;
    options.causal = Causal::offset(random.integer(-1, keys));
    if (random.chance(0.4)) options.window.left = random.integer(0, keys / 2);
    if (random.chance(0.3)) options.sinks = random.tensor({heads});
    if (random.chance(0.3)) options.dropout = {.rate = 0.3f, .seed = 5};
    options.want.logsumexp = true;
    set_num_threads(1);
    const AttentionResult one = attention(q, k, v, options);
    for (const int threads : {2, 3, 7, 64}) {
      set_num_threads(threads);
      const AttentionResult many = attention(q, k, v, options);
      ASSERT_TRUE(same_bits(one.output, many.output)) << trial << " with " << threads;
      ASSERT_TRUE(same_bits(one.logsumexp, many.logsumexp)) << trial << " with " << threads;
    }
  }
}

TEST(KeyValueCache, KeepsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const DType dtype : kTypes) {
    KeyValueCache cache(1, 1, 4, 2, 2, {.dtype = dtype});
    cache.append(Tensor::from({0, 0, 0, 0}, {1, 1, 2, 2}), Tensor::from({1, inf, 2, 3}, {1, 1, 2, 2}));
    const Tensor out = attention(Tensor::full({1, 1, 1, 2}, 1), cache).output;
    if (dtype == DType::i8) {
      EXPECT_TRUE(std::isnan(out.at({0, 0, 0, 0})) && std::isnan(out.at({0, 0, 0, 1})));
    } else {
      EXPECT_EQ(out.at({0, 0, 0, 0}), 1.5) << to_string(dtype);
      EXPECT_EQ(out.at({0, 0, 0, 1}), static_cast<double>(inf)) << to_string(dtype);
    }
  }
}

TEST(KeyValueCache, TruncatingFreesPagesForOthers) {
  Random random(14);
  KeyValueCache cache(2, 1, 64, 4, 4, {.page = 8, .pages = 10});
  const auto rows = [&](int64_t n) { return random.tensor({2, 1, n, 4}); };
  const auto counts = [](int32_t a, int32_t b) {
    return Tensor::from(std::span<const int32_t>(std::vector<int32_t>{a, b}), {2});
  };
  cache.append(rows(64), rows(64), counts(64, 9));
  EXPECT_EQ(cache.free_pages(), 0);
  EXPECT_THROW(cache.append(rows(8), rows(8), counts(0, 8)), Error);  // no page is left
  EXPECT_EQ(cache.length(1), 9);
  cache.append(rows(7), rows(7), counts(0, 7));  // fits the last page
  cache.truncate(0, 17);
  EXPECT_EQ(cache.free_pages(), 5);
  const Tensor k = rows(40), v = rows(40);
  cache.append(k, v, counts(0, 40));
  EXPECT_EQ(cache.free_pages(), 0);
  cache.truncate(0, 0);
  EXPECT_EQ(cache.free_pages(), 3);
  // Sequence 1 sees its own rows: the window shows those appended last.
  const Tensor q = random.tensor({2, 1, 1, 4});
  const Tensor found = attention(q, cache, {.causal = Causal::bottom_right(), .window = {.left = 39}}).output;
  const Tensor expected = attention(q.slice(0, 1, 2), k.slice(0, 1, 2), v.slice(0, 1, 2)).output;
  for (int64_t d = 0; d < 4; ++d) EXPECT_NEAR(found.at({1, 0, 0, d}), expected.at({0, 0, 0, d}), 1e-6);
  for (int64_t d = 0; d < 4; ++d) EXPECT_EQ(found.at({0, 0, 0, d}), 0);
}

TEST(KeyValueCache, TakesLessMemoryInNarrowTypes) {
  const auto bytes = [](DType dtype) { return KeyValueCache(2, 4, 100, 64, 64, {.dtype = dtype}).nbytes(); };
  EXPECT_EQ(bytes(DType::f32), 2 * 2 * 4 * 100 * 64 * 4);
  EXPECT_EQ(bytes(DType::bf16), bytes(DType::f32) / 2);
  EXPECT_EQ(bytes(DType::i8), bytes(DType::f32) / 4 + 2 * 2 * 4 * 100 * 4);
}

TEST(KeyValueCache, RefusesWhatDoesNotFit) {
  Random random(15);
  KeyValueCache cache(2, 2, 10, 4, 6, {.page = 4});
  const Tensor k = random.tensor({2, 2, 3, 4}), v = random.tensor({2, 2, 3, 6}), q = random.tensor({2, 4, 1, 4});
  cache.append(k, v);
  const auto lengths = [](int32_t a) {
    return Tensor::from(std::span<const int32_t>(std::vector<int32_t>{a, 0}), {2});
  };
  EXPECT_THROW(KeyValueCache(0, 1, 1, 1, 1), Error);
  EXPECT_THROW(KeyValueCache(1, 1, 1, 1, 1, {.dtype = DType::f64}), Error);
  EXPECT_THROW(KeyValueCache(1, 1, 1, 1, 1, {.pages = 3}), Error);
  EXPECT_THROW(KeyValueCache(1, 1, int64_t{1} << 31, 0, 0), Error);
  EXPECT_THROW(cache.append(v, v), Error);
  EXPECT_THROW(cache.append(k, v, lengths(4)), Error);
  EXPECT_THROW(cache.append(k, v, lengths(-1)), Error);
  EXPECT_THROW(cache.append(random.tensor({2, 2, 8, 4}), random.tensor({2, 2, 8, 6})), Error);
  EXPECT_THROW(cache.truncate(0, 4), Error);
  EXPECT_THROW(cache.truncate(2, 0), Error);
  EXPECT_EQ(cache.length(0), 3);  // nothing has changed
  EXPECT_THROW((void)attention(random.tensor({1, 4, 1, 4}), cache), Error);
  EXPECT_THROW((void)attention(random.tensor({2, 3, 1, 4}), cache), Error);
  EXPECT_THROW((void)attention(q, cache, {.key_lengths = lengths(1)}), Error);
  KeyValues memory = cache.memory();
  memory.pages = memory.pages.clone();
  memory.pages.data<int32_t>()[0] = 6;
  EXPECT_EQ(message_of([&] { (void)attention(q, memory); }),
            "[attention] pages from 0 to P - 1 = 5; found 6 for sequence 0, page 0");
  memory.pages.data<int32_t>()[0] = -1;
  EXPECT_THROW((void)attention(q, memory), Error);
  memory = cache.memory();
  memory.lengths = lengths(13);
  EXPECT_EQ(message_of([&] { (void)attention(q, memory); }),
            "[attention] lengths from 0 to 12; found 13 for sequence 0");
  memory = cache.memory();
  memory.key = memory.key.to(DType::i8);
  memory.value = memory.value.to(DType::i8);
  EXPECT_EQ(message_of([&] { (void)attention(q, memory); }), "[attention] key_scales where key is in i8; found none");
}

// Half precision without a cache: the f32 result of the same numbers, rounded once; and so are the gradients. (On a
// machine with a bf16 engine, bf16_test.cc tests that engine.)
TEST(AttentionHalf, IsTheRoundedResultOfTheSameNumbers) {
  const KeepSettings keep;
  if (kernels::bf16_engine() != nullptr) set_isa(Isa::avx512);
  Random random(16);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (int trial = 0; trial < 20; ++trial) {
      const testing::RandomCase c = testing::random_case(900 + static_cast<uint64_t>(trial), 120);
      const testing::Problem& p = c.problem;
      const Tensor q = p.q.to(dtype), k = p.k.to(dtype), v = p.v.to(dtype), d_out = p.d_out.to(dtype);
      const auto wide = [](const Tensor& x) { return x.to(DType::f32); };
      const AttentionResult found = attention(q, k, v, p.options);
      const AttentionResult expected = attention(wide(q), wide(k), wide(v), p.options);
      EXPECT_EQ(found.output.dtype(), dtype);
      ASSERT_TRUE(same_bits(found.output, expected.output.to(dtype))) << c.text;
      ASSERT_TRUE(same_bits(found.weights, expected.weights)) << c.text;
      AttentionResult forward = expected;
      forward.output = wide(found.output);
      const AttentionGradients d = attention_backward(d_out, q, k, v, found, p.options);
      const AttentionGradients e = attention_backward(wide(d_out), wide(q), wide(k), wide(v), forward, p.options);
      ASSERT_TRUE(same_bits(d.query, e.query.to(dtype))) << c.text;
      ASSERT_TRUE(same_bits(d.key, e.key.to(dtype))) << c.text;
      ASSERT_TRUE(same_bits(d.value, e.value.to(dtype))) << c.text;
    }
  }
  const Tensor half = random.tensor({1, 1, 2, 4}).to(DType::bf16), other = half.to(DType::f32);
  EXPECT_THROW((void)attention(half, other, other), Error);
  EXPECT_THROW((void)attention(other, half, half), Error);
}

}  // namespace
}  // namespace heed
