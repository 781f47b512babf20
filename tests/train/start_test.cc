// Trainings that start from a model: heed's own, and folders that transformers wrote (tests/data/families).
#include "train/start.h"
#include "foreign.h"
#include "heed/models.h"
#include "models/weights.h"
#include "ranks.h"
#include "toy.h"

namespace heed::train {
namespace {

// A recipe on the same text that says nothing of a model.
Recipe start_recipe(const Recipe& text, const fs::path& from) {
  Recipe recipe;
  recipe.task = text.task;
  recipe.train_source = text.train_source;
  recipe.train_target = text.train_target;
  recipe.valid_source = text.valid_source;
  recipe.valid_target = text.valid_target;
  recipe.from = from.string();
  recipe.batch_tokens = 96;
  recipe.schedule = {.kind = ScheduleKind::constant, .peak = 1e-3, .warmup = 0};
  recipe.max_updates = 4;
  recipe.validate_every = 2;
  recipe.log_every = 1;
  return recipe;
}

class Starts : public OneThread {
 protected:
  void SetUp() override {
    OneThread::SetUp();
    copy_ = copy_recipe(folder_.path());
  }
  Recipe masked() {
    Recipe recipe = copy_;
    recipe.task = "masked_language_model";
    recipe.train_target = recipe.valid_target = "";
    return recipe;
  }
  TemporaryFolder folder_;
  Recipe copy_;
};

TEST_F(Starts, FromAnOwnModel) {
  ASSERT_EQ(run(copy_, folder_ / "first"), Outcome::finished);
  const Recipe recipe = start_recipe(copy_, folder_ / "first");
  const auto model = models::load(folder_ / "first");
  const double there = evaluate(*model, folder_ / "first", copy_.valid_source, copy_.valid_target).loss;

  ASSERT_EQ(run(without_steps(recipe), folder_ / "still"), Outcome::finished);
  EXPECT_NEAR(last_line(folder_ / "still", "end")["loss"].get<double>(), there, 1e-6);
  EXPECT_TRUE(same_bytes(folder_ / "first/model.safetensors", folder_ / "still/model.safetensors"));
  EXPECT_TRUE(same_bytes(folder_ / "first/config.json", folder_ / "still/config.json"));
  EXPECT_TRUE(same_bytes(folder_ / "first/source.vocab", folder_ / "still/source.vocab"));

  ASSERT_EQ(run(recipe, folder_ / "more"), Outcome::finished);
  EXPECT_LT(last_line(folder_ / "more", "end")["loss"].get<double>(), there);

  Recipe dropping = recipe;
  set_option(dropping, "model.dropout", "0.5");
  ASSERT_EQ(run(dropping, folder_ / "dropping"), Outcome::finished);
  EXPECT_EQ(models::read_config(folder_ / "dropping").dropout, 0.5f);
  EXPECT_NE(read_text(folder_ / "dropping/model.safetensors"), read_text(folder_ / "more/model.safetensors"));
}

TEST_F(Starts, ResumeEndsWithTheSameBits) {
  write_marian(folder_ / "marian");
  ASSERT_EQ(run(copy_, folder_ / "first"), Outcome::finished);
  for (const char* const from : {"first", "marian"}) {
    for (const bool averages : {false, true}) {
      Recipe recipe = start_recipe(copy_, folder_ / from);
      set_option(recipe, "model.dropout", "0.3");
      if (averages) {
        recipe.ema = 0.9;
        recipe.average_last = 2;
      }
      const std::string name = from + std::string(averages ? "-averages" : "");
      ASSERT_EQ(run(recipe, folder_ / (name + "-4")), Outcome::finished);
      ASSERT_EQ(run_until(recipe, folder_ / (name + "-2"), 2), Outcome::interrupted);
      EXPECT_EQ(models::load(folder_ / (name + "-2") / "checkpoints/step-00000002")->origin() != nullptr,
                std::string(from) == "marian");
      recipe.from = (folder_ / "gone").string();  // the checkpoint has all
      ASSERT_EQ(run(recipe, folder_ / (name + "-2"), true), Outcome::finished);
      EXPECT_TRUE(
          same_bytes(folder_ / (name + "-4") / "model.safetensors", folder_ / (name + "-2") / "model.safetensors"));
      EXPECT_TRUE(same_bytes(folder_ / (name + "-4") / "checkpoints/step-00000004/optimizer.safetensors",
                             folder_ / (name + "-2") / "checkpoints/step-00000004/optimizer.safetensors"));
    }
  }
}

TEST_F(Starts, FromAMarian) {
  write_marian(folder_ / "from");
  Recipe recipe = start_recipe(copy_, folder_ / "from");
  ASSERT_EQ(run(without_steps(recipe), folder_ / "still"), Outcome::finished);
  for (const char* const file : {"config.json", "generation_config.json", "tokenizer.json"}) {
    EXPECT_TRUE(same_bytes(folder_ / "from" / file, folder_ / "still" / file));
  }
  // The weights as they were, under the names that they had.
  const io::Tensors before = io::read_safetensors(folder_ / "from/model.safetensors").tensors;
  const io::SafetensorsFile after = io::read_safetensors(folder_ / "still/model.safetensors");
  EXPECT_EQ(after.metadata.at("format"), "pt");
  for (const auto& [name, tensor] : after.tensors) {
    const Tensor expected = before.at(name).to(DType::f32).contiguous(), found = tensor.contiguous();
    ASSERT_EQ(found.shape(), expected.shape()) << name;
    EXPECT_EQ(std::memcmp(found.raw(), expected.raw(), static_cast<size_t>(found.nbytes())), 0) << name;
  }
  const auto model = models::load(folder_ / "still");
  ASSERT_NE(model->origin(), nullptr);
  const double there = evaluate(*model, folder_ / "from", copy_.valid_source, copy_.valid_target).loss;
  EXPECT_NEAR(last_line(folder_ / "still", "end")["loss"].get<double>(), there, 1e-6);

  recipe.max_updates = 60;
  recipe.validate_every = 20;
  recipe.valid_beam = 2;
  recipe.average_last = 2;
  recipe.precision = "bf16";
  recipe.schedule.peak = 1e-2;
  ASSERT_EQ(run(recipe, folder_ / "more"), Outcome::finished);
  EXPECT_LT(last_line(folder_ / "more", "end")["loss"].get<double>(), there - 0.5);
  EXPECT_NE(models::load(folder_ / "more")->origin(), nullptr);

  // Averaged by hand, the folder is complete too.
  const std::vector<fs::path> two = {folder_ / "still", folder_ / "more"};
  average_models(two, folder_ / "mean");
  EXPECT_NE(models::load(folder_ / "mean")->origin(), nullptr);
  EXPECT_EQ(text::Tokenizer::load(folder_ / "mean", text::Side::target)->vocabulary(), 61);
}

TEST_F(Starts, FromABertThatGuessesTokens) {
  write_bert(folder_ / "from");
  Recipe recipe = start_recipe(masked(), folder_ / "from");
  ASSERT_EQ(run(without_steps(recipe), folder_ / "still"), Outcome::finished);
  const auto model = models::load(folder_ / "still");
  ASSERT_NE(model->origin(), nullptr);
  EXPECT_TRUE(same_bytes(folder_ / "from/vocab.txt", folder_ / "still/vocab.txt"));
  EXPECT_TRUE(same_bytes(folder_ / "from/config.json", folder_ / "still/config.json"));
  // Validation draws with the seed 0.
  const double there = evaluate(*model, folder_ / "from", recipe.valid_source, "", {.seed = 0}).loss;
  EXPECT_NEAR(last_line(folder_ / "still", "end")["loss"].get<double>(), there, 1e-6);

  recipe.max_updates = 40;
  recipe.validate_every = 20;
  recipe.schedule.peak = 1e-2;
  ASSERT_EQ(run(recipe, folder_ / "more"), Outcome::finished);
  EXPECT_LT(last_line(folder_ / "more", "end")["loss"].get<double>(), there - 0.5);
}

TEST_F(Starts, TextsStandBetweenTheTokensOfTheirModel) {
  write_bert(folder_ / "bert");
  const auto bert = models::load(folder_ / "bert");
  const Frames masked = frames_of(*bert, *text::Tokenizer::load(folder_ / "bert", text::Side::source), nullptr);
  EXPECT_EQ(masked.source.before, (text::Ids{2}));  // [CLS]
  EXPECT_EQ(masked.source.after, (text::Ids{3}));   // [SEP]
  EXPECT_EQ(masked.mask_id, 4);
  write_marian(folder_ / "marian");
  const auto marian = models::load(folder_ / "marian");
  const auto tokenizer = text::Tokenizer::load(folder_ / "marian", text::Side::source);
  const Frames pairs = frames_of(*marian, *tokenizer, tokenizer.get());
  EXPECT_EQ(pairs.source.before, text::Ids{});
  EXPECT_EQ(pairs.source.after, (text::Ids{0}));
  EXPECT_EQ(pairs.target.begin, 60);  // decoder_start_token_id
  EXPECT_EQ(pairs.target.after, (text::Ids{0}));
  EXPECT_EQ(pairs.target.padding, 60);
}

TEST_F(Starts, FromEveryFamily) {
  struct Case {
    const char* name;
    bool masked;
    std::vector<std::pair<int, std::string>> special;
    bool begin;
    int end_id;
  };
  const std::vector<Case> cases = {
      {"bart", false, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}}, true, 2},
      {"t5", false, {{0, "<pad>"}, {1, "</s>"}, {2, "<unk>"}}, false, 1},
      {"t5-v1.1", false, {{0, "<pad>"}, {1, "</s>"}, {2, "<unk>"}}, false, 1},
      {"roberta-masked", true, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "<mask>"}}, true, 2},
      {"modernbert-masked", true, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "[MASK]"}}, true, 2},
      {"mpnet-masked", true, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "<mask>"}}, true, 2},
      {"distilbert-masked", true, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "[MASK]"}}, true, 2},
      {"bert-masked-bf16", true, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "[MASK]"}}, true, 2}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const fs::path from = folder_ / one.name;
    copy_family(one.name, from);
    write_word_tokenizer(from, one.special, template_of(one.begin, one.end_id));
    Recipe recipe = start_recipe(one.masked ? masked() : copy_, from);
    ASSERT_EQ(run(without_steps(recipe), folder_ / (one.name + std::string("-still"))), Outcome::finished);
    const double before = last_line(folder_ / (one.name + std::string("-still")), "end")["loss"].get<double>();
    recipe.max_updates = 40;
    recipe.validate_every = 20;
    recipe.schedule.peak = 5e-3;
    const fs::path more = folder_ / (one.name + std::string("-more"));
    ASSERT_EQ(run(recipe, more), Outcome::finished);
    EXPECT_LT(last_line(more, "end")["loss"].get<double>(), before - 0.3);
    const auto model = models::load(more);
    EXPECT_NE(model->origin(), nullptr);
    for (const auto& [name, tensor] : io::read_safetensors(more / "model.safetensors").tensors) {
      EXPECT_EQ(tensor.dtype(), DType::f32) << name;
    }
    EXPECT_EQ(Json::parse(read_text(more / "config.json")).value("dtype", "float32"), "float32");
  }
}

TEST_F(Starts, AnyNumberOfProcessesGivesTheSameBits) {
  write_marian(folder_ / "marian");
  Recipe recipe = start_recipe(copy_, folder_ / "marian");
  recipe.shards = 4;
  recipe.compare_every = 1;
  for (const int ranks : {1, 3}) {
    ASSERT_EQ(train_on(ranks, recipe, folder_ / std::to_string(ranks), false), Outcome::finished);
  }
  EXPECT_EQ(weights_in(folder_ / "1"), weights_in(folder_ / "3"));
}

TEST_F(Starts, RefusesWhatContradictsTheFolder) {
  write_marian(folder_ / "marian");
  write_bert(folder_ / "bert");
  const auto error = [&](const char* from, const char* key, const char* value) {
    Recipe recipe = start_recipe(copy_, folder_ / from);
    set_option(recipe, key, value);
    if (recipe.task != copy_.task) recipe.train_target = recipe.valid_target = "";
    return message_of([&] { (void)run(recipe, folder_ / "new"); });
  };
  EXPECT_CONTAINS(error("marian", "model.width", "32"), "model.width: 16, as the model of from has; found 32");
  EXPECT_CONTAINS(error("marian", "tokenizer", "characters"), "tokenizer: wordlevel, as the model of from has");
  EXPECT_CONTAINS(error("marian", "vocabulary", "4000"), "vocabulary: 61, as the model of from has; found 4000");
  EXPECT_CONTAINS(error("marian", "preset", "big"), "preset: left out");
  EXPECT_CONTAINS(error("marian", "bpe", "true"), "bpe: left out");
  EXPECT_CONTAINS(error("marian", "vocabulary_lines", "10"), "vocabulary_lines: left out");
  EXPECT_CONTAINS(error("marian", "token_cache", "x"), "token_cache: left out");
  EXPECT_CONTAINS(error("marian", "task", "masked_language_model"), "from: a model that fits the task");
  EXPECT_CONTAINS(error("bert", "log_every", "1"), "from: a model that fits the task, translation");
  for (const char* const key : {"train_target", "valid_target"}) {
    Recipe unread = start_recipe(masked(), folder_ / "bert");
    set_option(unread, key, "a.txt");
    EXPECT_CONTAINS(message_of([&] { (void)run(unread, folder_ / "new"); }),
                    std::string(key) + ": for translation and sentence_embedding; found task masked_language_model");
  }
  EXPECT_CONTAINS(error("nothing/at/all", "log_every", "1"), "from: ");
  EXPECT_FALSE(fs::exists(folder_ / "new"));  // a run that fails at once leaves nothing

  Recipe recipe = start_recipe(copy_, folder_ / "marian");
  set_option(recipe, "model.width", "16");  // as it is there
  ASSERT_EQ(run_until(recipe, folder_ / "run", 2), Outcome::interrupted);
  recipe.from = "";
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "run", true); }), "found one without it");
  recipe.from = (folder_ / "marian").string();
  set_option(recipe, "model.dropout", "0.4");
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "run", true); }), "model.dropout (nothing before");
}

// Languages 57 and 58: __en__ and __fr__, or en_XX and fr_XX.
class SeveralLanguages : public Starts {
 protected:
  void SetUp() override {
    Starts::SetUp();
    write_text(folder_ / "source", "a b c\nd e\n");
    write_text(folder_ / "target", "c b\nf g h\n");
  }
  fs::path write(const std::string& name, bool marked, const std::string& as = {}) {
    const fs::path to = folder_ / (as.empty() ? name : as);
    copy_family(name, to);
    write_word_tokenizer(to,
                         {{0, "<s>"},
                          {1, "<pad>"},
                          {2, "</s>"},
                          {3, "<unk>"},
                          {57, marked ? "__en__" : "en_XX"},
                          {58, marked ? "__fr__" : "fr_XX"}},
                         template_of(true, 2));
    return to;
  }
  // As mBART's first models have it: the language behind the end, and the decoder begins with it.
  fs::path write_behind() {
    const fs::path to = write("mbart", false, "behind");
    begin_with(to, 58);
    Json tokenizer = Json::parse(read_text(to / "tokenizer.json"));
    Json& processor = tokenizer["post_processor"];
    processor["single"] = Json::parse(
        R"([{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
            {"SpecialToken": {"id": "en_XX", "type_id": 0}}])");
    processor["pair"] = processor["single"];
    processor["special_tokens"]["en_XX"] = {{"id", "en_XX"}, {"ids", {57}}, {"tokens", {"en_XX"}}};
    write_text(to / "tokenizer.json", tokenizer.dump());
    return to;
  }
  static void begin_with(const fs::path& folder, int32_t token) {
    Json config = Json::parse(read_text(folder / "config.json"));
    config["decoder_start_token_id"] = token;
    write_text(folder / "config.json", config.dump());
  }
  double loss(const fs::path& from, const std::string& source, const std::string& target) const {
    return evaluate(*models::load(from), from, folder_ / "source", folder_ / "target",
                    {.source_language = source, .target_language = target})
        .loss;
  }
  static double golden(const std::string& name) {
    const fs::path file = heed::test::test_data("finetuning/languages-" + name + ".safetensors");
    return static_cast<double>(io::read_safetensors(file).tensors.at("loss").data<float>()[0]);
  }
};

TEST_F(SeveralLanguages, TheLossIsThatOfTransformers) {
  EXPECT_NEAR(loss(write("m2m100", true), "en", "fr"), golden("m2m100"), 1e-5);
  EXPECT_NEAR(loss(write("nllb", true), "__en__", "__fr__"), golden("nllb"), 1e-5);
  EXPECT_NEAR(loss(write("mbart", false), "en_XX", "fr_XX"), golden("mbart"), 1e-5);
  const fs::path behind = write_behind();
  for (const int32_t begin : {58, 57, 2}) {  // what config.json names does not matter where a language is asked for
    begin_with(behind, begin);
    EXPECT_NEAR(loss(behind, "en_XX", "fr_XX"), golden("mbart-behind"), 1e-5) << begin;
  }
}

// The tokenizers of a Marian say that nothing begins a text; the model begins with its padding token.
TEST_F(SeveralLanguages, AConvertedModelHasTheLossThatItHad) {
  const fs::path from = folder_ / "marian";
  write_marian(from);
  const auto model = models::load(from);
  const double before = evaluate(*model, from, folder_ / "source", folder_ / "target").loss;
  fs::create_directories(folder_ / "own");
  const io::Tensors tensors = models::tensors_of(*model);
  io::write_safetensors(folder_ / "own/model.safetensors", tensors,
                        {{"format", models::kFormat}, {models::kChecksumKey, models::checksum(tensors)}});
  write_text(folder_ / "own/config.json", models::to_json(model->config()));
  fs::copy_file(from / "tokenizer.json", folder_ / "own/tokenizer.json");
  const auto own = models::load(folder_ / "own");
  ASSERT_EQ(own->origin(), nullptr);
  EXPECT_NEAR(evaluate(*own, folder_ / "own", folder_ / "source", folder_ / "target").loss, before, 1e-6);
}

TEST_F(SeveralLanguages, AVocabularyWithoutLanguagesNeedsNone) {
  copy_family("mbart", folder_ / "two");
  write_word_tokenizer(folder_ / "two", {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}}, template_of(true, 2));
  EXPECT_GT(loss(folder_ / "two", "", ""), 0);
  EXPECT_CONTAINS(message_of([&] { (void)loss(folder_ / "two", "en_XX", "fr_XX"); }), "does not name its languages");
}

TEST_F(SeveralLanguages, ARecipeNamesThem) {
  for (const char* const name : {"m2m100", "mbart"}) {
    SCOPED_TRACE(name);
    const bool marked = name == std::string("m2m100");
    Recipe recipe = start_recipe(copy_, write(name, marked));
    recipe.source_language = marked ? "en" : "en_XX";
    recipe.target_language = marked ? "fr" : "fr_XX";
    recipe.valid_beam = 2;
    const fs::path still = folder_ / (name + std::string("-still")), more = folder_ / (name + std::string("-more"));
    ASSERT_EQ(run(without_steps(recipe), still), Outcome::finished);
    recipe.max_updates = 60;
    recipe.validate_every = 20;
    recipe.schedule.peak = 1e-2;
    ASSERT_EQ(run(recipe, more), Outcome::finished);
    const auto end = [](const fs::path& folder) { return last_line(folder, "end")["loss"].get<double>(); };
    EXPECT_LT(end(more), end(still) - 0.5);
    const auto model = models::load(more);
    const EvaluateOptions same = {.source_language = recipe.source_language, .target_language = recipe.target_language};
    EXPECT_NEAR(evaluate(*model, more, copy_.valid_source, copy_.valid_target, same).loss, end(more), 1e-5);
    // Into another language it has not learnt to write.
    EXPECT_GT(evaluate(*model, more, copy_.valid_source, copy_.valid_target,
                       {.source_language = recipe.source_language, .target_language = recipe.source_language})
                  .loss,
              end(more) + 0.1);
  }
}

// mbart-large-cc25 knows its languages and begins with none of them; other models of its kind begin with the one that
// they were trained to write. A training makes it that of the recipe, for heed and for transformers.
TEST_F(SeveralLanguages, ATrainingDecidesWhatMBartBeginsWith) {
  const fs::path from = write_behind();
  for (const int32_t before : {2, 57, 58}) {
    SCOPED_TRACE(before);
    const fs::path to = folder_ / ("to-" + std::to_string(before));
    begin_with(from, before);
    const std::string settings = R"({"decoder_start_token_id": )" + std::to_string(before) + R"(, "num_beams": 2})";
    write_text(from / "generation_config.json", settings);
    write_text(from / "tokenizer_config.json",
               R"({"src_lang": "fr_XX", "tgt_lang": "en_XX", "tokenizer_class": "MBartTokenizer"})");
    Recipe recipe = start_recipe(copy_, from);
    recipe.source_language = "en_XX";
    recipe.target_language = "fr_XX";
    ASSERT_EQ(run(without_steps(recipe), to), Outcome::finished);
    EXPECT_EQ(Json::parse(read_text(to / "config.json"))["decoder_start_token_id"], 58);
    EXPECT_EQ(Json::parse(read_text(to / "generation_config.json")),
              (Json{{"decoder_start_token_id", 58}, {"num_beams", 2}}));
    EXPECT_EQ(Json::parse(read_text(to / "tokenizer_config.json")),
              (Json{{"src_lang", "en_XX"}, {"tgt_lang", "fr_XX"}, {"tokenizer_class", "MBartTokenizer"}}));
    EXPECT_NEAR(loss(to, "en_XX", "fr_XX"), golden("mbart-behind"), 1e-5);
    EXPECT_EQ(read_text(from / "generation_config.json"), settings);
    if (before == 58) {  // nothing changes: the files are the same
      EXPECT_EQ(read_text(to / "generation_config.json"), settings);
    }
  }
}

// Where generation_config.json names another first token than config.json, a training makes it that of config.json.
TEST_F(SeveralLanguages, ATrainedModelBeginsAsItWasTrained) {
  const fs::path from = write("m2m100", true), to = folder_ / "to";
  for (const char* const settings : {R"({"decoder_start_token_id": 0})", R"({"bos_token_id": 0})"}) {
    write_text(from / "generation_config.json", settings);
    Recipe recipe = start_recipe(copy_, from);
    recipe.source_language = "en";
    recipe.target_language = "fr";
    ASSERT_EQ(run(without_steps(recipe), to), Outcome::finished);
    EXPECT_EQ(Json::parse(read_text(to / "generation_config.json"))["decoder_start_token_id"], 2);
    fs::remove_all(to);
  }
}

TEST_F(SeveralLanguages, MissingOrUnknownOnesAreRefused) {
  const fs::path m2m100 = write("m2m100", true), behind = write_behind();
  write_marian(folder_ / "marian");
  const auto error = [&](const fs::path& from, const char* source, const char* target) {
    Recipe recipe = start_recipe(copy_, from);
    recipe.source_language = source;
    recipe.target_language = target;
    return message_of([&] { (void)run(recipe, folder_ / "new"); });
  };
  EXPECT_CONTAINS(error(m2m100, "", ""), "because the model knows several; found neither");
  EXPECT_CONTAINS(error(m2m100, "en", ""), "found one of them");
  EXPECT_CONTAINS(error(m2m100, "en", "xx"), "a language that the model knows (en fr); found \"xx\"");
  EXPECT_CONTAINS(error(m2m100, "en", "a"), "found \"a\"");  // a piece of words
  EXPECT_CONTAINS(error(behind, "fr_XX", ""), "found one of them");
  EXPECT_CONTAINS(error(behind, "fr_XX", "xx_XX"), "a language that the model knows");
  EXPECT_CONTAINS(error(folder_ / "marian", "en", "fr"), "because the model does not name its languages; found en");
  EXPECT_CONTAINS(message_of([&] { (void)loss(m2m100, "", ""); }), "found neither");
  Recipe own = copy_;
  own.target_language = "fr";
  EXPECT_CONTAINS(message_of([&] { (void)run(own, folder_ / "new"); }), "target_language: left out");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(Starts, RecipesNameAFolderOrAModel) {
  fs::create_directories(folder_ / "models/own");
  write_text(folder_ / "recipe.toml", "from = \"models/own\"\n[model]\ndropout = 0.25\n");
  const Recipe recipe = read_recipe(folder_ / "recipe.toml");
  EXPECT_EQ(recipe.from, (folder_ / "models/own").string());
  EXPECT_EQ(Json::parse(to_json(recipe))["model"], (Json{{"dropout", 0.25}}));
  write_text(folder_ / "named.toml", "from = \"Helsinki-NLP/opus-mt-en-zh\"\n");
  EXPECT_EQ(read_recipe(folder_ / "named.toml").from, "Helsinki-NLP/opus-mt-en-zh");
}

}  // namespace
}  // namespace heed::train
