// What a training takes from the files beside a model: the mask, settings of a search, languages, lower case, prompts.
#include <algorithm>

#include "foreign.h"
#include "generate/settings.h"
#include "heed/generate.h"
#include "heed/models.h"
#include "train/start.h"

namespace heed::train {
namespace {

class StartSettings : public OneThread {
 protected:
  void SetUp() override {
    OneThread::SetUp();
    copy_ = copy_recipe(folder_.path());
  }
  Recipe recipe_from(const fs::path& from) const {
    Recipe recipe;
    recipe.train_source = copy_.train_source;
    recipe.train_target = copy_.train_target;
    recipe.valid_source = copy_.valid_source;
    recipe.valid_target = copy_.valid_target;
    recipe.from = from.string();
    recipe.batch_tokens = 96;
    return recipe;
  }
  Recipe masked_from(const fs::path& from) const {
    Recipe recipe = recipe_from(from);
    recipe.task = "masked_language_model";
    recipe.train_target = recipe.valid_target = "";
    return recipe;
  }
  static void change_json(const fs::path& file, const std::function<void(Json&)>& change) {
    Json json = fs::exists(file) ? Json::parse(read_text(file)) : Json::object();
    change(json);
    write_text(file, json.dump());
  }

  TemporaryFolder folder_;
  Recipe copy_;
};

// MPNet's vocabulary has BERT's [MASK] as an ordinary word, which its texts are never cut into.
TEST_F(StartSettings, TheMaskIsTheTokenThatATextCanName) {
  const fs::path from = folder_ / "mpnet";
  copy_family("mpnet-masked", from);
  write_word_tokenizer(from, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "<mask>"}},
                       template_of(true, 2));
  change_json(from / "tokenizer.json", [](Json& tokenizer) {
    Json& words = tokenizer["model"]["vocab"];
    for (const auto& [word, id] : words.items()) {
      if (id != 60) continue;
      words.erase(word);
      break;
    }
    words["[MASK]"] = 60;
    tokenizer["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  });
  const auto tokenizer = text::Tokenizer::load(from, text::Side::source);
  ASSERT_EQ(tokenizer->id_of("[MASK]"), 60);
  EXPECT_EQ(frames_of(*models::load(from), *tokenizer, nullptr).mask_id, 4);
}

// As of bart-large-cnn and its <mask>. Random tokens that stand for masked ones are those of the model.
TEST_F(StartSettings, SpecialTokensMayLackTheirRows) {
  std::vector<std::pair<int, std::string>> special = {
      {0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {4, "<mask>"}};
  for (int id = 61; id < 100; ++id) special.emplace_back(id, "<" + std::to_string(id) + ">");
  for (const char* const name : {"bart", "roberta-masked"}) {
    SCOPED_TRACE(name);
    const fs::path from = folder_ / name, to = folder_ / (name + std::string("-to"));
    copy_family(name, from);
    write_word_tokenizer(from, special, template_of(true, 2));
    ASSERT_EQ(text::Tokenizer::load(from, text::Side::source)->vocabulary(), 100);
    ASSERT_EQ(models::read_config(from).source_vocabulary, 61);
    const Recipe recipe = without_steps(name == std::string("bart") ? recipe_from(from) : masked_from(from));
    ASSERT_EQ(run(recipe, to), Outcome::finished);
    EXPECT_NEAR(evaluate(*models::load(to), to, recipe.valid_source, recipe.valid_target, {.seed = 0}).loss,
                last_line(to, "end")["loss"].get<double>(), 1e-6);
    change_json(from / "tokenizer.json", [](Json& tokenizer) { tokenizer["added_tokens"].back()["special"] = false; });
    EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "refused"); }), "a tokenizer of 61 tokens");
  }
}

TEST_F(StartSettings, TheMaskNeedsARow) {
  const fs::path from = folder_ / "from";
  copy_family("roberta-masked", from);
  write_word_tokenizer(from, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {61, "<mask>"}},
                       template_of(true, 2));
  ASSERT_EQ(models::read_config(from).source_vocabulary, 61);
  const Recipe recipe = masked_from(from);
  const std::string expected = ": a tokenizer with [MASK] or <mask>, and a row of the model for it; found none";
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "to"); }), expected);
  EXPECT_CONTAINS(message_of([&] { (void)evaluate(*models::load(from), from, recipe.valid_source, "", {}); }),
                  expected);
}

// BLEU of a validation is that of a search with the settings of the folder.
TEST_F(StartSettings, ValidationSearchesAsTheFolderSays) {
  write_marian(folder_ / "from");
  Recipe recipe = recipe_from(folder_ / "from");
  recipe.schedule = {.kind = ScheduleKind::constant, .peak = 1e-2, .warmup = 0};
  recipe.max_updates = 120;
  recipe.validate_every = 60;
  ASSERT_EQ(run(recipe, folder_ / "more"), Outcome::finished);
  recipe = without_steps(recipe_from(folder_ / "more"));
  recipe.valid_beam = 2;
  change_json(folder_ / "more/generation_config.json", [](Json& settings) {
    settings["min_length"] = 12;
    settings["no_repeat_ngram_size"] = 2;
    settings["length_penalty"] = 0.5;
  });
  ASSERT_EQ(run(recipe, folder_ / "still"), Outcome::finished);

  const auto read = models::load(folder_ / "more");
  const auto* const model = dynamic_cast<const models::Transformer*>(read.get());
  ASSERT_NE(model, nullptr);
  const auto tokenizer = text::Tokenizer::load(folder_ / "more", text::Side::source);
  const auto sources = text::read_lines(copy_.valid_source), references = text::read_lines(copy_.valid_target);
  std::vector<text::Ids> ids;
  std::vector<std::string> seen, targets;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (std::ranges::count(seen, sources[i]) > 0) continue;
    seen.push_back(sources[i]);
    targets.push_back(references[i]);
    ids.push_back(tokenizer->encode(sources[i]));
    ids.back().push_back(0);
  }
  const auto bleu_with = [&](const generate::BeamOptions& search) {
    std::vector<std::string> system;
    for (const auto& found : generate::translate(*model, ids, {.search = search}))
      system.push_back(tokenizer->decode(found.front().ids));
    return bleu(system, std::vector<std::vector<std::string>>{targets}, {}).score;
  };
  generate::BeamOptions search{.beam = 2,
                               .length_penalty = 0.5,
                               .max_length = model->config().max_length - 1,
                               .min_length = 11,
                               .length_factor = 0.0,
                               .stop_when = generate::stop_when_of(folder_ / "more"),
                               .no_repeat_ngram = 2};
  search.suppressed = generate::search_settings(folder_ / "more").suppressed;
  search.forced_free = true;
  const double expected = bleu_with(search);
  EXPECT_GT(expected, 1);
  EXPECT_NEAR(last_line(folder_ / "still", "end")["bleu"].get<double>(), expected, 1e-6);
  search.min_length = 0;
  EXPECT_GT(std::abs(bleu_with(search) - expected), 0.5);
}

// A Marian of several target languages.
TEST_F(StartSettings, AnArrowNamesTheLanguageToWrite) {
  const fs::path from = folder_ / "from";
  copy_family("marian", from);
  write_word_tokenizer(from, {{0, "</s>"}, {1, "<unk>"}, {58, ">>deu<<"}, {59, ">>fra<<"}, {60, "<pad>"}},
                       template_of(false, 0));
  const auto tokenizer = text::Tokenizer::load(from, text::Side::source);
  for (const char* const name : {"deu", ">>deu<<"}) {
    const Frames frames = frames_of(*models::load(from), *tokenizer, tokenizer.get(), {.source = "", .target = name});
    EXPECT_EQ(frames.source.before, (text::Ids{58}));
    EXPECT_EQ(frames.source.after, (text::Ids{0}));
    EXPECT_TRUE(frames.prefix.empty());
  }
  // As where the token stands in each text.
  write_text(folder_ / "plain", "a b c\nd e\n");
  write_text(folder_ / "named", ">>deu<< a b c\n>>deu<< d e\n");
  write_text(folder_ / "target", "c b\nf g h\n");
  const auto loss = [&](const char* source, const std::string& language) {
    return evaluate(*models::load(from), from, folder_ / source, folder_ / "target", {.target_language = language})
        .loss;
  };
  EXPECT_NEAR(loss("plain", "deu"), loss("named", ""), 1e-6);
  EXPECT_GT(std::abs(loss("plain", "deu") - loss("plain", "fra")), 1e-4);
  Recipe recipe = without_steps(recipe_from(from));
  recipe.target_language = "deu";
  ASSERT_EQ(run(recipe, folder_ / "to"), Outcome::finished);
  const double expected =
      evaluate(*models::load(from), from, copy_.valid_source, copy_.valid_target, {.target_language = "deu"}).loss;
  EXPECT_NEAR(last_line(folder_ / "to", "end")["loss"].get<double>(), expected, 1e-6);
  recipe.target_language = "rus";
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "new"); }),
                  "a target_language that the model knows (deu fra); found \"rus\"");
  recipe.source_language = "eng";
  recipe.target_language = "deu";
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "new"); }),
                  "the model names only the languages that it writes; found eng");
}

// Where settings force outputs to begin with a language, a training into another one changes them.
TEST_F(StartSettings, TheForcedLanguageIsThatOfTheTraining) {
  const fs::path from = folder_ / "from";
  copy_family("m2m100", from);
  write_word_tokenizer(from, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}, {57, "__en__"}, {58, "__fr__"}},
                       template_of(true, 2));
  Recipe recipe = without_steps(recipe_from(from));
  recipe.source_language = "en";
  recipe.target_language = "fr";
  const auto forced_in = [&](const char* file, const Json& before) {
    change_json(from / file, [&](Json& json) { json["forced_bos_token_id"] = before; });
    fs::remove_all(folder_ / "to");
    EXPECT_EQ(run(recipe, folder_ / "to"), Outcome::finished);
    return Json::parse(read_text(folder_ / "to" / file)).value("forced_bos_token_id", Json());
  };
  EXPECT_EQ(forced_in("config.json", 57), 58);
  EXPECT_EQ(forced_in("config.json", 0), 0);  // no language
  EXPECT_EQ(forced_in("config.json", nullptr), nullptr);
  EXPECT_EQ(forced_in("generation_config.json", 57), 58);
  EXPECT_EQ(forced_in("generation_config.json", nullptr), nullptr);
}

// A cross-encoder's texts are lower-cased, behind its usual prompt.
TEST_F(StartSettings, ACrossEncoderReadsAsItsFolderSays) {
  const fs::path plain = folder_ / "plain", from = folder_ / "from", to = folder_ / "to";
  for (const fs::path& folder : {plain, from}) {
    copy_family("bert-cross-encoder", folder);
    write_word_tokenizer(folder, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}}, pair_template());
  }
  write_text(
      from / "modules.json",
      R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}])");
  write_text(from / "config_sentence_transformers.json",
             R"({"model_type": "CrossEncoder", "prompts": {"query": "A b "}, "default_prompt_name": "query"})");
  write_text(from / "sentence_bert_config.json", R"({"do_lower_case": true, "max_seq_length": 12})");
  write_text(folder_ / "typed.tsv", "C d\t0.25\nE F G\t0.5\nh\t1\n");
  write_text(folder_ / "read.tsv", "a b c d\t0.25\na b e f g\t0.5\na b h\t1\n");
  const auto loss = [&](const fs::path& folder, const char* file) {
    return evaluate(*models::load(folder), folder, folder_ / file, {}).loss;
  };
  EXPECT_NEAR(loss(from, "typed.tsv"), loss(plain, "read.tsv"), 1e-6);
  EXPECT_GT(std::abs(loss(plain, "typed.tsv") - loss(plain, "read.tsv")), 1e-4);

  Recipe recipe;
  recipe.task = "sequence_regression";
  recipe.label_smoothing = 0;
  recipe.train_source = recipe.valid_source = (folder_ / "typed.tsv").string();
  recipe.from = from.string();
  ASSERT_EQ(run(without_steps(recipe), to), Outcome::finished);
  EXPECT_NEAR(last_line(to, "end")["loss"].get<double>(), loss(to, "typed.tsv"), 1e-6);
  // The same updates as on what is read.
  recipe.max_updates = 5;
  recipe.validate_every = 5;
  ASSERT_EQ(run(recipe, folder_ / "on-typed"), Outcome::finished);
  recipe.train_source = recipe.valid_source = (folder_ / "read.tsv").string();
  recipe.from = plain.string();
  ASSERT_EQ(run(recipe, folder_ / "on-read"), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder_ / "on-typed/model.safetensors", folder_ / "on-read/model.safetensors"));
}

TEST_F(StartSettings, ANewHeadIsMentioned) {
  const fs::path from = folder_ / "from";
  copy_family("bert-classify", from);
  write_word_tokenizer(from, {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}}, pair_template());
  const std::vector<std::string> labels = models::load(from)->config().labels;
  ASSERT_EQ(labels.size(), 3u);
  Recipe recipe;
  recipe.label_smoothing = 0;
  recipe.train_source = (folder_ / "texts.tsv").string();
  recipe.from = from.string();
  const auto said = [&](const std::string& task, const std::string& texts) {
    recipe.task = task;
    write_text(recipe.train_source, texts);
    fs::remove_all(folder_ / "to");
    std::string all;
    const Callbacks callbacks{.message = [&](std::string_view text) { all += std::string(text) + "\n"; }};
    EXPECT_EQ(train(without_steps(recipe), folder_ / "to", false, callbacks), Outcome::finished);
    return all;
  };
  const std::string there = " (the model had " + labels[0] + ", " + labels[1] + ", " + labels[2] + ")\n";
  EXPECT_CONTAINS(said("sequence_classification", "a\tlabel\nb\t0\nc\t1\n"),
                  "a new head for 3 classes: 0, 1, label" + there);
  EXPECT_CONTAINS(said("sequence_regression", "a\t0.5\nb\t0\nc\t1\n"), "a new head for one score" + there);
  EXPECT_EQ(said("sequence_classification", "a\t" + labels[0] + "\nb\t" + labels[1] + "\n").find("a new head"),
            std::string::npos);
}

TEST_F(StartSettings, ModulesAreNotWrittenOver) {
  const Recipe mean = [&] {
    copy_family("bert-model", folder_ / "bert");
    write_word_tokenizer(folder_ / "bert", {{0, "<s>"}, {1, "<pad>"}, {2, "</s>"}, {3, "<unk>"}}, pair_template());
    return recipe_of_pairs(folder_.path(), paired_letters(40, 1), folder_ / "bert");
  }();
  fs::create_directories(folder_ / "there/1_Pooling");
  write_text(folder_ / "there/1_Pooling/config.json", "{}");
  EXPECT_CONTAINS(message_of([&] { (void)run(mean, folder_ / "there"); }),
                  ": a folder without files of a model; found 1_Pooling/config.json");
  EXPECT_EQ(read_text(folder_ / "there/1_Pooling/config.json"), "{}");
}

// Older folders of sentence-transformers have their encoder in a folder below.
TEST_F(StartSettings, AnEncoderBelowItsModulesIsNamed) {
  const fs::path from = folder_ / "deep";
  fs::create_directories(from);
  write_text(from / "modules.json",
             R"([{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
                 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
  const Recipe recipe = recipe_of_pairs(folder_.path(), paired_letters(40, 1), from);
  EXPECT_CONTAINS(message_of([&] { (void)run(recipe, folder_ / "to"); }),
                  "deep: the files of the encoder in the folder itself; found them in 0_Transformer");
}

}  // namespace
}  // namespace heed::train
