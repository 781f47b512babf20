// The searches of transformers: the same tokens and scores as it found (tests/data/families).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

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

TEST(FamilySearches, FindWhatTransformersFinds) {
  int64_t compared = 0;
  for (const char* const name : {"marian", "marian-apart", "marian-old", "m2m100", "nllb", "nllb-old", "bart", "mbart",
                                 "t5", "t5-v1.1", "t5-v1.1-resaved", "mt5"}) {
    const auto folder = test_data("families") / name;
    const auto model = models::load(folder);
    const auto& transformer = dynamic_cast<const models::Transformer&>(*model);
    const io::Tensors golden = io::read_safetensors(folder / "golden.safetensors").tensors;
    std::vector<Ids> sources;
    const Tensor& mask = golden.at("attention_mask");
    for (int64_t b = 0; b < mask.size(0); ++b) {
      int64_t length = 0;
      for (int64_t l = 0; l < mask.size(1); ++l) length += mask.data<int64_t>()[b * mask.size(1) + l];
      sources.push_back(row_of(golden.at("input_ids"), b, 0, length));
    }
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

TEST(FamilySearches, CountTokensAsTheSearchDoes) {  // transformers counts the start token as well
  const Scratch folder;
  folder.file("config.json", R"({"min_length": 5, "max_length": 20, "num_beams": 3, "length_penalty": 0.6,
                                 "no_repeat_ngram_size": 2, "suppress_tokens": [7, 8], "eos_token_id": [8]})");
  const BeamOptions options = search_settings(folder.path());
  EXPECT_EQ(options.min_length, 4);
  EXPECT_EQ(options.max_length, 19);
  EXPECT_EQ(options.beam, 3);
  EXPECT_EQ(options.length_penalty, 0.6);
  EXPECT_EQ(options.no_repeat_ngram, 2);
  EXPECT_EQ(options.suppressed, (std::vector<int32_t>{7}));
  EXPECT_EQ(options.stop_when, StopWhen::worst);
  folder.file("generation_config.json", R"({"max_new_tokens": 6})");  // which is read in place of config.json
  EXPECT_EQ(search_settings(folder.path()).max_length, 6);
  EXPECT_EQ(search_settings(folder.path()).stop_when, StopWhen::full);
}

TEST(FamilySearches, RefuseSettingsThatTheyDoNotHave) {
  const Scratch folder;
  const auto message = [&](const char* text) {
    folder.file("generation_config.json", text);
    return message_of([&] { (void)search_settings(folder.path()); });
  };
  EXPECT_EQ(message("{}"), "");
  EXPECT_EQ(message(R"({"repetition_penalty": 1.0, "num_beam_groups": 1})"), "");
  EXPECT_NE(message(R"({"repetition_penalty": 1.2})")
                .find("\"repetition_penalty\": a setting that heed's search has; found 1.2"),
            std::string::npos);
  EXPECT_NE(message(R"({"bad_words_ids": [[1, 2]]})").find("\"bad_words_ids\": a list of single tokens"),
            std::string::npos);
  EXPECT_NE(message(R"({"force_words_ids": [[3]]})").find("force_words_ids"), std::string::npos);
  EXPECT_NE(message(R"({"early_stopping": "soon"})").find("\"early_stopping\": true, false or \"never\""),
            std::string::npos);
  EXPECT_NE(message(R"({"max_length": 1})").find("max_length"), std::string::npos);
  EXPECT_NE(message(R"({"forced_bos_token_id": "de"})").find("the id of one token"), std::string::npos);
  EXPECT_NE(message("[]").find("a JSON object"), std::string::npos);
  EXPECT_NE(message("{").find("generation_config.json"), std::string::npos);
}

}  // namespace
}  // namespace heed::generate::test
