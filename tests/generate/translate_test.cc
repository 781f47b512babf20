// Decoding with real networks: one that others trained, with its published outputs, and small random ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/data.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "heed/ops.h"
#include "heed/text.h"

namespace heed::generate {
namespace {

// Arabic to Latin letters, trained with OpenNMT; outputs and numbers by CTranslate2 4.8.
models::Config transliteration_config() {
  models::Config c;
  c.source_vocabulary = 51;
  c.target_vocabulary = 43;
  c.width = 32;
  c.feed_forward = 128;
  c.norm_placement = models::NormPlacement::pre;
  c.final_norm = true;
  c.position_layout = nn::PositionLayout::halves;
  c.first_position = 1;
  c.tie_output = false;
  c.output_bias = true;
  c.unknown_id = 42;
  return c;
}

class Transliteration : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = heed::test::test_data("models/aren-transliteration");
    models::load_weights(model_, folder / "model.safetensors", models::ctranslate2_names());
    cases_ = nlohmann::json::parse(std::ifstream(folder / "expected.json"))["reference"]["cases"];
    ASSERT_EQ(cases_.size(), 10u);
    for (const auto& c : cases_) sources_.push_back(c["source_ids"]);
    std::ifstream vocabulary(folder / "target_vocabulary.txt");
    for (std::string line; std::getline(vocabulary, line);) letters_.push_back(line);
    letters_.push_back("<unk>");
  }

  std::string text(const Ids& ids) const {
    std::string out;
    for (const int32_t id : ids) out += letters_.at(static_cast<size_t>(id));
    return out;
  }
  Hypothesis best(const Ids& source, const BeamOptions& search) const {
    return translate(model_, std::span(&source, 1), {.search = search})[0][0];
  }

  models::Transformer model_{transliteration_config()};
  nlohmann::json cases_;
  std::vector<Ids> sources_;
  std::vector<std::string> letters_;
  const Ids atzmon_ = {31, 10, 19, 13, 5, 7};
};

TEST_F(Transliteration, Greedy) {
  const auto found = translate(model_, sources_, {.search = {.beam = 1}});
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& want = cases_[i]["greedy"];
    const Hypothesis& h = found[i][0];
    EXPECT_EQ(h.ids, want["ids"].get<Ids>());
    EXPECT_TRUE(h.finished);
    EXPECT_NEAR(h.score, want["score"].get<double>(), 5e-4);
    const std::vector<float> log_probs = want["log_probs_with_eos"];
    ASSERT_EQ(h.log_probs.size(), log_probs.size());
    for (size_t t = 0; t < log_probs.size(); ++t) EXPECT_NEAR(h.log_probs[t], log_probs[t], 1e-4f);
  }
}

TEST_F(Transliteration, BeamOfFive) {
  const auto found = translate(model_, sources_, {.search = {.beam = 5, .n_best = 5}});
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& want = cases_[i]["beam5"];
    ASSERT_EQ(found[i].size(), want["hypotheses"].size());
    for (size_t k = 0; k < found[i].size(); ++k) {
      EXPECT_EQ(text(found[i][k].ids), want["hypotheses"][k].get<std::string>())
          << "case " << i << ", hypothesis " << k;
      EXPECT_NEAR(found[i][k].score, want["scores"][k].get<double>(), 5e-4) << "case " << i << ", hypothesis " << k;
    }
  }
}

// CTranslate2's own test cases of decoding options.
TEST_F(Transliteration, Options) {
  EXPECT_EQ(text(best(atzmon_, {.beam = 1, .prefix = {3, 11, 9}}).ids), "atsumon");
  EXPECT_EQ(best(atzmon_, {.beam = 1, .max_length = 3}).ids.size(), 3u);
  EXPECT_FALSE(best(atzmon_, {.beam = 1, .max_length = 3}).finished);
  EXPECT_EQ(best(atzmon_, {.beam = 1, .max_length = 8, .min_length = 8}).ids.size(), 8u);
  const Ids no_o = best(atzmon_, {.beam = 5, .suppressed = {8}}).ids;
  EXPECT_EQ(std::count(no_o.begin(), no_o.end(), 8), 0);
}

TEST_F(Transliteration, ScoresAreThoseOfDecoding) {
  std::vector<Ids> targets;
  const auto found = translate(model_, sources_, {.search = {.beam = 5}});
  for (const auto& list : found) targets.push_back(list[0].ids);
  const auto scores = score(model_, sources_, targets);
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(scores[i].size(), found[i][0].log_probs.size());
    for (size_t t = 0; t < scores[i].size(); ++t)
      worst = std::max(worst, std::abs(static_cast<double>(scores[i][t] - found[i][0].log_probs[t])));
  }
  EXPECT_LT(worst, 1e-5);
  RecordProperty("worst_difference", std::to_string(worst));
}

models::Config small_config(int64_t vocabulary) {
  models::Config c = models::preset("tiny");
  c.source_vocabulary = c.target_vocabulary = vocabulary;
  c.encoder_layers = c.decoder_layers = 2;
  c.width = 32;
  c.feed_forward = 64;
  c.max_length = 64;
  return c;
}

std::vector<Ids> random_sources(size_t count, int64_t vocabulary, size_t longest) {
  std::mt19937 random(5);
  std::vector<Ids> sources(count);
  for (Ids& ids : sources) {
    ids.resize(1 + random() % longest);
    for (int32_t& id : ids) id = static_cast<int32_t>(4 + random() % static_cast<uint32_t>(vocabulary - 4));
  }
  return sources;
}

void expect_same(const std::vector<std::vector<Hypothesis>>& a, const std::vector<std::vector<Hypothesis>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size()) << "sentence " << i;
    for (size_t k = 0; k < a[i].size(); ++k) {
      EXPECT_EQ(a[i][k].ids, b[i][k].ids) << "sentence " << i;
      EXPECT_EQ(a[i][k].log_probs, b[i][k].log_probs) << "sentence " << i;
      EXPECT_EQ(a[i][k].score, b[i][k].score) << "sentence " << i;
    }
  }
}

TEST(Translate, DoesNotDependOnTheBatchesOrTheThreads) {
  const models::Transformer model(small_config(50), 3);
  const std::vector<Ids> sources = random_sources(23, 50, 17);
  const BeamOptions search = {.beam = 3, .n_best = 3, .max_length = 20};
  const auto one = translate(model, sources, {.search = search, .batch_tokens = 1});
  expect_same(one, translate(model, sources, {.search = search, .batch_tokens = 100}));
  expect_same(one, translate(model, sources, {.search = search, .batch_tokens = 100000}));
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    expect_same(one, translate(model, sources, {.search = search, .batch_tokens = 300}));
  }
  set_num_threads(before);
}

// Settings and callbacks that belong to the calling thread, where others translate too.
class TranslateOnThreads : public ::testing::Test {
 protected:
  void SetUp() override { set_num_threads(3); }
  void TearDown() override { set_num_threads(before_); }
  int before_ = num_threads();
  models::Transformer model_{small_config(50), 3};
  std::vector<Ids> sources_ = random_sources(40, 50, 17);
  BeamOptions search_ = {.beam = 2, .max_length = 20};
  const std::thread::id caller_ = std::this_thread::get_id();
};

TEST_F(TranslateOnThreads, ProgressGrowsToAllOnTheCallingThread) {
  sources_.emplace_back();  // an empty one
  std::vector<int64_t> told;
  (void)translate(model_, sources_, {.search = search_, .batch_tokens = 60}, [&](int64_t done, int64_t all) {
    EXPECT_EQ(std::this_thread::get_id(), caller_);
    EXPECT_EQ(all, 41);
    told.push_back(done);
  });
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end(), std::less_equal<>()));
  EXPECT_EQ(told.back(), 40);
}

TEST_F(TranslateOnThreads, StopIsAskedOnTheCallingThreadAndEndsAll) {
  std::atomic<int> asked{0};
  search_.stop = [&] {
    EXPECT_EQ(std::this_thread::get_id(), caller_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the other threads search meanwhile
    return ++asked > 5;
  };
  const auto found = translate(model_, sources_, {.search = search_, .batch_tokens = 40});
  ASSERT_EQ(found.size(), 40U);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const auto& one) { return one.empty(); }));
}

TEST_F(TranslateOnThreads, EachStepIsToldOnTheCallingThread) {
  int64_t steps = 0;
  search_.on_step = [&](const BeamStep&) {
    EXPECT_EQ(std::this_thread::get_id(), caller_);
    ++steps;
  };
  (void)translate(model_, sources_, {.search = search_, .batch_tokens = 60});
  EXPECT_GT(steps, 40);
}

TEST_F(TranslateOnThreads, ThePrecisionOfTheCallingThreadHolds) {
  const auto bits = [&](int threads) {
    set_num_threads(threads);
    const ops::MatmulPrecisionScope bf16(ops::Precision::bf16);
    return translate(model_, sources_, {.search = search_, .batch_tokens = 60});
  };
  const auto three = bits(3);
  expect_same(bits(1), three);
  const auto exact = translate(model_, sources_, {.search = search_});
  EXPECT_EQ(three[0][0].log_probs == exact[0][0].log_probs, !multiplies_bf16()) << "where it cannot, f32 is used";
}

TEST_F(TranslateOnThreads, ScoresHaveTheBitsOfOneThread) {
  std::vector<Ids> targets = random_sources(40, 50, 18);
  for (size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i].empty()) sources_[i] = {7};
  const auto three = score(model_, sources_, targets);
  set_num_threads(1);
  EXPECT_EQ(score(model_, sources_, targets), three);
}

TEST_F(TranslateOnThreads, DropoutIsThatOfTheCallingThread) {
  models::Config config = small_config(50);
  config.dropout = 0.5f;
  const models::Transformer model(config, 3);
  for (Ids& source : sources_)
    if (source.empty()) source = {7};
  const auto scores = [&](int threads) {
    set_num_threads(threads);
    const TrainingScope training(1, 1);
    return score(model, sources_, sources_);
  };
  EXPECT_EQ(scores(1), scores(3));
}

// Decoding from logits that are computed anew from the whole prefix, without any cache.
class Uncached : public models::Decoder {
 public:
  Uncached(const models::Transformer& model, const Ids& source, int64_t copies)
      : model_(model), source_(source), rows_(static_cast<size_t>(copies)) {}
  Tensor step(const Tensor& tokens) override {
    const Tensor out = Tensor::empty({tokens.size(0), vocabulary()});
    for (int64_t r = 0; r < tokens.size(0); ++r) {
      Ids& read = rows_[static_cast<size_t>(r)];
      read.push_back(static_cast<int32_t>(tokens.at({r, 0})));
      const int64_t length = static_cast<int64_t>(read.size()), source_length = static_cast<int64_t>(source_.size());
      const int32_t lengths[] = {static_cast<int32_t>(source_length)};
      const Tensor logits = model_
                                .forward(Tensor::from(std::span<const int32_t>(source_), {1, source_length}),
                                         Tensor::from(std::span<const int32_t>(lengths), {1}),
                                         Tensor::from(std::span<const int32_t>(read), {1, length}))
                                .data();
      out.select(0, r).copy_from(logits.select(0, 0).select(0, length - 1));
    }
    return out;
  }
  void reorder(std::span<const int64_t> rows) override {
    std::vector<Ids> next;
    for (const int64_t r : rows) next.push_back(rows_[static_cast<size_t>(r)]);
    rows_ = std::move(next);
  }
  [[nodiscard]] int64_t vocabulary() const override { return model_.config().target_vocabulary; }

 private:
  const models::Transformer& model_;
  Ids source_;
  std::vector<Ids> rows_;
};

TEST(Translate, CacheGivesTheSameTokensAndLogProbabilities) {
  for (const auto placement : {models::NormPlacement::post, models::NormPlacement::pre}) {
    models::Config config = small_config(40);
    config.norm_placement = placement;
    const models::Transformer model(config, 9);
    const NoGradScope no_grad;
    double worst = 0;
    for (const Ids& source : random_sources(6, 40, 12)) {
      const std::vector<int64_t> limits = {15};
      const BeamOptions search = {.beam = 4, .n_best = 4, .suppressed = {0, 1}};
      Uncached uncached(model, source, 4);
      const auto want = beam_search(uncached, 1, 1, 2, limits, search);
      const auto got = translate(model, std::span(&source, 1),
                                 {.search = {.beam = 4, .n_best = 4, .max_length = 15, .length_factor = 0}});
      ASSERT_EQ(got[0].size(), want[0].size());
      for (size_t k = 0; k < got[0].size(); ++k) {
        EXPECT_EQ(got[0][k].ids, want[0][k].ids);
        ASSERT_EQ(got[0][k].log_probs.size(), want[0][k].log_probs.size());
        for (size_t t = 0; t < got[0][k].log_probs.size(); ++t)
          worst = std::max(worst, std::abs(static_cast<double>(got[0][k].log_probs[t] - want[0][k].log_probs[t])));
      }
    }
    EXPECT_LE(worst, 1e-5);
    std::printf("cached against uncached: log probabilities differ by %g at most\n", worst);
  }
}

// The first step of a beam from one row a source, as translate() has it, and from a beam of equal rows.
TEST(Translate, FirstStepFromOneRowASource) {
  const models::Transformer model(small_config(40), 3);
  const std::vector<Ids> sources = random_sources(7, 40, 9);
  const text::Padded batch = text::pad(sources, 0);
  const std::vector<int64_t> limits(sources.size(), 12);
  std::vector<std::vector<std::vector<Hypothesis>>> found;
  for (const bool one_row : {false, true}) {
    const auto decoder = model.start(batch.ids, batch.lengths, one_row ? 1 : 4, {});
    found.push_back(beam_search(*decoder, static_cast<int64_t>(sources.size()), 1, 2, limits,
                                {.beam = 4, .n_best = 4, .one_row = one_row}));
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    ASSERT_EQ(found[0][i].size(), found[1][i].size());
    for (size_t n = 0; n < found[0][i].size(); ++n) {
      EXPECT_EQ(found[0][i][n].ids, found[1][i][n].ids);
      EXPECT_EQ(found[0][i][n].log_probs, found[1][i][n].log_probs);
    }
  }
}

TEST(Translate, EmptySourcesGiveEmptyTranslations) {
  const models::Transformer model(small_config(30), 1);
  const std::vector<Ids> sources = {{}, {5, 6}, {}};
  int64_t calls = 0;
  const auto found = translate(model, sources, {.search = {.beam = 2, .n_best = 2}}, [&](int64_t, int64_t all) {
    ++calls;
    EXPECT_EQ(all, 3);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(found[0].size(), 1u);
  EXPECT_TRUE(found[0][0].ids.empty());
  EXPECT_EQ(found[1].size(), 2u);
  EXPECT_TRUE(found[2][0].ids.empty());
  EXPECT_TRUE(translate(model, std::span<const Ids>()).empty());
}

TEST(Translate, RefusesSourcesThatAreTooLongOrUnknown) {
  const models::Transformer model(small_config(30), 1);
  const auto run = [&](const Ids& source) { (void)translate(model, std::span(&source, 1)); };
  EXPECT_THROW(run(Ids(65, 5)), Error);
  EXPECT_THROW(run({30}), Error);
  EXPECT_THROW(run({-1}), Error);
}

models::Config gpt_config() {
  models::Config c;
  c.architecture = models::Architecture::decoder_only;
  c.target_vocabulary = 20;
  c.decoder_layers = 2;
  c.width = 16;
  c.feed_forward = 32;
  c.heads = 2;
  c.positions = models::Positions::learned;
  c.max_length = 16;
  return c;
}

TEST(SampleText, SameSeedSameText) {
  const models::Gpt model(gpt_config(), 4);
  const Ids prompt = {3, 4, 5};
  const auto a = sample_text(model, prompt, {.seed = 1, .max_tokens = 40});
  EXPECT_EQ(a.ids.size(), 40u);  // and beyond the model's window of 16
  EXPECT_EQ(a.log_probs.size(), 40u);
  EXPECT_EQ(a.ids, sample_text(model, prompt, {.seed = 1, .max_tokens = 40}).ids);
  EXPECT_NE(a.ids, sample_text(model, prompt, {.seed = 2, .max_tokens = 40}).ids);
  const int before = num_threads();
  set_num_threads(3);
  EXPECT_EQ(a.ids, sample_text(model, prompt, {.seed = 1, .max_tokens = 40}).ids);
  set_num_threads(before);
}

TEST(SampleText, TemperatureZeroIsTheArgmaxOfTheWholeForward) {
  const models::Gpt model(gpt_config(), 4);
  Ids read = {3, 4, 5};
  const auto got = sample_text(model, read, {.temperature = 0, .max_tokens = 10});
  const NoGradScope no_grad;
  for (const int32_t id : got.ids) {
    const Tensor logits =
        model.forward(Tensor::from(std::span<const int32_t>(read), {1, static_cast<int64_t>(read.size())})).data();
    const Tensor last = logits.select(0, 0).select(0, static_cast<int64_t>(read.size()) - 1).contiguous();
    const float* x = last.data<float>();
    EXPECT_EQ(id, static_cast<int32_t>(std::max_element(x, x + 20) - x));
    read.push_back(id);
  }
}

TEST(SampleText, StopsWhenToldTo) {
  const models::Gpt model(gpt_config(), 4);
  const Ids prompt = {3};
  const auto all = sample_text(model, prompt, {.seed = 5, .max_tokens = 30});
  const int32_t stop = all.ids[7];
  const size_t first = static_cast<size_t>(std::find(all.ids.begin(), all.ids.end(), stop) - all.ids.begin());
  const auto stopped = sample_text(model, prompt, {.seed = 5, .max_tokens = 30, .stop_ids = {stop}});
  EXPECT_TRUE(stopped.finished);
  EXPECT_EQ(stopped.ids, Ids(all.ids.begin(), all.ids.begin() + static_cast<std::ptrdiff_t>(first)));
  EXPECT_EQ(stopped.log_probs.size(), stopped.ids.size() + 1);
  Ids seen;
  const auto told = sample_text(model, prompt, {.seed = 5, .max_tokens = 30}, [&](int32_t id) {
    seen.push_back(id);
    return seen.size() < 4;
  });
  EXPECT_EQ(seen, Ids(all.ids.begin(), all.ids.begin() + 4));
  EXPECT_EQ(told.ids, seen);
  EXPECT_FALSE(told.finished);
  // Asked before each of the four tokens and once more.
  int asked = 0;
  const auto ended = sample_text(model, prompt, {.seed = 5, .max_tokens = 30, .stop = [&] { return ++asked > 4; }});
  EXPECT_EQ(ended.ids, told.ids);
  EXPECT_EQ(asked, 5);
  EXPECT_TRUE(sample_text(model, prompt, {.max_tokens = 0}).ids.empty());
  EXPECT_THROW((void)sample_text(model, {}, {}), Error);
}

TEST(SampleText, ReadsALongPromptInPartsWithTheBitsOfTheWhole) {
  models::Config config = gpt_config();
  config.max_length = 4000;
  const models::Gpt model(config, 4);
  Ids prompt;
  for (int32_t i = 0; i < 2500; ++i) prompt.push_back(3 + i * 7 % 17);
  int asked = 0;
  const auto parts = sample_text(model, prompt, {.seed = 5, .max_tokens = 3, .stop = [&] { return ++asked < 0; }});
  EXPECT_EQ(asked, 5) << "three parts, and two tokens behind the first";
  const auto decoder = model.start({});
  const Tensor whole =
      decoder->step(Tensor::from(std::span<const int32_t>(prompt), {1, std::ssize(prompt)})).contiguous();
  const float* const x = whole.data<float>();
  double sum = 0;
  for (int64_t v = 0; v < 20; ++v) sum += std::exp(static_cast<double>(x[v]));
  EXPECT_NEAR(parts.log_probs[0], static_cast<double>(x[parts.ids[0]]) - std::log(sum), 1e-5);
  // The same logits to the bit, read as 1,024 + 1,024 + 452 tokens.
  const auto again = model.start({});
  Tensor last;
  for (std::span<const int32_t> rest = prompt; !rest.empty(); rest = rest.subspan(std::min<size_t>(rest.size(), 1024)))
    last = again->step(Tensor::from(rest.first(std::min<size_t>(rest.size(), 1024)),
                                    {1, static_cast<int64_t>(std::min<size_t>(rest.size(), 1024))}));
  EXPECT_EQ(std::memcmp(last.contiguous().data<float>(), x, 20 * sizeof(float)), 0);
  // Stopped in the middle of the prompt.
  asked = 0;
  const auto ended = sample_text(model, prompt, {.max_tokens = 3, .stop = [&] { return ++asked == 2; }});
  EXPECT_TRUE(ended.ids.empty());
  EXPECT_FALSE(ended.finished);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace heed::generate
