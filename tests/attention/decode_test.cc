// The decode engine against the f32 tiles: the same bits for every option.
#include "kernels/attention/decode/decode.h"
#include "attention/attention_case.h"
#include "attention/call/group.h"
#include "base/memory.h"

namespace heed {
namespace {

using testing::KeepSettings;
using testing::random_case;
using testing::RandomCase;
using testing::same_bits;

enum class Kernel { tiles, decode, decode_in_chunks };

// Output and logsumexp of all groups by one kernel, with scratch that holds NaN.
AttentionResult run(const testing::Problem& p, Kernel kernel) {
  const AttentionProblem problem = check_attention("test", p.q, p.k, p.v, p.options, DType::f32);
  AttentionResult r;
  r.output = Tensor::empty({problem.batch, problem.heads, problem.queries, problem.value_size});
  r.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.queries});
  for (int64_t b = 0; b < problem.batch && problem.queries > 0; ++b) {
    for (int64_t h = 0; h < problem.heads; h += problem.group()) {
      const kernels::AttentionGroup group = make_group(problem, p.q, {p.k, p.v}, b, h, problem.group());
      kernels::TileOutputs out;
      out.output = strided<float>(r.output, b, h);
      out.logsumexp = strided<float>(r.logsumexp, b, h);
      if (kernel == Kernel::tiles) {
        const Buffer<float> scratch(kernels::forward_scratch(group));
        kernels::forward_tile(group, out, 0, problem.group() * problem.queries, scratch.data());
        continue;
      }
      const Buffer<float> scratch(kernels::decode_scratch(group));
      std::fill_n(scratch.data(), kernels::decode_scratch(group), std::nanf(""));
      if (kernel == Kernel::decode) {
        kernels::decode_group(group, out, scratch.data());
        continue;
      }
      const int64_t chunks = (group.keys + kernels::kChunkKeys - 1) / kernels::kChunkKeys;
      const int64_t size = kernels::decode_state_floats(group);
      std::vector<float> states(static_cast<size_t>(chunks * size), std::nanf(""));
      for (int64_t n = chunks - 1; n >= 0; --n) {
        kernels::decode_chunk(group, n, states.data() + n * size, scratch.data());
      }
      kernels::decode_merge(group, out, states.data(), chunks, scratch.data());
    }
  }
  return r;
}

// The first rows of a random problem, few enough.
testing::Problem first_rows(const RandomCase& c) {
  testing::Problem p = c.problem;
  const int64_t most = std::max<int64_t>(1, kernels::kDecodeRows / (p.q.size(1) / p.k.size(1)));
  const int64_t rows = std::min(p.q.size(2), most);
  const auto cut = [&](const Tensor& t, int axis) {
    return t.defined() && t.rank() > 0 && t.size(axis) > 1 ? t.slice(axis, 0, rows) : t;
  };
  p.q = p.q.slice(2, 0, rows);
  p.options.mask = cut(p.options.mask, -2 + (p.options.mask.defined() ? p.options.mask.rank() : 0));
  p.options.bias = cut(p.options.bias, -2 + (p.options.bias.defined() ? p.options.bias.rank() : 0));
  if (p.options.query_documents.defined()) p.options.query_documents = p.options.query_documents.slice(1, 0, rows);
  return p;
}

TEST(AttentionDecode, HasTheBitsOfTheTilesOnEveryInstructionSet) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    for (uint64_t seed = 0; seed < 200; ++seed) {
      if (isa == Isa::portable && seed % 4 != 0) continue;  // slow there
      const RandomCase c = random_case(seed, seed % 8 == 0 ? 1400 : 150);
      const testing::Problem p = first_rows(c);
      const AttentionResult tiles = run(p, Kernel::tiles), decode = run(p, Kernel::decode);
      ASSERT_TRUE(same_bits(decode.output, tiles.output)) << c.text << " on " << to_string(isa);
      ASSERT_TRUE(same_bits(decode.logsumexp, tiles.logsumexp)) << c.text << " on " << to_string(isa);
    }
  }
}

TEST(AttentionDecode, TreatsNaNAndInfinityAsTheTilesDo) {
  testing::Random random(3);
  for (int trial = 0; trial < 200; ++trial) {
    RandomCase c = random_case(5000 + static_cast<uint64_t>(trial), 200);
    testing::Problem p = first_rows(c);
    p.k = p.k.clone();
    p.v = p.v.clone();
    if (p.k.numel() == 0) continue;
    for (const Tensor& t : {p.k, p.v}) {
      for (int n = 0; n < 3; ++n) {
        t.data<float>()[random.integer(0, t.numel() - 1)] =
            random.pick({std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity()});
      }
    }
    const AttentionResult tiles = run(p, Kernel::tiles), decode = run(p, Kernel::decode);
    ASSERT_TRUE(same_bits(decode.output, tiles.output)) << c.text;
    ASSERT_TRUE(same_bits(decode.logsumexp, tiles.logsumexp)) << c.text;
  }
}

// Chunks computed apart and in any order, some of them without a key to attend to.
TEST(AttentionDecode, MergesChunksOfWhichSomeAreEmpty) {
  testing::Random random(4);
  for (const int64_t offset : {int64_t{-5}, int64_t{100}, int64_t{900}, int64_t{1500}, int64_t{1900}}) {
    testing::Problem p;
    p.q = random.tensor({1, 4, 2, 40});
    p.k = random.tensor({1, 1, 2000, 40});
    p.v = random.tensor({1, 1, 2000, 24});
    p.options.causal = Causal::offset(offset);
    p.options.window.left = 60;
    const AttentionResult tiles = run(p, Kernel::tiles), chunks = run(p, Kernel::decode_in_chunks);
    ASSERT_TRUE(same_bits(chunks.output, tiles.output)) << offset;
    ASSERT_TRUE(same_bits(chunks.logsumexp, tiles.logsumexp)) << offset;
  }
}

TEST(AttentionDecode, HasTheLogsumexpWithoutColumnsOfValues) {
  testing::Random random(5);
  for (const float rate : {0.0f, 0.5f}) {
    testing::Problem p;
    p.q = random.tensor({2, 2, 3, 16});
    p.k = random.tensor({2, 1, 700, 16});
    p.v = random.tensor({2, 1, 700, 0});
    p.options.dropout = {.rate = rate, .seed = 1};
    ASSERT_TRUE(same_bits(run(p, Kernel::decode).logsumexp, run(p, Kernel::tiles).logsumexp)) << rate;
  }
}

}  // namespace
}  // namespace heed
