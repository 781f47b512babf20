// The searches of transformers: the same tokens and scores as it found (tests/data/families).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/message.h"
#include "base/scratch.h"
#include "heed/generate.h"
#include "heed/io.h"

namespace heed::generate::test {
namespace {

using heed::test::Scratch;
using heed::test::test_data;
using heed::testing::message_of;

struct SearchRun {
  const char* golden;
  void (*set)(BeamOptions&);
};

const SearchRun kRuns[] = {
    {"greedy", [](BeamOptions& o) { o.beam = 1, o.stop_when = StopWhen::full; }},
    {"beam", [](BeamOptions& o) { o.stop_when = StopWhen::worst; }},
    {"beam_early", [](BeamOptions& o) { o.stop_when = StopWhen::full; }},
    {"beam_never", [](BeamOptions& o) { o.stop_when = StopWhen::possible; }},
    {"beam_long", [](BeamOptions& o) { o.stop_when = StopWhen::worst, o.length_penalty = 2; }},
    {"beam_min", [](BeamOptions& o) { o.stop_when = StopWhen::worst, o.min_length = 12; }},
    {"beam_ngram", [](BeamOptions& o) { o.stop_when = StopWhen::worst, o.no_repeat_ngram = 3; }},
};

Ids row_of(const Tensor& ids, int64_t b, int64_t begin, int64_t count) {
  Ids row;
  for (int64_t l = begin; l < begin + count; ++l)
    row.push_back(static_cast<int32_t>(ids.data<int64_t>()[b * ids.size(1) + l]));
  return row;
}

// From behind the start token to before the end, or to the end of the row.
Ids expected_ids(const Tensor& found, int64_t b, int64_t end_id) {
  Ids ids = row_of(found, b, 1, found.size(1) - 1);
  const auto end = std::find(ids.begin(), ids.end(), static_cast<int32_t>(end_id));
  ids.erase(end, ids.end());
  return ids;
}

std::vector<Ids> sources_of(const io::Tensors& golden) {
  std::vector<Ids> sources;
  const Tensor& mask = golden.at("attention_mask");
  for (int64_t b = 0; b < mask.size(0); ++b) {
    int64_t length = 0;
    for (int64_t l = 0; l < mask.size(1); ++l) length += mask.data<int64_t>()[b * mask.size(1) + l];
    sources.push_back(row_of(golden.at("input_ids"), b, 0, length));
  }
  return sources;
}

TEST(FamilySearches, FindWhatTransformersFinds) {
  int64_t compared = 0;
  for (const char* const name : {"marian", "marian-apart", "marian-old", "m2m100", "nllb", "nllb-old", "bart", "mbart",
                                 "t5", "t5-v1.1", "t5-v1.1-resaved", "mt5"}) {
    const auto folder = test_data("families") / name;
    const auto model = models::load(folder);
    const auto& transformer = dynamic_cast<const models::Transformer&>(*model);
    const io::Tensors golden = io::read_safetensors(folder / "golden.safetensors").tensors;
    const std::vector<Ids> sources = sources_of(golden);
    for (const SearchRun& run : kRuns) {
      if (!golden.contains(run.golden)) continue;
      SCOPED_TRACE(std::string(name) + ", " + run.golden);
      TranslateOptions options{.search = search_settings(folder)};
      options.search.beam = 4;
      options.search.max_length = 32;
      run.set(options.search);
      if (golden.contains("forced_bos_token_id")) {
        options.search.prefix = {static_cast<int32_t>(golden.at("forced_bos_token_id").data<int64_t>()[0])};
      }
      const auto found = translate(transformer, sources, options);
      for (size_t b = 0; b < found.size(); ++b) {
        EXPECT_EQ(found[b].at(0).ids,
                  expected_ids(golden.at(run.golden), static_cast<int64_t>(b), model->config().end_id))
            << "text " << b;
        const auto scores = golden.find(std::string(run.golden) + "_scores");
        if (scores != golden.end()) {
          const double want = static_cast<double>(scores->second.data<float>()[b]);
          EXPECT_NEAR(found[b].at(0).score, want, 1e-4 * std::max(1.0, std::abs(want))) << "text " << b;
        }
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 12 * 5 * 3);
}

// With one more setting in generation_config.json, 4 beams or greedy, and 12 new tokens; computed with
// transformers 5.23 and 5.24.
struct SettingRun {
  const char *family, *keys;
  std::vector<Ids> ids;
  std::vector<double> scores;  // none: greedy
};

TEST(FamilySearches, FollowSettingsAsTransformersDoes) {
  const std::vector<SettingRun> runs = {
      {"marian",
       R"({"renormalize_logits": true, "no_repeat_ngram_size": 2})",
       {{7, 36, 54, 36, 36, 48, 49, 36, 38, 36, 57}, {27, 24, 27}, {27, 36}},
       {-1.645058, -1.75511, -1.796936}},
      {"marian",
       R"({"no_repeat_ngram_size": 2})",
       {{7, 36, 54, 28, 36, 36, 48, 49, 36, 38, 36}, {27, 24, 27}, {27, 36}},
       {-1.726505, -1.773715, -1.804663}},
      {"marian",
       R"({"begin_suppress_tokens": [7, 27]})",
       {{5, 54, 36, 36, 36, 36, 36, 36, 36, 36, 36}, {24, 27}, {36, 36, 36, 36, 36, 38, 36, 38, 36, 38, 36}},
       {-1.745094, -1.913014, -1.666782}},
      {"marian",
       R"({"decoder_start_token_id": 7})",
       {{36, 54, 28, 36, 54, 28, 36, 48, 36, 36, 54},
        {52, 5, 52, 5, 52, 5, 52, 5, 52, 37, 37},
        {36, 48, 36, 38, 36, 38, 36, 38, 36, 38, 36}},
       {-1.769249, -2.051027, -1.655983}},
      {"marian", R"({"repetition_penalty": 1.5})", {{7, 36, 54}, {27, 13}, {27, 36}}, {-1.9608, -1.9403, -1.8047}},
      {"marian",
       R"({"repetition_penalty": 1.5, "renormalize_logits": true})",
       {{7, 36, 48, 49, 36, 54}, {7, 5, 52, 14, 13, 27, 15, 7}, {27, 36}},
       {-1.9013, -1.8559, -1.7507}},
      {"marian",  // 36 and 27 win because they are there
       R"({"repetition_penalty": 0.7})",
       {{36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36},
        {27, 13, 27, 13, 27, 13, 27, 13, 27, 13, 27},
        {36, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36}},
       {-1.3388, -1.3542, -1.2532}},
      {"marian",
       R"({"repetition_penalty": 1.5})",
       {{27, 36, 38}, {7, 5, 52, 14, 24, 27, 43, 27, 15, 7, 37}, {27, 36, 38}},
       {}},
      {"marian",
       R"({"repetition_penalty": 0.3})",
       {{27, 27, 27, 36, 36, 36, 36, 36, 36, 36, 36},
        {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7},
        {27, 27, 27, 27, 27, 27, 27, 27, 27, 27, 27}},
       {}},
      {"marian",
       R"({"bad_words_ids": [[60], [36, 36], [27, 24, 27], [54, 36, 48]]})",
       {{7, 36, 48, 49, 36, 54, 36, 54, 36, 54, 36},
        {7, 5, 52, 14, 5, 52, 59, 5, 52, 39, 4},
        {27, 36, 38, 36, 38, 36, 38, 36, 38, 36, 48}},
       {-1.7026, -1.7261, -1.6867}},
      {"marian",
       R"({"bad_words_ids": [[60], [36, 36], [27, 36]]})",
       {{27}, {7, 5, 52, 14, 5, 52, 59, 5, 52, 14, 5}, {27, 47, 36}},
       {}},
      {"marian",
       R"({"bad_words_ids": [[60], [36, 38, 36]], "repetition_penalty": 1.2, "no_repeat_ngram_size": 3})",
       {{7, 36, 48, 49, 36, 54}, {27, 24, 27}, {27, 36}},
       {-1.9506, -1.8468, -1.8047}},
      {"bart",  // whose first token is forced
       R"({"begin_suppress_tokens": [11, 52]})",
       {{0, 45, 60, 11, 11, 52, 11, 52, 0, 52, 27},
        {0, 0, 0, 11, 52, 52, 11, 52, 0, 52, 0},
        {0, 4, 11, 11, 11, 11, 47, 11, 11, 11, 15}},
       {-0.656307, -0.648153, -0.791107}},
      {"bart",  // begins with bos_token_id
       R"({"decoder_start_token_id": null})",
       {{0, 11, 11, 11, 11, 52, 11, 52, 0, 52, 0}, {0, 0}, {0, 11, 11, 11, 11, 9, 11, 11, 11, 11, 15}},
       {-0.398066, -0.502709, -0.339643}}};
  for (const SettingRun& run : runs) {
    SCOPED_TRACE(std::string(run.family) + " " + run.keys);
    const auto family = test_data("families") / run.family;
    const auto model = models::load(family);
    const Scratch folder;
    std::filesystem::copy(family / "config.json", folder.path() / "config.json");
    auto settings = nlohmann::json::parse(heed::test::contents_of(family / "generation_config.json"));
    settings.update(nlohmann::json::parse(run.keys));
    folder.file("generation_config.json", settings.dump());
    TranslateOptions options{.search = search_settings(folder.path())};
    options.search.beam = run.scores.empty() ? 1 : 4;
    options.search.max_length = 12;
    options.search.stop_when = run.scores.empty() ? StopWhen::full : StopWhen::worst;
    const std::vector<Ids> sources = sources_of(io::read_safetensors(family / "golden.safetensors").tensors);
    const auto found = translate(dynamic_cast<const models::Transformer&>(*model), sources, options);
    for (size_t b = 0; b < found.size(); ++b) {
      EXPECT_EQ(found[b].at(0).ids, run.ids[b]) << "text " << b;
      for (const float log_prob : found[b].at(0).log_probs) EXPECT_LE(log_prob, 1e-6f) << "text " << b;
      if (!run.scores.empty()) {
        EXPECT_NEAR(found[b].at(0).score, run.scores[b], 1e-4) << "text " << b;
      }
    }
  }
}

TEST(FamilySearches, CountTokensAsTheSearchDoes) {  // transformers counts the start token as well
  const Scratch folder;
  folder.file("config.json", R"({"min_length": 5, "max_length": 20, "num_beams": 3, "length_penalty": 0.6,
                                 "no_repeat_ngram_size": 2, "suppress_tokens": [7], "bad_words_ids": [[8], 9, [8, 9]],
                                 "eos_token_id": [8], "repetition_penalty": 1.25})");
  const BeamOptions options = search_settings(folder.path());
  EXPECT_EQ(options.min_length, 4);
  EXPECT_EQ(options.max_length, 19);
  EXPECT_EQ(options.beam, 3);
  EXPECT_EQ(options.length_penalty, 0.6);
  EXPECT_EQ(options.no_repeat_ngram, 2);
  EXPECT_EQ(options.suppressed, (std::vector<int32_t>{9, 7}));  // the end is no bad word
  EXPECT_EQ(options.suppressed_sequences, (std::vector<Ids>{{8, 9}}));
  EXPECT_EQ(options.repetition_penalty, 1.25);
  EXPECT_EQ(options.stop_when, StopWhen::worst);
  folder.file("generation_config.json", R"({"max_new_tokens": 6})");  // which is read in place of config.json
  EXPECT_EQ(search_settings(folder.path()).max_length, 6);
  EXPECT_EQ(search_settings(folder.path()).stop_when, StopWhen::full);
  folder.file("generation_config.json", R"({"min_length": 9, "min_new_tokens": 3})");
  EXPECT_EQ(search_settings(folder.path()).min_length, 3);  // min_new_tokens wins
}

TEST(FamilySearches, BeginAsBartsFirstFilesSay) {
  const Scratch folder;
  const auto prefix = [&](const char* config) {
    folder.file("config.json", config);
    return search_settings(folder.path()).prefix;
  };
  EXPECT_EQ(prefix(R"({"force_bos_token_to_be_generated": true, "bos_token_id": 5})"), Ids{5});
  EXPECT_EQ(prefix(R"({"force_bos_token_to_be_generated": true})"), Ids{0});
  EXPECT_EQ(prefix(R"({"force_bos_token_to_be_generated": true, "forced_bos_token_id": 7})"), Ids{7});
  EXPECT_EQ(prefix(R"({"force_bos_token_to_be_generated": false, "bos_token_id": 5})"), Ids{});
  folder.file("generation_config.json", R"({"bos_token_id": 5})");  // which is read in place of config.json
  EXPECT_EQ(prefix(R"({"force_bos_token_to_be_generated": true, "bos_token_id": 5})"), Ids{});
}

// A copy of a family's folder with these keys in generation_config.json.
class FamilySettings : public ::testing::Test {
 protected:
  BeamOptions with(const char* keys) {
    nlohmann::json settings = nlohmann::json::parse(heed::test::contents_of(family_ / "generation_config.json"));
    settings.update(nlohmann::json::parse(keys));
    scratch_.file("generation_config.json", settings.dump());
    return search_settings(scratch_.path());
  }
  std::string refused(const char* keys) {
    return message_of([&] { (void)with(keys); });
  }
  void SetUp() override { std::filesystem::copy(family_ / "config.json", scratch_.path() / "config.json"); }

  const std::filesystem::path family_ = test_data("families") / "marian";  // begins with 60, ends with 0
  const Scratch scratch_;
};

TEST_F(FamilySettings, SayWithWhichTokenAnOutputBegins) {
  EXPECT_EQ(with("{}").begin_id, 60);
  EXPECT_EQ(with(R"({"decoder_start_token_id": 7})").begin_id, 7);
  EXPECT_EQ(with(R"({"decoder_start_token_id": null, "bos_token_id": 5})").begin_id, 5);
  EXPECT_EQ(with(R"({"decoder_start_token_id": null})").begin_id, -1);
  EXPECT_CONTAINS(refused(R"({"decoder_start_token_id": [7, 8]})"), "\"decoder_start_token_id\": the id of one token");
}

TEST_F(FamilySettings, EndAsConfigDoes) {
  nlohmann::json config = nlohmann::json::parse(heed::test::contents_of(scratch_ / "config.json"));
  config["eos_token_id"] = {0};
  scratch_.file("config.json", config.dump());
  EXPECT_EQ(refused(R"({"eos_token_id": [0, 0]})"), "");
  EXPECT_CONTAINS(refused(R"({"eos_token_id": 7})"), "\"eos_token_id\": the end of config.json alone, 0; found 7");
  EXPECT_CONTAINS(refused(R"({"eos_token_id": [0, 7]})"), "found [0,7]");
}

TEST_F(FamilySettings, NameTokensThatDoNotComeFirst) {
  EXPECT_EQ(with(R"({"begin_suppress_tokens": [7, 0]})").suppressed_first, (Ids{7, 0}));
  EXPECT_TRUE(with("{}").suppressed_first.empty());
}

TEST_F(FamilySettings, MayAskForRenormalisedProbabilities) {
  EXPECT_TRUE(with(R"({"renormalize_logits": true})").renormalised);
  EXPECT_FALSE(with("{}").renormalised);
}

TEST_F(FamilySettings, OfSamplingAreNotThoseOfASearch) {
  EXPECT_EQ(refused(R"({"do_sample": true, "temperature": 0.7, "top_p": 0.9})"), "");
  EXPECT_TRUE(asks_for_samples(scratch_.path()));
  (void)with("{}");
  EXPECT_FALSE(asks_for_samples(scratch_.path()));
  EXPECT_CONTAINS(refused(R"({"do_sample": "yes"})"), "\"do_sample\": true or false");
}

// What transformers 5.24 writes that changes no output.
TEST_F(FamilySettings, MayBeHarmless) {
  EXPECT_EQ(refused(R"({"_from_model_config": true, "use_cache": true, "cache_implementation": "static",
                        "output_scores": true, "return_dict_in_generate": true, "num_return_sequences": 1,
                        "remove_invalid_values": true, "prompt_lookup_num_tokens": 3, "token_healing": false,
                        "typical_p": 1.0, "max_time": null, "stop_strings": []})"),
            "");
}

TEST(FamilySearches, RefuseSettingsThatTheyDoNotHave) {
  const Scratch folder;
  const auto message = [&](const std::string& text) {
    folder.file("generation_config.json", text);
    return message_of([&] { (void)search_settings(folder.path()); });
  };
  EXPECT_EQ(message("{}"), "");
  EXPECT_EQ(message(R"({"repetition_penalty": 1.0, "num_beam_groups": 1})"), "");
  EXPECT_NE(message(R"({"repetition_penalty": 0})").find("\"repetition_penalty\": a number above 0; found 0"),
            std::string::npos);
  EXPECT_NE(message(R"({"encoder_repetition_penalty": 1.2})")
                .find("\"encoder_repetition_penalty\": a setting that heed's search has; found 1.2"),
            std::string::npos);
  for (const char* const entry : {"[1, \"a\"]", "[-1]", "{\"a\": 1}", "1.5"})
    EXPECT_NE(message(R"({"bad_words_ids": [)" + std::string(entry) + "]}")
                  .find("\"bad_words_ids\": a list of lists of tokens"),
              std::string::npos);
  EXPECT_NE(message(R"({"bad_words_ids": [[]]})").find("\"bad_words_ids\": lists of at least one token"),
            std::string::npos);
  EXPECT_NE(message(R"({"force_words_ids": [[3]]})").find("force_words_ids"), std::string::npos);
  EXPECT_NE(message(R"({"watermarking_config": {"bias": 2.0}})").find("watermarking_config"), std::string::npos);
  EXPECT_NE(message(R"({"max_time": 1.5})").find("max_time"), std::string::npos);
  EXPECT_NE(message(R"({"new_penalty": 2})")
                .find("\"new_penalty\": a setting that heed knows (take it out if it changes no output); found 2"),
            std::string::npos);
  EXPECT_NE(message(R"({"early_stopping": "soon"})").find("\"early_stopping\": true, false or \"never\""),
            std::string::npos);
  EXPECT_NE(message(R"({"max_length": 1})").find("max_length"), std::string::npos);
  EXPECT_NE(message(R"({"forced_bos_token_id": "de"})").find("the id of one token"), std::string::npos);
  EXPECT_NE(message("[]").find("a JSON object"), std::string::npos);
  EXPECT_NE(message("{").find("generation_config.json"), std::string::npos);
}

}  // namespace
}  // namespace heed::generate::test
