// Decoding against few keys has paths of its own, one of them for heads that lie together; wanting the logsumexp takes
// the general one. All have the same bits.
#include <cmath>
#include <cstring>
#include <limits>

#include "attention/attention_case.h"
#include "heed/cpu.h"
#include "heed/kv_cache.h"

namespace heed {
namespace {

using testing::Random;

void expect_same_bits(const Tensor& found, const Tensor& expected, const std::string& where) {
  const Tensor a = found.contiguous(), b = expected.contiguous();
  ASSERT_EQ(a.shape(), b.shape()) << where;
  ASSERT_EQ(std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())), 0) << where;
}

void expect_both_paths_agree(const Tensor& query, const KeyValues& memory, const std::string& where) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    const Tensor general = attention(query, memory, {.want = {.logsumexp = true}}).output;
    expect_same_bits(attention(query, memory).output, general, where + " on " + std::string(to_string(isa)));
  }
  set_isa(before);
}

TEST(ShortDecode, HasTheBitsOfTheGeneralPath) {
  Random random(31);
  for (const int64_t queries : {1, 2, 5, 8}) {
    for (const int64_t keys : {1, 7, 16, 17, 40, 64, 65}) {
      for (const int64_t size : {4, 32, 48, 128, 132}) {
        const Tensor query = random.tensor({2, 3, queries, size});
        KeyValues memory{random.tensor({2, 3, keys, size}), random.tensor({2, 3, keys, 48})};
        const std::string where = std::to_string(queries) + " queries, " + std::to_string(keys) + " keys of " +
                                  std::to_string(size) + " numbers";
        expect_both_paths_agree(query, memory, where);
        const std::array<int32_t, 2> lengths = {static_cast<int32_t>(keys), static_cast<int32_t>(keys / 2)};
        memory.lengths = Tensor::from(std::span<const int32_t>(lengths), {2});
        expect_both_paths_agree(query, memory, where + ", and half of them");
      }
    }
  }
}

// Lanes behind the last key must not count as scores of 0.
TEST(ShortDecode, ScoresFarBelowZero) {
  const Tensor query = Tensor::full({1, 1, 1, 32}, 3), value = Random(32).tensor({1, 1, 5, 32});
  Random random(33);
  const Tensor key = random.tensor({1, 1, 5, 32});
  for (int64_t i = 0; i < key.numel(); ++i) key.data<float>()[i] -= 6;
  expect_both_paths_agree(query, {key, value}, "scores of about -100");
  const Tensor out = attention(query, KeyValues{key, value}).output;
  std::vector<double> weights;
  double sum = 0, largest = -std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < 5; ++j) {
    double score = 0;
    for (int64_t d = 0; d < 32; ++d) score += 3 * key.at({0, 0, j, d}) / std::sqrt(32.0);
    weights.push_back(score);
    largest = std::max(largest, score);
  }
  for (double& w : weights) sum += w = std::exp(w - largest);
  for (int64_t d = 0; d < 32; ++d) {
    double expected = 0;
    for (int64_t j = 0; j < 5; ++j) expected += weights[static_cast<size_t>(j)] / sum * value.at({0, 0, j, d});
    EXPECT_NEAR(out.at({0, 0, 0, d}), expected, 1e-4);
  }
}

TEST(ShortDecode, NumbersThatAreNone) {
  Random random(34);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const bool in_key : {true, false}) {
      const Tensor query = random.tensor({1, 2, 1, 32}), key = random.tensor({1, 2, 9, 32});
      const Tensor value = random.tensor({1, 2, 9, 32});
      (in_key ? key : value).data<float>()[70] = bad;
      expect_both_paths_agree(query, {key, value}, std::to_string(bad) + (in_key ? " in a key" : " in a value"));
    }
  }
}

KeyValueCache cache_of(const Tensor& key, const Tensor& value, const Tensor& lengths, bool together) {
  const KeyValueCache::Options options{.heads_together = together};
  KeyValueCache cache(key.size(0), key.size(1), 0, key.size(3), value.size(3), options);
  cache.append(key, value, lengths);
  return cache;
}

Tensor lengths_from(std::initializer_list<int64_t> list) {
  const std::vector<int32_t> lengths(list.begin(), list.end());
  return Tensor::from(std::span<const int32_t>(lengths), {static_cast<int64_t>(lengths.size())});
}

// The same sequences with the heads together and apart: the same bits, on every instruction set.
void expect_layouts_agree(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& lengths,
                          const AttentionOptions& options, const std::string& where) {
  const Isa before = active_isa();
  set_isa(available_isas().front());
  AttentionOptions general = options;
  general.want.logsumexp = true;
  const Tensor expected = attention(query, cache_of(key, value, lengths, false), general).output;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    const Tensor together = attention(query, cache_of(key, value, lengths, true), options).output;
    expect_same_bits(together, expected, where + " on " + std::string(to_string(isa)));
  }
  set_isa(before);
}

TEST(HeadsTogether, HasTheBitsOfTheGeneralPath) {
  Random random(35);
  for (const int64_t heads : {4, 8, 12, 16, 24, 32}) {
    for (const int64_t group : {1, 2, 8}) {
      for (const int64_t keys : {1, 2, 5, 9, 16, 33, 64, 65}) {
        const int64_t queries = random.pick<int64_t>({1, 2, 3, 4, 5, 8});
        const int64_t size = random.pick<int64_t>({4, 20, 32, 64}), columns = random.pick<int64_t>({16, 32, 48, 240});
        const Tensor query = random.tensor({3, queries, heads * group, size}).transpose(1, 2);
        const Tensor key = random.tensor({3, keys, heads, size}).transpose(1, 2);
        const Tensor value = random.tensor({3, keys, heads, columns}).transpose(1, 2);
        const std::string where = std::to_string(queries) + " queries, " + std::to_string(keys) + " keys of " +
                                  std::to_string(heads) + " heads, " + std::to_string(group) + " queries each, of " +
                                  std::to_string(size) + " and " + std::to_string(columns) + " numbers";
        expect_layouts_agree(query, key, value, lengths_from({keys, 1, (keys + 1) / 2}), {}, where);
        if (group == 1 && queries == 1)
          expect_layouts_agree(query, key, value, {}, {.causal = Causal::bottom_right()}, where + ", causal");
      }
    }
  }
}

// What the path does not know is left to the general one, which reads the keys as they lie.
TEST(HeadsTogether, LeavesTheRestToTheGeneralPath) {
  Random random(36);
  const Tensor query = random.tensor({2, 4, 3, 8}), key = random.tensor({2, 4, 9, 8}),
               value = random.tensor({2, 4, 9, 16});
  Tensor slopes = Tensor::full({4}, 0.25F);
  const Tensor bias = random.tensor({4, 3, 9});
  expect_layouts_agree(query, key, value, {}, {.causal = Causal::bottom_right()}, "causal");
  expect_layouts_agree(query, key, value, {}, {.window = {.left = 2, .right = 2}}, "window");
  expect_layouts_agree(query, key, value, {}, {.alibi_slopes = slopes}, "ALiBi");
  expect_layouts_agree(query, key, value, {}, {.bias = bias}, "bias");
  expect_layouts_agree(query, key, value, {}, {.softcap = 2}, "softcap");
  expect_layouts_agree(query, key, value, {}, {.dropout = {.rate = 0.5F, .seed = 3}}, "dropout");
  expect_layouts_agree(query, key, value, lengths_from({9, 0}), {}, "no keys");
}

TEST(HeadsTogether, NumbersThatAreNone) {
  Random random(37);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const bool in_key : {true, false}) {
      const Tensor query = random.tensor({1, 8, 1, 32}), key = random.tensor({1, 8, 9, 32});
      const Tensor value = random.tensor({1, 8, 9, 32});
      (in_key ? key : value).data<float>()[70] = bad;
      expect_layouts_agree(query, key, value, {}, {}, std::to_string(bad) + (in_key ? " in a key" : " in a value"));
    }
  }
}

}  // namespace
}  // namespace heed
