// The encoder-decoder against the oracle; padding, causality, gradients, cached decoding.
#include <gtest/gtest.h>

#include "heed/cpu.h"
#include "heed/error.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

const std::vector<Ids> kSources = {{5, 7, 2, 9, 1}, {3, 10}, {4, 4, 8, 1, 6, 2, 7}};
const std::vector<Ids> kTargets = {{1, 6, 3, 4}, {1, 9, 9, 2, 5, 7}, {1}};

std::vector<NamedConfig> cases() { return variants(Architecture::encoder_decoder); }

TEST(Transformer, IsTheFormulaOnEveryConfiguration) {
  for (const auto& [name, config] : cases()) {
    const Transformer model(config, 3);
    shake(model);
    const oracle::Transformer plain = oracle_of(model);
    const Tensor logits = model.forward(batch(kSources), lengths(kSources), batch(kTargets)).data();
    ASSERT_EQ(logits.shape(), (Shape{3, 6, 11}));
    for (size_t b = 0; b < kSources.size(); ++b) {
      expect_near(logits.select(0, static_cast<int64_t>(b)), plain.translate(kSources[b], kTargets[b]), 1e-5, name);
    }
  }
}

TEST(Transformer, EncodesASentenceTheSameAloneAndInABatch) {
  for (const auto& [name, config] : cases()) {
    const Transformer model(config, 3);
    const Tensor together = model.forward(batch(kSources), lengths(kSources), batch(kTargets)).data();
    for (size_t b = 0; b < kSources.size(); ++b) {
      const auto row = static_cast<int64_t>(b);
      const auto size = static_cast<int64_t>(kTargets[b].size());
      const Tensor alone = model.forward(batch({kSources[b]}), lengths({kSources[b]}), batch({kTargets[b]})).data();
      EXPECT_TRUE(same_bits(together.select(0, row).slice(0, 0, size), alone.select(0, 0))) << name << ", row " << b;
    }
  }
}

TEST(Transformer, DoesNotReadThePadding) {
  const Transformer model(small(Architecture::encoder_decoder), 3);
  const Tensor zeros = model.forward(batch(kSources, 0), lengths(kSources), batch(kTargets)).data();
  const Tensor eights = model.forward(batch(kSources, 8), lengths(kSources), batch(kTargets)).data();
  EXPECT_TRUE(same_bits(zeros, eights));
}

TEST(Transformer, DoesNotSeeTheFuture) {
  const Transformer model(small(Architecture::encoder_decoder), 3);
  Ids changed = kTargets[1];
  changed[4] = 8;
  const auto run = [&](const Ids& target) {
    return model.forward(batch({kSources[0]}), lengths({kSources[0]}), batch({target})).data().select(0, 0);
  };
  const Tensor before = run(kTargets[1]), after = run(changed);
  EXPECT_TRUE(same_bits(before.slice(0, 0, 4), after.slice(0, 0, 4)));
  EXPECT_FALSE(same_bits(before.slice(0, 4, 5), after.slice(0, 4, 5)));
}

TEST(Transformer, DoesNotDependOnTheNumberOfThreads) {
  const Transformer model(small(Architecture::encoder_decoder), 3);
  const int threads = num_threads();
  std::vector<Tensor> results;
  for (const int count : {1, 2, 3}) {
    set_num_threads(count);
    results.push_back(model.forward(batch(kSources), lengths(kSources), batch(kTargets)).data());
  }
  set_num_threads(threads);
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_TRUE(same_bits(results[0], results[2]));
}

TEST(Transformer, HasTheSameGradientsWithAnyNumberOfThreads) {
  Config config = small(Architecture::encoder_decoder);
  config.dropout = 0.3f;
  config.attention_dropout = 0.2f;
  config.activation_dropout = 0.1f;
  const int threads = num_threads();
  std::vector<std::vector<Tensor>> gradients;
  for (const int count : {1, 2, 3}) {
    set_num_threads(count);
    const Transformer model(config, 3);
    const TrainingScope training(5, 17);
    const CrossEntropyOptions options{.ignored_id = 0, .label_smoothing = 0.1f};
    model.loss(batch(kSources), lengths(kSources), batch(kTargets), batch(kTargets), options).backward();
    gradients.emplace_back();
    for (const Value& parameter : model.parameters()) gradients.back().push_back(parameter.grad());
  }
  set_num_threads(threads);
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_TRUE(same_bits(gradients[0][i], gradients[1][i])) << "parameter " << i << ", two threads";
    EXPECT_TRUE(same_bits(gradients[0][i], gradients[2][i])) << "parameter " << i << ", three threads";
  }
}

TEST(Transformer, HasTheGradientOfEveryParameter) {
  for (const auto& [name, config] : cases()) {
    const Transformer model(config, 3);
    shake(model);
    const Ids source = {5, 7, 2, 9, 1}, target = {1, 6, 3, 4}, expected = {6, 3, 4, 2};
    const Value logits = model.forward(batch({source}), lengths({source}), batch({target}));
    const Value loss = model.loss(batch({source}), lengths({source}), batch({target}), batch({expected}));
    EXPECT_EQ(loss.item(), cross_entropy(logits, batch({expected})).item());
    loss.backward();
    expect_parameter_gradients(
        model, oracle_of(model), expected, [&](const oracle::Transformer& t) { return t.translate(source, target); },
        name);
  }
}

TEST(Transformer, NamesItsParameters) {
  Config config = small(Architecture::encoder_decoder);
  config.final_norm = true;
  const Transformer model(config);
  std::map<std::string, Shape> shapes;
  for (const auto& [path, value] : model.named_parameters()) shapes[path] = value.shape();
  EXPECT_EQ(shapes["encoder.embedding.tokens.weight"], (Shape{13, 8}));
  EXPECT_EQ(shapes["decoder.embedding.tokens.weight"], (Shape{11, 8}));
  EXPECT_EQ(shapes["encoder.layers.0.self_attention.query.weight"], (Shape{8, 8}));
  EXPECT_EQ(shapes["decoder.layers.1.cross_attention.output.bias"], (Shape{8}));
  EXPECT_EQ(shapes["decoder.layers.1.cross_attention_norm.gain"], (Shape{8}));
  EXPECT_EQ(shapes["encoder.layers.1.feed_forward.inner.weight"], (Shape{12, 8}));
  EXPECT_EQ(shapes["decoder.norm.bias"], (Shape{8}));
  EXPECT_FALSE(shapes.contains("output.weight"));
  EXPECT_EQ(static_cast<int64_t>(shapes.size()), 2 + 2 * 16 + 2 * 26 + 4);
}

// Log probabilities are compared by their bits: each op computes a row whatever stands beside it.
TEST(Transformer, DecodesWithACacheToTheSameBits) {
  for (const auto& [name, config] : cases()) {
    const Transformer model(config, 3);
    shake(model);
    const NoGradScope no_grad;
    for (const int64_t copies : {1, 3}) {
      // Rows of one source fork from the second step on.
      std::vector<Ids> sources, targets;
      for (size_t s = 0; s < kSources.size(); ++s) {
        for (int64_t c = 0; c < copies; ++c) {
          sources.push_back(kSources[s]);
          targets.push_back(random_ids(7, 11, static_cast<uint32_t>(10 * s) + static_cast<uint32_t>(c)));
          targets.back()[0] = 1;
        }
      }
      const Tensor whole = model.forward(batch(sources), lengths(sources), batch(targets)).data();
      const auto decoder = model.start(batch(kSources), lengths(kSources), copies);
      EXPECT_EQ(decoder->vocabulary(), 11);
      int64_t at = 0;
      for (const int64_t count : {2, 1, 1, 3}) {
        const Tensor tokens = batch(targets).slice(1, at, at + count).contiguous();
        at += count;
        const Tensor logits = decoder->step(tokens);
        ASSERT_EQ(logits.shape(), (Shape{3 * copies, 11}));
        EXPECT_TRUE(same_bits(logits, whole.transpose(0, 1).select(0, at - 1))) << name << " at " << at;
      }
    }
  }
}

// Long enough for every block of keys and of the cache to fill and be crossed, wide enough for whole vectors.
TEST(Transformer, DecodesLongTextsWithACacheToTheSameBits) {
  Config config = small(Architecture::encoder_decoder);
  config.width = 64;
  config.feed_forward = 96;
  config.max_length = 400;
  const Transformer model(config, 3);
  shake(model);
  const NoGradScope no_grad;
  const std::vector<Ids> sources = {random_ids(300, 13, 1), random_ids(131, 13, 2)};
  std::vector<Ids> rows, targets;
  for (uint32_t r = 0; r < 6; ++r) {
    rows.push_back(sources[r / 3]);
    targets.push_back(random_ids(100, 11, 3 + r));
  }
  const Tensor whole = model.forward(batch(rows), lengths(rows), batch(targets)).data();
  const auto decoder = model.start(batch(sources), lengths(sources), 3);
  int64_t at = 0;
  while (at < 100) {
    const int64_t count = at == 0 ? 50 : 1;
    const Tensor step = decoder->step(batch(targets).slice(1, at, at + count).contiguous());
    at += count;
    ASSERT_TRUE(same_bits(step, whole.transpose(0, 1).select(0, at - 1))) << "position " << at;
  }
}

TEST(Transformer, ReordersHypothesesEvenlyUnevenlyAndAway) {
  const Transformer model(small(Architecture::encoder_decoder), 3);
  const NoGradScope no_grad;
  struct Row {
    int64_t source;
    Ids read;
  };
  std::vector<Row> rows;
  for (int64_t r = 0; r < 6; ++r) rows.push_back({r / 2, {}});
  const auto decoder = model.start(batch(kSources), lengths(kSources), 2);
  const std::vector<std::vector<int64_t>> orders = {
      {1, 1, 2, 3, 5, 4},  // within the beams
      {2, 3, 4, 4},        // the first source is done
      {0, 2, 3},           // uneven: one row of one, two of the other
      {2, 2, 1, 0},        // mixed
      {3},
  };
  uint32_t seed = 1;
  const auto step_and_compare = [&] {
    Ids tokens = random_ids(static_cast<int64_t>(rows.size()), 11, seed++);
    std::vector<Ids> columns, sources, targets;
    for (size_t r = 0; r < rows.size(); ++r) {
      rows[r].read.push_back(tokens[r]);
      columns.push_back({tokens[r]});
      sources.push_back(kSources[static_cast<size_t>(rows[r].source)]);
      targets.push_back(rows[r].read);
    }
    const Tensor got = decoder->step(batch(columns));
    const Tensor want = model.forward(batch(sources), lengths(sources), batch(targets)).data();
    EXPECT_TRUE(same_bits(got, want.transpose(0, 1).select(0, want.size(1) - 1))) << "step " << seed;
  };
  step_and_compare();
  for (const auto& order : orders) {
    decoder->reorder(order);
    std::vector<Row> next;
    for (const int64_t r : order) next.push_back(rows[static_cast<size_t>(r)]);
    rows = next;
    step_and_compare();
    step_and_compare();
  }
  EXPECT_THROW(decoder->reorder(std::vector<int64_t>{1}), Error);
  EXPECT_THROW(decoder->reorder({}), Error);
  EXPECT_THROW((void)decoder->step(batch({{1}, {2}})), Error);
}

void expect_parts_of_large_vocabulary(const Transformer& model) {
  constexpr int64_t kRows = 250;
  const auto start = [&] { return model.start(batch({{3, 4, 5}}), lengths({{3, 4, 5}}), kRows); };
  const auto whole = start(), parts = start(), greedy = start();
  std::vector<int64_t> some;
  for (int64_t r = 1; r < kRows; r += 2) some.push_back(r);
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>(), some}) {
    std::vector<Ids> all, chosen;
    for (const int32_t id : random_ids(kRows, model.config().target_vocabulary, 5)) all.push_back({id});
    for (const int64_t r : rows) chosen.push_back(all[static_cast<size_t>(r)]);
    const Tensor want = whole->step(batch(all));
    int64_t seen = 0, most = 0;
    parts->step_by_parts(rows, batch(rows.empty() ? all : chosen), [&](int64_t first, const Tensor& logits) {
      EXPECT_EQ(first, seen);
      for (int64_t i = 0; i < logits.size(0); ++i, ++seen) {
        const int64_t row = rows.empty() ? seen : rows[static_cast<size_t>(seen)];
        EXPECT_TRUE(same_bits(logits.select(0, i), want.select(0, row))) << "row " << row;
      }
      most = std::max(most, logits.size(0));
    });
    EXPECT_EQ(seen, rows.empty() ? kRows : std::ssize(rows));
    EXPECT_LE(most, 96);
    EXPECT_EQ(greedy->step_greedy(batch(all), {}), ops::argmax(want));
  }
}

// A vocabulary of which no more than the least number of rows are there together.
TEST(Transformer, LogitsOfALargeVocabularyComeInParts) {
  const NoGradScope no_grad;
  Config config = small(Architecture::encoder_decoder);
  config.target_vocabulary = 60'000;
  for (const bool int8 : {false, true}) {
    const Transformer model(config, 3);
    if (int8) model.for_packed([](const Value& weight) { weight.pack(WeightFormat::int8); });
    expect_parts_of_large_vocabulary(model);
  }
}

TEST(Transformer, StepsSomeOfItsRowsToTheSameBits) {
  const NoGradScope no_grad;
  std::vector<NamedConfig> all = variants(Architecture::encoder_decoder);
  all.push_back({"a bias by distance", small(Architecture::encoder_decoder)});
  all.back().config.positions = Positions::none;
  all.back().config.relative_buckets = 8;
  for (const NamedConfig& variant : all) {
    SCOPED_TRACE(variant.name);
    const Transformer model(variant.config, 3);
    const auto whole = model.start(batch(kSources), lengths(kSources), 2);
    const auto parts = model.start(batch(kSources), lengths(kSources), 2);
    ASSERT_TRUE(parts->steps_some());
    const std::vector<int64_t> order = {1, 4, 0, 3};  // uneven: a source has one row, another two
    uint32_t seed = 7;
    const auto step_and_compare = [&](int64_t rows, const std::vector<int64_t>& first,
                                      const std::vector<int64_t>& then) {
      const Ids tokens = random_ids(rows, 11, seed++);
      std::vector<Ids> columns;
      for (const int32_t token : tokens) columns.push_back({token});
      const Tensor want = whole->step(batch(columns));
      for (const std::vector<int64_t>& some : {first, then}) {
        std::vector<Ids> of_some;
        for (const int64_t row : some) of_some.push_back(columns[static_cast<size_t>(row)]);
        if (some.empty()) continue;
        const Tensor got = parts->step_some(some, batch(of_some));
        for (size_t i = 0; i < some.size(); ++i)
          EXPECT_TRUE(same_bits(got.select(0, static_cast<int64_t>(i)), want.select(0, some[i]))) << "row " << some[i];
      }
    };
    step_and_compare(6, {0, 2, 3, 5}, {4, 1});
    for (auto* decoder : {whole.get(), parts.get()}) decoder->reorder(order);
    step_and_compare(4, {0, 2}, {3});
    EXPECT_THROW((void)parts->step(batch({{1}, {2}, {3}, {4}})), Error);  // rows have taken the step
    EXPECT_THROW((void)parts->step_some(std::vector<int64_t>{2}, batch({{1}})), Error);
    EXPECT_THROW((void)parts->step_some(std::vector<int64_t>{4}, batch({{1}})), Error);
    EXPECT_THROW((void)parts->step_some(std::vector<int64_t>{1}, batch({{1}, {2}})), Error);
    EXPECT_THROW(parts->reorder(std::vector<int64_t>{0, 1}), Error);  // row 1 has not
    for (auto* decoder : {whole.get(), parts.get()}) decoder->reorder(std::vector<int64_t>{3, 0, 2});
    step_and_compare(3, {1, 2}, {0});
    for (auto* decoder : {whole.get(), parts.get()}) decoder->reorder(std::vector<int64_t>{0, 1, 2});
    step_and_compare(3, {2}, {0, 1});
    step_and_compare(3, {0, 2}, {1});  // where all rows have taken a step, the next one needs no reorder()
    const Tensor want = whole->step(batch({{5}, {6}, {7}}));  // all together again
    EXPECT_TRUE(same_bits(parts->step(batch({{5}, {6}, {7}})), want));
  }
}

TEST(Transformer, ReportsEveryAttentionByItsPath) {
  const Transformer model(small(Architecture::encoder_decoder), 3);
  const oracle::Transformer plain = oracle_of(model);
  class Listener : public nn::AttentionObserver {
   public:
    void on_attention(std::string_view path, const Tensor& weights) override { seen.emplace(path, weights); }
    std::map<std::string, Tensor, std::less<>> seen;
  } listener;
  {
    const nn::ObserverScope scope(listener);
    (void)model.forward(batch({kSources[0]}), lengths({kSources[0]}), batch({kTargets[0]}));
  }
  (void)plain.translate(kSources[0], kTargets[0]);
  EXPECT_EQ(listener.seen.size(), 6u);
  EXPECT_EQ(plain.seen.size(), 6u);
  for (const auto& [path, weights] : plain.seen) {
    ASSERT_TRUE(listener.seen.contains(path)) << path;
    expect_near(listener.seen.find(path)->second.select(0, 0).select(0, 0), weights, 1e-5, path);
  }
}

TEST(Transformer, SaysWhatIsWrongWithItsInput) {
  const Transformer model(small(Architecture::encoder_decoder), 3);
  const Tensor source = batch(kSources), target = batch(kTargets);
  EXPECT_THROW((void)model.encode(source, lengths({kSources[0]})), Error);
  EXPECT_THROW((void)model.encode(source.slice(1, 0, 3).contiguous(), lengths(kSources)), Error) << "length 7 of 3";
  EXPECT_THROW((void)model.encode(batch({Ids(25, 1)}), lengths({Ids(25, 1)})), Error) << "max_length is 24";
  EXPECT_THROW((void)model.encode(batch({{1, 13}}), lengths({{1, 13}})), Error) << "no such token";
  EXPECT_THROW((void)model.start(source, lengths(kSources), 0), Error);
  EXPECT_THROW((void)Transformer(small(Architecture::decoder_only)), Error);
}

TEST(Transformer, SurvivesAnEmptySentence) {
  const Transformer model(small(Architecture::encoder_decoder), 3);
  const std::vector<Ids> sources = {{}, {5, 6}};
  const Tensor logits = model.forward(batch(sources), lengths(sources), batch({{1, 2}, {1, 2}})).data();
  for (int64_t i = 0; i < logits.numel(); ++i) ASSERT_TRUE(std::isfinite(logits.data<float>()[i]));
}

}  // namespace
}  // namespace heed::models::test
