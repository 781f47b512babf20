// What a cache holds after any sequence of appends, truncations and reorderings: compared with plain lists of rows.
#include <numeric>

#include "attention/attention_case.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/kv_cache.h"
#include "kernels/attention/decode/heads.h"

namespace heed {
namespace {

using testing::Random;

constexpr int64_t kHeads = 4, kKeySize = 8, kValueSize = 16;  // KeyValueCache::Options::heads_together takes them

// Rows of whole numbers with a largest magnitude of 127: every dtype holds them exactly.
Tensor whole_numbers(Random& random, const Shape& shape) {
  Tensor t = Tensor::empty(shape);
  for (int64_t n = 0; n < t.numel(); ++n) {
    t.data<float>()[n] = static_cast<float>(n % shape.back() == 0 ? 127 : random.integer(-127, 127));
  }
  return t;
}

using Row = std::vector<double>;  // the keys and values of all heads
using Rows = std::vector<Row>;
using Sequences = std::vector<Rows>;

Row row_of(const Tensor& key, const Tensor& value, int64_t b, int64_t j) {
  Row row;
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t d = 0; d < kKeySize; ++d) row.push_back(key.at({b, h, j, d}));
    for (int64_t d = 0; d < kValueSize; ++d) row.push_back(value.at({b, h, j, d}));
  }
  return row;
}

// Row j of sequence b, read from the memory as KeyValues describes it.
Row stored_row(const KeyValues& memory, int64_t b, int64_t j) {
  const int64_t page = memory.key.size(2);
  const int64_t piece = memory.pages.defined()    ? static_cast<int64_t>(memory.pages.at({b, j / page}))
                        : memory.pieces.defined() ? static_cast<int64_t>(memory.pieces.at({b}))
                                                  : b;
  const int64_t at = memory.pages.defined() ? j % page : j;
  const auto scale = [&](const Tensor& scales, int64_t h) { return scales.defined() ? scales.at({piece, h, at}) : 1; };
  Row row;
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t d = 0; d < kKeySize; ++d)
      row.push_back(memory.key.at({piece, h, at, d}) * scale(memory.key_scales, h));
    for (int64_t d = 0; d < kValueSize; ++d)
      row.push_back(memory.value.at({piece, h, at, d}) * scale(memory.value_scales, h));
  }
  return row;
}

void expect_rows(const KeyValueCache& cache, const Sequences& expected, const std::string& text) {
  ASSERT_EQ(cache.batch(), static_cast<int64_t>(expected.size())) << text;
  for (size_t b = 0; b < expected.size(); ++b) {
    const auto sequence = static_cast<int64_t>(b);
    ASSERT_EQ(cache.length(sequence), static_cast<int64_t>(expected[b].size())) << text;
    for (size_t j = 0; j < expected[b].size(); ++j) {
      ASSERT_EQ(stored_row(cache.memory(), sequence, static_cast<int64_t>(j)), expected[b][j])
          << text << ", row " << j << " of sequence " << b;
    }
  }
}

// Some sequences of a batch, each at most once, in any order.
std::vector<int64_t> some_of(Random& random, int64_t batch) {
  std::vector<int64_t> sequences;
  for (int64_t b = 0; b < batch; ++b)
    if (random.chance(0.6)) sequences.insert(sequences.begin() + random.integer(0, std::ssize(sequences)), b);
  return sequences;
}

void append(Random& random, KeyValueCache& cache, Sequences& expected) {
  std::vector<int64_t> sequences(static_cast<size_t>(cache.batch()));
  std::iota(sequences.begin(), sequences.end(), 0);
  const bool all = random.chance(0.5);
  if (!all) sequences = some_of(random, cache.batch());
  const int64_t batch = std::ssize(sequences), most = random.pick<int64_t>({0, 1, 1, 2, 9, 40});
  const Tensor key = whole_numbers(random, {batch, kHeads, most, kKeySize});
  // Values as a projection leaves them: memory (B, L, H, Dv) seen as (B, H, L, Dv).
  const Tensor value = whole_numbers(random, {batch, most, kHeads, kValueSize}).transpose(1, 2);
  Tensor lengths;
  if (random.chance(0.5)) {
    lengths = Tensor::zeros({batch}, DType::i32);
    for (int64_t b = 0; b < batch; ++b) lengths.data<int32_t>()[b] = static_cast<int32_t>(random.integer(0, most));
  }
  all ? cache.append(key, value, lengths) : cache.append_to(sequences, key, value, lengths);
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t count = lengths.defined() ? lengths.data<int32_t>()[i] : most;
    Rows& rows = expected[static_cast<size_t>(sequences[static_cast<size_t>(i)])];
    for (int64_t j = 0; j < count; ++j) rows.push_back(row_of(key, value, i, j));
  }
}

// What memory_of() has of some sequences, one of them twice.
void expect_some(Random& random, const KeyValueCache& cache, const Sequences& expected, const std::string& text) {
  std::vector<int64_t> sequences = some_of(random, cache.batch());
  if (!sequences.empty()) sequences.push_back(sequences.front());
  const KeyValues memory = cache.memory_of(sequences);
  ASSERT_EQ(memory.lengths.shape(), Shape({std::ssize(sequences)}));
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const Rows& rows = expected[static_cast<size_t>(sequences[static_cast<size_t>(i)])];
    ASSERT_EQ(memory.lengths.at({i}), static_cast<double>(rows.size())) << text;
    for (size_t j = 0; j < rows.size(); ++j)
      ASSERT_EQ(stored_row(memory, i, static_cast<int64_t>(j)), rows[j]) << text << ", row " << j << " of number " << i;
  }
}

TEST(KeyValueCache, HoldsWhatWasAppendedHoweverItIsReordered) {
  Random random(21);
  for (int trial = 0; trial < 120; ++trial) {
    const DType dtype = std::initializer_list<DType>{DType::f32, DType::bf16, DType::f16, DType::i8}.begin()[trial % 4];
    const int64_t page = random.pick<int64_t>({0, 0, 1, 4, 16}), capacity = random.pick<int64_t>({0, 0, 400});
    const std::string text = "trial " + std::to_string(trial) + " in " + std::string(to_string(dtype)) + ", page " +
                             std::to_string(page) + ", capacity " + std::to_string(capacity);
    const bool together = random.chance(0.5);
    const KeyValueCache::Options options{.dtype = dtype, .page = page, .heads_together = together};
    KeyValueCache cache(2, kHeads, capacity, kKeySize, kValueSize, options);
    Sequences expected(2);
    for (int step = 0; step < 9; ++step) {
      append(random, cache, expected);
      expect_rows(cache, expected, text);
      if (random.chance(0.3)) {
        const auto b = static_cast<size_t>(random.integer(0, cache.batch() - 1));
        expected[b].resize(static_cast<size_t>(random.integer(0, static_cast<int64_t>(expected[b].size()))));
        cache.truncate(static_cast<int64_t>(b), static_cast<int64_t>(expected[b].size()));
      }
      if (random.chance(0.6)) {
        std::vector<int64_t> rows;
        Sequences next;
        for (int64_t r = random.integer(1, 5); r > 0; --r) rows.push_back(random.integer(0, cache.batch() - 1));
        for (const int64_t row : rows) next.push_back(expected[static_cast<size_t>(row)]);
        cache.reorder(rows);
        expected = std::move(next);
      }
      expect_rows(cache, expected, text);
      expect_some(random, cache, expected, text);
    }
  }
}

// One position of all heads is one piece of memory, until there are more than 64; without vectors never.
TEST(KeyValueCache, KeepsTheHeadsTogether) {
  Random random(25);
  KeyValueCache cache(2, kHeads, 0, kKeySize, kValueSize, {.heads_together = true});
  Sequences expected(2);
  const bool fits = kernels::fits_heads_decode(kHeads, kKeySize, kValueSize);
  EXPECT_TRUE(fits || active_isa() == Isa::portable);
  while (cache.memory().key.size(2) <= 64) {
    append(random, cache, expected);
    expect_rows(cache, expected, "together");
    const Tensor &key = cache.memory().key, &value = cache.memory().value;
    const bool together = fits && key.size(2) <= 64;
    EXPECT_EQ(key.strides()[1] == 1 && key.strides()[3] == kHeads, together) << key.size(2);
    EXPECT_EQ(value.strides()[2] == kHeads * kValueSize, together) << value.size(2);
  }
}

// Forks take the pieces of what is dropped: no new memory, and no copy of what goes on alone.
TEST(KeyValueCache, ForksReuseTheirPieces) {
  Random random(23);
  KeyValueCache cache(4, kHeads, 0, kKeySize, kValueSize);
  Sequences expected(4);
  append(random, cache, expected);
  const void* before = cache.memory().key.raw();
  cache.reorder(std::vector<int64_t>{3, 1, 1, 1});
  expected = {expected[3], expected[1], expected[1], expected[1]};
  EXPECT_EQ(cache.memory().key.raw(), before);
  EXPECT_EQ(cache.memory().pieces.at({0}), 3);
  EXPECT_EQ(cache.memory().pieces.at({1}), 1);
  expect_rows(cache, expected, "forked");
  cache.reorder(std::vector<int64_t>{2});
  expected = {expected[2]};
  append(random, cache, expected);
  expect_rows(cache, expected, "one of four");
  cache.reorder(std::vector<int64_t>{0, 0, 0, 0, 0, 0});  // more than there are pieces
  expected.assign(6, expected[0]);
  append(random, cache, expected);
  expect_rows(cache, expected, "six of one");
}

TEST(KeyValueCache, PiecesAreChecked) {
  Random random(24);
  KeyValueCache cache(2, 1, 0, 4, 4);
  cache.append(random.tensor({2, 1, 3, 4}), random.tensor({2, 1, 3, 4}));
  const Tensor query = random.tensor({2, 1, 1, 4});
  KeyValues memory = cache.memory();
  const auto pieces = [&](std::vector<int32_t> list) {
    const auto count = static_cast<int64_t>(list.size());
    memory.pieces = Tensor::from(std::span<const int32_t>(list), {count});
  };
  pieces({1, 0});
  const Tensor turned = attention(query, memory).output;
  cache.reorder(std::vector<int64_t>{1, 0});
  const Tensor reordered = attention(query, cache).output;
  for (int64_t d = 0; d < 4; ++d) EXPECT_EQ(turned.at({0, 0, 0, d}), reordered.at({0, 0, 0, d}));
  pieces({0, 2});
  EXPECT_THROW((void)attention(query, memory), Error);
  pieces({0, -1});
  EXPECT_THROW((void)attention(query, memory), Error);
  pieces({0});
  EXPECT_THROW((void)attention(query, memory), Error);
}

TEST(KeyValueCache, LeavesTheIdentityInPlace) {
  Random random(22);
  KeyValueCache cache(4, kHeads, 0, kKeySize, kValueSize);
  Sequences expected(4);
  append(random, cache, expected);
  append(random, cache, expected);
  const void* before = cache.memory().key.raw();
  cache.reorder(std::vector<int64_t>{0, 1, 2, 3});
  EXPECT_EQ(cache.memory().key.raw(), before);
  cache.reorder(std::vector<int64_t>{0, 1});
  EXPECT_EQ(cache.memory().key.raw(), before);
  expected.resize(2);
  expect_rows(cache, expected, "two of four");
}

TEST(KeyValueCache, ForksSharePagesUntilTheyWrite) {
  Random random(23);
  KeyValueCache cache(1, kHeads, 64, kKeySize, kValueSize, {.page = 8, .pages = 8});
  const auto rows = [&](int64_t batch, int64_t n, int64_t size) { return random.tensor({batch, kHeads, n, size}); };
  cache.append(rows(1, 20, kKeySize), rows(1, 20, kValueSize));
  EXPECT_EQ(cache.free_pages(), 5);
  cache.reorder(std::vector<int64_t>{0, 0, 0});
  EXPECT_EQ(cache.free_pages(), 5);  // three sequences of 20 keys in three pages
  cache.append(rows(3, 1, kKeySize), rows(3, 1, kValueSize));
  EXPECT_EQ(cache.free_pages(), 3);  // two of them copied the last page, the third one kept it
  EXPECT_EQ(cache.memory().pages.at({0, 1}), cache.memory().pages.at({2, 1}));
  EXPECT_NE(cache.memory().pages.at({0, 2}), cache.memory().pages.at({2, 2}));
  cache.reorder(std::vector<int64_t>{1});
  EXPECT_EQ(cache.free_pages(), 5);
  cache.truncate(0, 0);
  EXPECT_EQ(cache.free_pages(), 8);
  // Three forks of a full cache: no page is left for the copies, and nothing has changed.
  cache.append(rows(1, 60, kKeySize), rows(1, 60, kValueSize));
  cache.reorder(std::vector<int64_t>{0, 0});
  EXPECT_THROW(cache.append(rows(2, 1, kKeySize), rows(2, 1, kValueSize)), Error);
  EXPECT_EQ(cache.length(0), 60);
  cache.reorder(std::vector<int64_t>{1});
  cache.append(rows(1, 4, kKeySize), rows(1, 4, kValueSize));
  EXPECT_EQ(cache.length(0), 64);
}

TEST(KeyValueCache, RefusesRowsThatAreNotThere) {
  KeyValueCache cache(4, kHeads, 0, kKeySize, kValueSize);
  EXPECT_THROW(cache.reorder(std::vector<int64_t>{4}), Error);
  EXPECT_THROW(cache.reorder(std::vector<int64_t>{-1}), Error);
  EXPECT_THROW(cache.reorder(std::vector<int64_t>{}), Error);
  EXPECT_EQ(cache.batch(), 4);
  const Tensor key = Tensor::zeros({2, kHeads, 1, kKeySize}), value = Tensor::zeros({2, kHeads, 1, kValueSize});
  EXPECT_THROW(cache.append_to(std::vector<int64_t>{0, 4}, key, value), Error);
  EXPECT_THROW(cache.append_to(std::vector<int64_t>{1, 1}, key, value), Error);
  EXPECT_THROW(cache.append_to(std::vector<int64_t>{1}, key, value), Error);
  EXPECT_THROW((void)cache.memory_of(std::vector<int64_t>{0, 4}), Error);
  for (int64_t b = 0; b < 4; ++b) EXPECT_EQ(cache.length(b), 0);
}

}  // namespace
}  // namespace heed
