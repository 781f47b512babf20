// What a plan counts, against counting here; and the line that HEED_EXPLAIN asks for.
#include <cstdlib>
#include <fstream>

#include "attention/attention_case.h"
#include "heed/error.h"

namespace heed {
namespace {

using testing::Random;

TEST(AttentionPlan, CountsBlocksAndOperations) {
  Random random(31);
  const Tensor q = random.tensor({2, 4, 200, 16}), k = random.tensor({2, 2, 300, 16}),
               v = random.tensor({2, 2, 300, 8});
  const AttentionPlan all = attention_plan(q, k, v);
  EXPECT_EQ(all.engine, "f32 tiles");
  EXPECT_EQ(all.blocks, 2 * 4 * 5 * 5);  // 200 rows are 5 tiles, 300 keys 5 blocks
  EXPECT_EQ(all.skipped, 0);
  EXPECT_EQ(all.flops, 2.0 * 2 * 4 * 200 * 300 * (16 + 8));
  EXPECT_EQ(all.bytes, 4.0 * (2 * 4 * 200 * (16 + 8) + 2 * 2 * 300 * (16 + 8)));
  const AttentionPlan causal = attention_plan(q, k, v, {.causal = Causal::top_left()});
  EXPECT_EQ(causal.flops, 2.0 * 2 * 4 * (200 * 201 / 2) * (16 + 8));
  // Tiles of 48, 48, 48, 48 and 8 rows: the last rows 47, 95, 143, 191, 199 see 1, 2, 3, 3 and 4 blocks of 5.
  EXPECT_EQ(causal.blocks - causal.skipped, 2 * 4 * (1 + 2 + 3 + 3 + 4));
  const Tensor mask = Tensor::zeros({300}, DType::boolean);
  mask.data<bool>()[130] = true;
  const AttentionPlan masked = attention_plan(q, k, v, {.mask = mask});
  EXPECT_EQ(masked.blocks - masked.skipped, 2 * 4 * 5);
  // Sequences of 100, 150 and 50 keys, of 120, 40 and 40 queries: tiles of 48 rows see 2, 2, 4, 4 and 2 of 5 blocks.
  const Tensor mine = Tensor::empty({2, 200}, DType::i32), theirs = Tensor::empty({2, 300}, DType::i32);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 200; ++i) mine.data<int32_t>()[b * 200 + i] = i < 120 ? 7 : i < 160 ? 3 : 9;
    for (int64_t j = 0; j < 300; ++j) theirs.data<int32_t>()[b * 300 + j] = j < 100 ? 7 : j < 250 ? 3 : 9;
  }
  const AttentionPlan packed = attention_plan(q, k, v, {.query_documents = mine, .key_documents = theirs});
  EXPECT_EQ(packed.blocks, all.blocks);
  EXPECT_EQ(packed.blocks - packed.skipped, 2 * 4 * (2 + 2 + 4 + 4 + 2));
  EXPECT_NE(causal.text.find("B 2 H 4/2 L 200 S 300 D 16/8"), std::string::npos) << causal.text;
}

TEST(AttentionPlan, NamesTheDecodeEngine) {
  const testing::KeepSettings keep;
  Random random(32);
  const Tensor q = random.tensor({1, 6, 1, 8}), k = random.tensor({1, 3, 900, 8});
  set_num_threads(1);
  EXPECT_EQ(attention_plan(q, k, k).engine, "decode");
  set_num_threads(2);
  EXPECT_EQ(attention_plan(q, k, k).engine, "decode, keys shared among threads");
  EXPECT_EQ(attention_plan(q, k, k, {.want = {.weights = true}}).engine, "f32 tiles");
  EXPECT_EQ(attention_plan(q, k, k, {.want = {.scores = true}}).engine, "f32 tiles");
  EXPECT_THROW((void)attention_plan(q, k, random.tensor({1, 3, 899, 8})), Error);
}

// The backward pass runs tiles, also where the forward pass decodes.
TEST(AttentionPlan, NamesTheEngineOfTheBackwardPass) {
  const std::string name = ::testing::TempDir() + "heed_explain_backward.txt";
  std::remove(name.c_str());
  Random random(34);
  const Tensor q = random.tensor({1, 2, 1, 8}), k = random.tensor({1, 2, 40, 8});
  const AttentionResult r = attention(q, k, k, {.want = {.logsumexp = true}});
  setenv("HEED_EXPLAIN", name.c_str(), 1);
  (void)attention_backward(q, q, k, k, r);
  unsetenv("HEED_EXPLAIN");
  std::ifstream file(name);
  std::string line;
  std::getline(file, line);
  EXPECT_NE(line.find(", f32 tiles, "), std::string::npos) << line;
  std::remove(name.c_str());
}

TEST(AttentionPlan, EveryCallWritesALineWhereAsked) {
  const std::string name = ::testing::TempDir() + "heed_explain.txt";
  std::remove(name.c_str());
  setenv("HEED_EXPLAIN", name.c_str(), 1);
  Random random(33);
  const Tensor q = random.tensor({1, 2, 70, 8});
  const AttentionResult r = attention(q, q, q, {.want = {.logsumexp = true}});
  (void)attention_backward(q, q, q, q, r);
  unsetenv("HEED_EXPLAIN");
  (void)attention(q, q, q);
  std::ifstream file(name);
  std::string first, second, third;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(first.find("attention: B 1 H 2 L 70 S 70 D 8; " + std::string(to_string(active_isa()))), 0u) << first;
  EXPECT_NE(first.find("% of the peak"), std::string::npos);
  EXPECT_EQ(second.find("attention_backward: B 1 H 2"), 0u) << second;
  EXPECT_FALSE(std::getline(file, third));
  std::remove(name.c_str());
}

}  // namespace
}  // namespace heed
