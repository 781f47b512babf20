// Attention across ranks: the bits of one process and the numbers of the oracle, for any number of ranks and any
// layout; what is sent and what it costs in memory; what is refused.
#include "attention/across_ranks_case.h"
#include "base/message.h"
#include "heed/memory.h"

namespace heed::distributed {
namespace {

using testing::close;
using testing::Everything;
using testing::in_one_process;
using testing::KeepSettings;
using testing::messages_of_ranks;
using testing::part_of;
using testing::plain_problem;
using testing::Problem;
using testing::random_case;
using testing::random_layout;
using testing::random_layouts;
using testing::RandomCase;
using testing::same_bits;
using testing::same_layouts;

// The rows of all ranks put together.
Tensor whole_of(const std::vector<Tensor>& parts, const SequenceLayout& layout) {
  Shape shape = parts[0].shape();
  shape[2] = layout.length();
  const Tensor whole = Tensor::empty(shape, parts[0].dtype());
  for (size_t r = 0; r < parts.size(); ++r) {
    int64_t row = 0;
    for (const Run& run : layout.runs[r]) {
      whole.slice(2, run.first, run.end()).copy_from(parts[r].slice(2, row, row + run.count));
      row += run.count;
    }
  }
  return whole;
}

struct OfRank {
  DistributedAttention forward;
  DistributedGradients backward;
};

std::vector<OfRank> of_ranks(const Problem& p, int ranks, const AttentionLayouts& layouts, bool name_layouts = true) {
  std::vector<OfRank> all(static_cast<size_t>(ranks));
  run_in_process(ranks, [&](Communicator& own) {
    const Problem part = part_of(p, layouts, own.rank());
    const AttentionLayouts named = name_layouts ? layouts : AttentionLayouts{};
    OfRank& r = all[static_cast<size_t>(own.rank())];
    r.forward = attention(own, part.q, part.k, part.v, part.options, named);
    r.backward = attention_backward(own, part.d_out, part.q, part.k, part.v, r.forward, part.options, named);
  });
  return all;
}

Everything put_together(const std::vector<OfRank>& ranks, const AttentionLayouts& layouts) {
  Everything e;
  const auto rows = [&](const auto& tensor_of, const SequenceLayout& layout) {
    std::vector<Tensor> parts;
    for (const OfRank& r : ranks) parts.push_back(tensor_of(r));
    return whole_of(parts, layout);
  };
  e.output = rows([](const OfRank& r) { return r.forward.output; }, layouts.queries);
  e.logsumexp = rows([](const OfRank& r) { return r.forward.logsumexp; }, layouts.queries);
  e.d_query = rows([](const OfRank& r) { return r.backward.query; }, layouts.queries);
  e.d_key = rows([](const OfRank& r) { return r.backward.key; }, layouts.keys);
  e.d_value = rows([](const OfRank& r) { return r.backward.value; }, layouts.keys);
  e.d_sinks = ranks[0].backward.sinks;
  for (const OfRank& r : ranks) EXPECT_TRUE(same_bits(r.backward.sinks, e.d_sinks));
  return e;
}

Everything across_ranks(const Problem& p, int ranks, const AttentionLayouts& layouts, bool name_layouts = true) {
  return put_together(of_ranks(p, ranks, layouts, name_layouts), layouts);
}

void expect_same(const Everything& found, const Everything& expected, const std::string& text) {
  EXPECT_TRUE(same_bits(found.output, expected.output)) << text;
  EXPECT_TRUE(same_bits(found.logsumexp, expected.logsumexp)) << text;
  EXPECT_TRUE(same_bits(found.d_query, expected.d_query)) << text;
  EXPECT_TRUE(same_bits(found.d_key, expected.d_key)) << text;
  EXPECT_TRUE(same_bits(found.d_value, expected.d_value)) << text;
  EXPECT_TRUE(same_bits(found.d_sinks, expected.d_sinks)) << text;
}

void expect_close(const Everything& found, const oracle::AttentionCase& oracle, const std::string& text) {
  const oracle::AttentionAnswer answer = oracle::attention(oracle);
  const auto doubles = [](const Tensor& t) { return testing::to_doubles(t); };
  EXPECT_TRUE(close(doubles(found.output), answer.out, 5e-5, "output")) << text;
  EXPECT_TRUE(close(doubles(found.logsumexp), answer.lse, 5e-5, "logsumexp")) << text;
  EXPECT_TRUE(close(doubles(found.d_query), answer.d_q, 2e-4, "d_query")) << text;
  EXPECT_TRUE(close(doubles(found.d_key), answer.d_k, 2e-4, "d_key")) << text;
  EXPECT_TRUE(close(doubles(found.d_value), answer.d_v, 2e-4, "d_value")) << text;
  if (!found.d_sinks.defined()) return;
  EXPECT_TRUE(close(doubles(found.d_sinks), answer.d_sink, 2e-4, "d_sinks")) << text;
}

class AcrossRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, AcrossRanks, ::testing::Values(1, 2, 3, 4, 5));

TEST_P(AcrossRanks, HasTheBitsOfOneProcessAndTheNumbersOfTheOracle) {
  const KeepSettings keep;
  set_num_threads(1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomCase c = random_case(7000 + 100 * static_cast<uint64_t>(GetParam()) + seed, seed % 12 == 0 ? 700 : 130);
    testing::Random random(seed);
    const AttentionLayouts layouts = random_layouts(random, c.problem, GetParam());
    const Everything found = across_ranks(c.problem, GetParam(), layouts);
    expect_same(found, in_one_process(c.problem), c.text);
    expect_close(found, c.oracle, c.text);
    if (HasFailure()) return;
  }
}

// Several units of keys on every rank, so that states and sums go from unit to unit and from rank to rank.
TEST_P(AcrossRanks, HasTheBitsOfOneProcessOnLongSequences) {
  const KeepSettings keep;
  set_num_threads(2);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const RandomCase c = random_case(300 + 100 * static_cast<uint64_t>(GetParam()) + seed, 3000);
    testing::Random random(seed);
    const AttentionLayouts layouts = random_layouts(random, c.problem, GetParam());
    expect_same(across_ranks(c.problem, GetParam(), layouts), in_one_process(c.problem), c.text);
    if (HasFailure()) return;
  }
}

TEST_P(AcrossRanks, HasTheBitsOfOneProcessOnEveryInstructionSet) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    for (uint64_t seed = 0; seed < 8; ++seed) {
      RandomCase c = random_case(900 + seed, isa == Isa::portable ? 150 : 900);
      testing::Random random(seed);
      const AttentionLayouts layouts = random_layouts(random, c.problem, GetParam());
      const std::string text = c.text + " on " + std::string(to_string(isa));
      expect_same(across_ranks(c.problem, GetParam(), layouts), in_one_process(c.problem), text);
      for (const DType half : {DType::bf16, DType::f16}) {
        Problem p = c.problem;
        for (Tensor* const tensor : {&p.q, &p.k, &p.v, &p.d_out}) *tensor = tensor->to(half);
        expect_same(across_ranks(p, GetParam(), layouts), in_one_process(p), text + " in half precision");
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(AcrossRanks, ScoreFunctionsSeePositionsOfTheWholeSequence) {
  Problem p = plain_problem(1, 4, 2, 700, 700, 16);
  testing::Random random(3);
  p.options.score = score::RelativePosition{.table = random.tensor({4, 201}), .reach = 100};
  p.options.causal = Causal::bottom_right();
  p.options.dropout = {.rate = 0.3f, .seed = 11};
  const AttentionLayouts layouts = same_layouts(SequenceLayout::zig_zag(700, GetParam()));
  expect_same(across_ranks(p, GetParam(), layouts), in_one_process(p), "relative positions");
}

TEST_P(AcrossRanks, WithoutLayoutsTheRowsOfRankZeroComeFirst) {
  const Problem p = plain_problem(2, 2, 1, 301, 517, 8);
  std::vector<int64_t> queries(static_cast<size_t>(GetParam()), 301 / GetParam());
  queries[0] += 301 % GetParam();
  const AttentionLayouts layouts{.queries = SequenceLayout::of_lengths(queries),
                                 .keys = SequenceLayout::contiguous(517, GetParam())};
  expect_same(across_ranks(p, GetParam(), layouts, false), in_one_process(p), "agreed offsets");
}

TEST_P(AcrossRanks, WriteTheOutputWhereItIsWanted) {
  const Problem p = plain_problem(2, 4, 2, 301, 517, 8);
  const AttentionLayouts layouts{.queries = SequenceLayout::zig_zag(301, GetParam()),
                                 .keys = SequenceLayout::contiguous(517, GetParam())};
  const Tensor whole = in_one_process(p).output;
  run_in_process(GetParam(), [&](Communicator& own) {
    Problem part = part_of(p, layouts, own.rank());
    const int64_t rows = part.q.size(2);
    const Tensor memory = Tensor::zeros({2, 4, rows + 2, 8});  // with a row around the output that stays 0
    const Tensor output = memory.slice(2, 1, rows + 1);
    part.options.want.output = output;
    const DistributedAttention found = attention(own, part.q, part.k, part.v, part.options, layouts);
    EXPECT_EQ(found.output.raw(), output.raw());
    EXPECT_TRUE(same_bits(output, rows_of(whole, layouts.queries, own.rank())));
    for (const int64_t row : {int64_t{0}, rows + 1}) {
      EXPECT_TRUE(same_bits(memory.slice(2, row, row + 1), Tensor::zeros({2, 4, 1, 8})));
    }
    const auto backward = attention_backward(own, part.d_out, part.q, part.k, part.v, found, part.options, layouts);
    EXPECT_TRUE(same_bits(backward.query, rows_of(in_one_process(p).d_query, layouts.queries, own.rank())));
  });
}

// A NaN in a key behind the causal mask stays there; one that is attended arrives.
TEST_P(AcrossRanks, NaNReachesThoseWhoAttendToIt) {
  Problem p = plain_problem(1, 2, 2, 640, 640, 16);
  p.options.causal = Causal::top_left();
  for (int64_t d = 0; d < 16; ++d) p.v.data<float>()[600 * 16 + d] = std::nanf("");
  p.k.data<float>()[(640 + 630) * 16] = std::numeric_limits<float>::infinity();
  const AttentionLayouts layouts = same_layouts(SequenceLayout::zig_zag(640, GetParam()));
  const Everything found = across_ranks(p, GetParam(), layouts);
  expect_same(found, in_one_process(p), "NaN");
  EXPECT_TRUE(std::isfinite(found.output.at({0, 0, 599, 0})));
  EXPECT_TRUE(std::isnan(found.output.at({0, 0, 600, 0})));
}

// ---- What is sent

TEST(AcrossRanksTraffic, IsWhatTheFormulaSays) {
  constexpr int64_t kD = 16, kHkv = 2, kS = 1536 * 4;
  constexpr int kRanks = 4;
  const Problem p = plain_problem(1, 4, kHkv, kS, kS, kD);
  const std::vector<OfRank> ranks = of_ranks(p, kRanks, same_layouts(SequenceLayout::contiguous(kS, kRanks, 1536)));
  constexpr int64_t kFormula = 2 * kS * kHkv * kD * (kRanks - 1) / kRanks * 4;
  int64_t gradients = 0;
  for (const OfRank& r : ranks) {
    EXPECT_EQ(r.forward.traffic.keys_values, kFormula);
    EXPECT_EQ(r.forward.traffic.alignment, 0);
    EXPECT_EQ(r.backward.traffic.alignment, 0);
    EXPECT_LT(r.forward.traffic.control, 10000);
    gradients += r.backward.traffic.gradients;
  }
  int64_t keys_values = 0;
  for (const OfRank& r : ranks) keys_values += r.backward.traffic.keys_values;
  EXPECT_EQ(keys_values, kRanks * kFormula);
  // From rank 0 to the last one, and from there to the unit's own rank where that is another.
  EXPECT_EQ(gradients, 2 * kS * kHkv * kD * 4 * (kRanks - 1) + 2 * kS * kHkv * kD * 4 * (kRanks - 1) / kRanks);
}

TEST(AcrossRanksTraffic, CausalRanksSendNothingToThoseBefore) {
  constexpr int64_t kD = 16, kS = 1536 * 3;
  Problem p = plain_problem(1, 2, 1, kS, kS, kD);
  p.options.causal = Causal::bottom_right();
  const std::vector<OfRank> ranks = of_ranks(p, 3, same_layouts(SequenceLayout::contiguous(kS, 3, 1536)));
  constexpr int64_t kPart = 2 * 1536 * kD * 4;                 // keys and values of one rank
  EXPECT_EQ(ranks[0].forward.traffic.keys_values, kPart);      // its own
  EXPECT_EQ(ranks[1].forward.traffic.keys_values, 2 * kPart);  // those of rank 0, and its own
  EXPECT_EQ(ranks[2].forward.traffic.keys_values, 0);
}

TEST(AcrossRanksTraffic, WithAWindowOnlyNeighboursTalk) {
  constexpr int64_t kD = 16, kS = 1536 * 5;
  Problem p = plain_problem(1, 2, 1, kS, kS, kD);
  p.options.causal = Causal::bottom_right();
  p.options.window = {.left = 400, .right = -1};
  const AttentionLayouts layouts = same_layouts(SequenceLayout::contiguous(kS, 5, 1536));
  const std::vector<OfRank> ranks = of_ranks(p, 5, layouts);
  expect_same(put_together(ranks, layouts), in_one_process(p), "window");
  constexpr int64_t kUnit = 2 * 512 * kD * 4;
  for (size_t r = 0; r < 5; ++r) {  // the last unit of a rank reaches 400 queries of the next one
    EXPECT_EQ(ranks[r].forward.traffic.keys_values, r < 4 ? kUnit : 0) << r;
    EXPECT_EQ(ranks[r].backward.traffic.keys_values, r < 4 ? kUnit : 0) << r;
    // Sums go to the next rank, which adds its own and sends them back.
    EXPECT_EQ(ranks[r].backward.traffic.gradients, (r < 4 ? kUnit : 0) + (r > 0 ? kUnit : 0)) << r;
  }
}

TEST(AcrossRanksTraffic, KeysTravelOnceAGroup) {
  constexpr int64_t kS = 1536 * 2;
  const AttentionLayouts layouts = same_layouts(SequenceLayout::contiguous(kS, 2, 1536));
  const auto one = of_ranks(plain_problem(1, 1, 1, kS, kS, 16), 2, layouts);
  const auto eight = of_ranks(plain_problem(1, 8, 1, kS, kS, 16), 2, layouts);
  EXPECT_EQ(one[0].forward.traffic.keys_values, eight[0].forward.traffic.keys_values);
  EXPECT_EQ(one[0].backward.traffic.total(), eight[0].backward.traffic.total());
}

// ---- Memory

// Bytes beyond the tensors themselves, of all ranks together (they are threads here).
int64_t extra_bytes(int64_t length, int ranks) {
  constexpr int64_t kD = 16;
  const Problem p = plain_problem(1, 1, 1, length, length, kD);
  const AttentionLayouts layouts = same_layouts(SequenceLayout::contiguous(length, ranks, 1536));
  std::vector<Problem> parts;
  for (int r = 0; r < ranks; ++r) parts.push_back(part_of(p, layouts, r));
  const int64_t before = memory_stats().bytes_in_use;
  reset_peak_memory();
  std::vector<OfRank> all(static_cast<size_t>(ranks));
  run_in_process(ranks, [&](Communicator& own) {
    const auto n = static_cast<size_t>(own.rank());
    const Problem& part = parts[n];
    all[n].forward = attention(own, part.q, part.k, part.v, part.options, layouts);
    all[n].backward =
        attention_backward(own, part.d_out, part.q, part.k, part.v, all[n].forward, part.options, layouts);
  });
  int64_t results = 0;
  for (const OfRank& r : all) {
    for (const Tensor& t :
         {r.forward.output, r.forward.logsumexp, r.backward.query, r.backward.key, r.backward.value}) {
      results += t.nbytes();
    }
  }
  return memory_stats().peak_bytes - before - results;
}

TEST(AcrossRanksMemory, IsLinearInThePartOfARank) {
  const KeepSettings keep;
  set_num_threads(1);
  constexpr int64_t kLength = 1536 * 6;
  // Beside its tensors a rank has 19 floats a query (D + 3), at most six units with keys, values and the sums of their
  // gradients, and scratch for its tiles. (All keys and values, with their gradients, on every rank would be 14 MB on
  // six ranks.)
  for (const int ranks : {1, 2, 4, 6}) {
    const int64_t states = kLength * (16 + 3) * 4 * 9 / 8;  // size classes of the memory
    const int64_t units = 6 * 4 * 512 * 16 * 4, scratch = 400'000;
    EXPECT_LT(extra_bytes(kLength, ranks), states + ranks * (units + scratch)) << ranks << " ranks";
  }
}

// ---- What is refused

// Calls attention() with `change` made on rank 1 alone; expects `text` on all three ranks.
void expect_noticed(const std::string& text, const std::function<void(Problem&, AttentionLayouts&)>& change,
                    bool backward = false) {
  const Problem p = plain_problem(2, 2, 2, 30, 30, 8);
  const AttentionLayouts layouts = same_layouts(SequenceLayout::contiguous(30, 3));
  const auto messages = messages_of_ranks(3, [&](Communicator& own) {
    Problem part = part_of(p, layouts, own.rank());
    AttentionLayouts mine = layouts;
    AttentionResult forward;
    if (backward) forward = attention(own, part.q, part.k, part.v, part.options, mine);
    if (own.rank() == 1) change(part, mine);
    if (backward) {
      if (!part.options.want.logsumexp) forward.logsumexp = Tensor();
      (void)attention_backward(own, part.d_out, part.q, part.k, part.v, forward, part.options, mine);
    } else {
      (void)attention(own, part.q, part.k, part.v, part.options, mine);
    }
  });
  for (const std::string& message : messages) EXPECT_CONTAINS(message, text);
}

TEST(AcrossRanksErrors, AllRanksNoticeWhatOneDoesOtherwise) {
  expect_noticed("the same softcap on all ranks; found 0 on rank 0 (thread) and 30 on rank 1 (thread)",
                 [](Problem& p, AttentionLayouts&) { p.options.softcap = 30; });
  expect_noticed("the same number of query heads on all ranks; found 2 on rank 0 (thread) and 4 on rank 1",
                 [](Problem& p, AttentionLayouts&) {
                   p.q = Tensor::zeros({2, 4, 10, 8});
                 });
  expect_noticed("the same batch size on all ranks", [](Problem& p, AttentionLayouts&) {
    p.q = p.q.slice(0, 0, 1), p.k = p.k.slice(0, 0, 1), p.v = p.v.slice(0, 0, 1);
  });
  expect_noticed("the same dtype on all ranks; found f32 on rank 0 (thread) and f16",
                 [](Problem& p, AttentionLayouts&) {
                   p.q = p.q.to(DType::f16), p.k = p.k.to(DType::f16), p.v = p.v.to(DType::f16);
                 });
  expect_noticed("the same causal mask on all ranks; found none on rank 0 (thread) and bottom right",
                 [](Problem& p, AttentionLayouts&) { p.options.causal = Causal::bottom_right(); });
  expect_noticed("the same window on all ranks",
                 [](Problem& p, AttentionLayouts&) { p.options.window = {.left = 3, .right = -1}; });
  expect_noticed("the same dropout on all ranks", [](Problem& p, AttentionLayouts&) { p.options.dropout.seed = 1; });
  expect_noticed("the same sinks on all ranks; found none",
                 [](Problem& p, AttentionLayouts&) { p.options.sinks = Tensor::zeros({2}); });
  expect_noticed("the same shape of the mask on all ranks", [](Problem& p, AttentionLayouts&) {
    p.options.mask = Tensor::zeros({1, 1, 10, 30}, DType::boolean);
  });
  expect_noticed("the same layout of the keys on all ranks", [](Problem&, AttentionLayouts& layouts) {
    layouts.keys.runs = {{{0, 10}}, {{20, 10}}, {{10, 10}}};
  });
}

TEST(AcrossRanksErrors, AllRanksNoticeWhatDoesNotFitOnOne) {
  expect_noticed("no want.weights, which are not computed across ranks",
                 [](Problem& p, AttentionLayouts&) { p.options.want.weights = true; });
  expect_noticed("no want.scores", [](Problem& p, AttentionLayouts&) { p.options.want.scores = true; });
  expect_noticed("no want.taps", [](Problem& p, AttentionLayouts&) { p.options.want.taps.entropy = true; });
  expect_noticed("10 queries on rank 1 (thread), as its layout says; found 9",
                 [](Problem& p, AttentionLayouts&) { p.q = p.q.slice(2, 0, 9); });
  expect_noticed("as many values as keys", [](Problem& p, AttentionLayouts&) { p.v = p.v.slice(2, 0, 9); });
  expect_noticed("query, key and value; found an undefined tensor",
                 [](Problem& p, AttentionLayouts&) { p.k = Tensor(); });
  expect_noticed("a mask of a shape that broadcasts to (B, H, L, S) = (2, 2, 10, 30)",
                 [](Problem& p, AttentionLayouts&) {
                   p.options.mask = Tensor::zeros({10, 10}, DType::boolean);
                 });
  expect_noticed("query_documents of shape (B, L) = (2, 10); found (2, 30)", [](Problem& p, AttentionLayouts&) {
    p.options.query_documents = Tensor::zeros({2, 30}, DType::i32);
    p.options.key_documents = Tensor::zeros({2, 10}, DType::i32);
  });
  expect_noticed("both query_documents and key_documents", [](Problem& p, AttentionLayouts&) {
    p.options.query_documents = Tensor::zeros({2, 10}, DType::i32);
  });
  expect_noticed("a layout of the queries for 3 ranks; found one for 2",
                 [](Problem&, AttentionLayouts& layouts) { layouts.queries = SequenceLayout::contiguous(30, 2); });
  expect_noticed("every position belongs to one rank; found none for position 10",
                 [](Problem&, AttentionLayouts& layouts) {
                   layouts.queries.runs[1] = {{11, 9}};
                 });
  expect_noticed("every position belongs to one rank; found two for position 9",
                 [](Problem&, AttentionLayouts& layouts) {
                   layouts.keys.runs[1] = {{9, 11}};
                 });
  expect_noticed(
      "ask for it with want.logsumexp", [](Problem& p, AttentionLayouts&) { p.options.want.logsumexp = false; }, true);
  expect_noticed(
      "d_output of shape (2, 2, 10, 8)", [](Problem& p, AttentionLayouts&) { p.d_out = p.d_out.slice(2, 0, 3); }, true);
}

TEST(AcrossRanksErrors, ARankThatCallsAnotherFunctionIsNoticed) {
  const Problem p = plain_problem(1, 1, 1, 8, 8, 4);
  const AttentionLayouts layouts = same_layouts(SequenceLayout::contiguous(8, 2));
  for (const std::string& message : messages_of_ranks(2, [&](Communicator& own) {
         const Problem part = part_of(p, layouts, own.rank());
         const auto forward = attention(own, part.q, part.k, part.v, part.options, layouts);
         if (own.rank() == 0) {
           (void)attention_backward(own, part.d_out, part.q, part.k, part.v, forward, part.options, layouts);
         } else {
           (void)attention(own, part.q, part.k, part.v, part.options, layouts);
         }
       })) {
    EXPECT_CONTAINS(message, "the same function on all ranks");
  }
}

TEST(SequenceLayouts, CoverTheSequenceOnce) {
  for (const int64_t length : {0, 1, 5, 7, 100, 1537, 5000}) {
    for (const int ranks : {1, 2, 3, 7}) {
      for (const int64_t multiple : {1, 64, 1536}) {
        for (const SequenceLayout& layout :
             {SequenceLayout::contiguous(length, ranks, multiple), SequenceLayout::zig_zag(length, ranks, multiple),
              SequenceLayout::striped(length, ranks, 3, multiple)}) {
          EXPECT_NO_THROW(layout.check("test"));
          EXPECT_EQ(layout.length(), length);
          EXPECT_EQ(layout.ranks(), ranks);
        }
      }
    }
  }
  const SequenceLayout z = SequenceLayout::zig_zag(12, 3);
  EXPECT_EQ(z.runs[0], (std::vector<distributed::Run>{{0, 2}, {10, 2}}));
  EXPECT_EQ(z.runs[2], (std::vector<distributed::Run>{{4, 4}}));
  EXPECT_EQ(SequenceLayout::striped(12, 3, 2).runs[2], (std::vector<distributed::Run>{{4, 2}, {10, 2}}));
  EXPECT_EQ(SequenceLayout::contiguous(5000, 3, 1536).runs[1][0].first, 1536);
  // A multiple of which there are not enough positions, however large.
  EXPECT_EQ(SequenceLayout::contiguous(100, 2, INT64_MAX / 2 + 1), SequenceLayout::contiguous(100, 2));
}

TEST(SequenceLayouts, RowsMoveFromOneToAnother) {
  testing::Random random(2);
  const Tensor whole = random.tensor({2, 3, 37, 5});
  for (const int ranks : {1, 2, 3, 5}) {
    const SequenceLayout from = random_layout(random, 37, ranks), to = random_layout(random, 37, ranks);
    run_in_process(ranks, [&](Communicator& own) {
      const Tensor moved = redistribute(own, rows_of(whole, from, own.rank()), from, to);
      EXPECT_TRUE(same_bits(moved, rows_of(whole, to, own.rank())));
    });
  }
}

TEST(SequenceLayouts, RefuseWhatDoesNotFit) {
  const auto message = [](const auto& f) { return testing::message_of(f); };
  EXPECT_CONTAINS(message([] { (void)SequenceLayout::contiguous(-1, 2); }), "found -1, 2 and 1");
  EXPECT_CONTAINS(message([] { (void)SequenceLayout::zig_zag(4, 0); }), "found 4, 0 and 1");
  EXPECT_CONTAINS(message([] { (void)SequenceLayout::of_lengths(std::vector<int64_t>{3, -2}); }), "found -2");
  EXPECT_CONTAINS(message([] { (void)SequenceLayout::striped(4, 2, 0); }), "1 part a rank or more; found 0");
  const auto layout = SequenceLayout::contiguous(8, 2);
  EXPECT_CONTAINS(message([&] { (void)rows_of(Tensor::zeros({1, 1, 9, 2}), layout, 0); }), "9 positions; found 8");
  EXPECT_CONTAINS(message([&] { (void)rows_of(Tensor::zeros({8, 2}), layout, 0); }), "(B, H, L, D)");
  EXPECT_CONTAINS(message([&] { (void)rows_of(Tensor::zeros({1, 1, 8, 2}), layout, 2); }), "found 2");
}

}  // namespace
}  // namespace heed::distributed
