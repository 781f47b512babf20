// Every attention engine of the table, on every instruction set, against the oracle.
#include "kernels/attention/engine.h"

#include <map>

#include "attention/attention_case.h"
#include "attention/call/problem.h"
#include "heed/error.h"

namespace heed {
namespace {

using kernels::Engine;
using testing::close;
using testing::KeepSettings;
using testing::random_case;
using testing::RandomCase;
using testing::to_doubles;

// `engine` is asked before all others while one is alive.
class AskFirst {
 public:
  explicit AskFirst(const Engine* engine) { kernels::ask_first(engine); }
  ~AskFirst() { kernels::ask_first(nullptr); }
  AskFirst(const AskFirst&) = delete;
  AskFirst& operator=(const AskFirst&) = delete;
};

kernels::EngineRequest request(bool bf16, int64_t rows, bool backward = false) {
  return {.rows = rows, .backward = backward, .bf16 = bf16};
}

// f(engine) for every engine that takes something on some instruction set, on each of these instruction sets.
template <class F>
void on_every_engine(const F& f) {
  const KeepSettings keep;
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    ASSERT_EQ(active_isa(), isa);
    for (const Engine* const engine : kernels::engines()) {
      if (!engine->accepts(request(false, 1)) && !engine->accepts(request(true, 48))) continue;
      SCOPED_TRACE(std::string(engine->name) + " on " + std::string(to_string(isa)));
      const AskFirst first(engine);
      f(*engine);
    }
  }
}

// What the engine multiplies: f32, or bf16 for an engine that takes nothing else.
DType type_of(const Engine& engine) { return engine.accepts(request(false, 1)) ? DType::f32 : DType::bf16; }

// The operands in that type, and the oracle's numbers rounded likewise.
void convert(RandomCase& c, DType dtype) {
  testing::Problem& p = c.problem;
  for (Tensor* const t : {&p.q, &p.k, &p.v, &p.d_out}) *t = t->to(dtype);
  c.oracle.q = to_doubles(p.q), c.oracle.k = to_doubles(p.k), c.oracle.v = to_doubles(p.v);
  c.oracle.d_out = to_doubles(p.d_out);
}

TEST(Engines, HaveDifferentNamesAndTheLastTakesEverything) {
  std::map<std::string, int> names;
  for (const Engine* const engine : kernels::engines()) {
    EXPECT_EQ(++names[engine->name], 1) << engine->name;
    EXPECT_NE(engine->forward, nullptr) << engine->name;
    EXPECT_NE(engine->forward_scratch, nullptr) << engine->name;
    EXPECT_EQ(engine->backward == nullptr, engine->backward_scratch == nullptr) << engine->name;
    if (engine->backward == nullptr) {
      EXPECT_FALSE(engine->accepts(request(false, 1, true))) << engine->name;
      EXPECT_FALSE(engine->accepts(request(true, 48, true))) << engine->name;
    }
  }
  const Engine& last = *kernels::engines().back();
  EXPECT_EQ(&last, &kernels::f32_tiles());
  for (const bool backward : {false, true}) {
    for (const bool bf16 : {false, true}) {
      EXPECT_TRUE(last.accepts({.rows = 1, .backward = backward, .bf16 = bf16, .additive = true, .every_score = true}));
    }
  }
}

TEST(Engines, MatchTheOracleForwardAndBackward) {
  on_every_engine([](const Engine& engine) {
    const DType dtype = type_of(engine);
    // bf16: eight bits of the operands' products, the weights and the output.
    const double tolerance = dtype == DType::f32 ? 2e-5 : 0x1p-6;
    int forward = 0, backward = 0;
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      RandomCase c = random_case(70'000 + seed, seed % 3 == 0 ? 200 : 20);
      convert(c, dtype);
      testing::Problem& p = c.problem;
      p.options.want = {.logsumexp = true};
      if (p.q.size(2) == 0) continue;
      const oracle::AttentionAnswer a = oracle::attention(c.oracle);
      const AttentionResult r = attention(p.q, p.k, p.v, p.options);
      if (attention_plan(p.q, p.k, p.v, p.options).engine == engine.name) {
        ++forward;
        ASSERT_TRUE(close(to_doubles(r.output), a.out, tolerance, "output")) << c.text;
        ASSERT_TRUE(close(to_doubles(r.logsumexp), a.lse, tolerance, "logsumexp")) << c.text;
      }
      if (engine.backward == nullptr) continue;
      ++backward;
      const AttentionGradients g = attention_backward(p.d_out, p.q, p.k, p.v, r, p.options);
      ASSERT_TRUE(close(to_doubles(g.query), a.d_q, 4 * tolerance, "d_query")) << c.text;
      ASSERT_TRUE(close(to_doubles(g.key), a.d_k, 4 * tolerance, "d_key")) << c.text;
      ASSERT_TRUE(close(to_doubles(g.value), a.d_v, 4 * tolerance, "d_value")) << c.text;
    }
    EXPECT_GT(forward, 5);
    EXPECT_EQ(backward > 5, engine.backward != nullptr);
  });
}

TEST(Engines, TheOneAskedFirstIsTheOneThatIsPlanned) {
  testing::Random random(5);
  const Tensor q = random.tensor({1, 4, 1, 32}), k = random.tensor({1, 4, 100, 32});
  EXPECT_EQ(attention_plan(q, k, k).engine, "decode");
  const AskFirst first(&kernels::f32_tiles());
  EXPECT_EQ(attention_plan(q, k, k).engine, "f32 tiles");
}

TEST(AttentionScores, AreWhatEntersTheSoftmax) {
  on_every_engine([](const Engine& engine) {
    const DType dtype = type_of(engine);
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      RandomCase c = random_case(80'000 + seed, seed % 3 == 0 ? 200 : 20);
      convert(c, dtype);
      testing::Problem& p = c.problem;
      p.options.want = {.scores = true};
      const AttentionResult r = attention(p.q, p.k, p.v, p.options);
      ASSERT_TRUE(close(to_doubles(r.scores), oracle::attention(c.oracle).scores, 2e-5, "scores")) << c.text;
      EXPECT_FALSE(r.weights.defined());
    }
  });
}

// In f32 whichever engines compute them; in bf16 where one engine computes both (few rows are decoded, in f32, where
// not all scores are wanted).
TEST(AttentionScores, OfChosenRowsHaveTheBitsOfAllScores) {
  on_every_engine([](const Engine& engine) {
    int compared = 0;
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      RandomCase c = random_case(90'000 + seed, 120);
      convert(c, type_of(engine));
      testing::Problem& p = c.problem;
      const int64_t heads = p.q.size(1), queries = p.q.size(2);
      if (queries == 0) continue;
      p.options.want = {.scores = true};
      const AttentionResult all = attention(p.q, p.k, p.v, p.options);
      const std::string engine_of_all = attention_plan(p.q, p.k, p.v, p.options).engine;
      p.options.want = {.taps = {.rows = {{heads - 1, queries / 2}, {0, queries - 1}}, .row_scores = true}};
      if (heads == 1 && queries / 2 == queries - 1) p.options.want.taps.rows.pop_back();
      if (p.q.dtype() != DType::f32 && attention_plan(p.q, p.k, p.v, p.options).engine != engine_of_all) continue;
      ++compared;
      const AttentionTapped taps = attention(p.q, p.k, p.v, p.options).taps;
      for (int64_t b = 0; b < p.q.size(0); ++b) {
        for (size_t n = 0; n < p.options.want.taps.rows.size(); ++n) {
          const auto [head, query] = p.options.want.taps.rows[n];
          const auto row = static_cast<int64_t>(n);
          for (int64_t j = 0; j < p.k.size(2); ++j) {
            ASSERT_EQ(taps.row_scores.at({b, row, j}), all.scores.at({b, head, query, j})) << c.text;
          }
        }
      }
    }
    EXPECT_GE(compared, 20);
  });
}

}  // namespace
}  // namespace heed
