// Recipes: strict reading, options, round trips, and the ones that ship.
#include <nlohmann/json.hpp>
#include <set>

#include "heed/error.h"
#include "toy.h"
#include "train/recipe_fields.h"
#include "train/resume.h"

namespace heed::train {
namespace {

class RecipeFile : public ::testing::Test {
 protected:
  Recipe read(const std::string& text, const std::string& name = "r.toml") {
    write_text(folder_ / name, text);
    return read_recipe(folder_ / name);
  }
  std::string error(const std::string& text, const std::string& name = "r.toml") {
    return message_of([&] { static_cast<void>(read(text, name)); });
  }
  TemporaryFolder folder_;
};

TEST_F(RecipeFile, ReadsTomlAndJsonAlike) {
  const Recipe toml = read(R"(
task = "translation"
preset = "tiny"
label_smoothing = 0.2
max_updates = 77
shared_vocabulary = true
[model]
heads = 8
width = 96
dropout = 0
norm_placement = "pre"
[adam]
beta2 = 0.99
[schedule]
kind = "cosine"
peak = 1e-3
)");
  EXPECT_EQ(toml.model.width, 96);
  EXPECT_EQ(toml.model.heads, 8);
  EXPECT_EQ(toml.model.encoder_layers, 4);  // of the preset
  EXPECT_EQ(toml.model.norm_placement, models::NormPlacement::pre);
  EXPECT_EQ(toml.adam.beta2, 0.99f);
  EXPECT_EQ(toml.schedule.kind, ScheduleKind::cosine);
  EXPECT_EQ(toml.max_updates, 77);
  const Recipe json = read(to_json(toml), "r.json");
  EXPECT_EQ(to_json(json), to_json(toml));
}

TEST_F(RecipeFile, NamesFileLineAndKeyOfWhatIsWrong) {
  EXPECT_CONTAINS(error("seed = 1\n\nlabel_smoothin = 0.1\n"), "r.toml, line 3: a key of a recipe; found unknown key");
  EXPECT_CONTAINS(error("label_smoothin = 0.1\n"), "did you mean \"label_smoothing\"?");
  EXPECT_CONTAINS(error("max_updates = 1.5\n"), "r.toml, line 1: max_updates: a whole number, 0 or more; found 1.5");
  EXPECT_CONTAINS(error("max_updates = -3\n"), "found -3");
  EXPECT_CONTAINS(error("max_updates = \"many\"\n"), "found \"many\"");
  EXPECT_CONTAINS(error("bpe = 1\n"), "bpe: true or false; found 1");
  EXPECT_CONTAINS(error("task = 3\n"), "task: text in quotes; found 3");
  EXPECT_CONTAINS(
      error("task = \"sing\"\n"),
      "task: translation, language_model, masked_language_model, sequence_classification, sequence_regression or "
      "sentence_embedding");
  EXPECT_CONTAINS(error("preset = \"huge\"\n"), "huge");
  EXPECT_CONTAINS(error("[schedule]\nkind = \"steep\"\n"),
                  "line 2: schedule.kind: constant, inverse_sqrt, noam or cosine; found");
  EXPECT_CONTAINS(error("[schedule]\nsteep = 1\n"), "schedule.steep");
  EXPECT_CONTAINS(error("[sched]\npeak = 1\n"), "sched");
  EXPECT_CONTAINS(error("[model]\nwidht = 64\n"),
                  "line 2: a key of a recipe; found unknown key \"model.widht\"; did you");
  EXPECT_CONTAINS(error("[model]\nwidth = \"wide\"\n"), "model.width");
  EXPECT_CONTAINS(error("[model]\nactivation = \"sigmoid\"\n"),
                  "line 2: model.activation: none, relu, gelu, gelu_tanh or silu; found \"sigmoid\"");
  EXPECT_CONTAINS(error("[model]\ndropout = 2\n"), "line 2: model.dropout: a number, 0 or more and below 1; found 2");
  EXPECT_CONTAINS(error("[model]\nsource_vocabulary = 9\n"),
                  "model.source_vocabulary: no value, as the task and the tokenizers decide it; found 9");
  EXPECT_CONTAINS(error("[model]\nwidth = 100\nheads = 7\n"), "width");
  EXPECT_CONTAINS(error("seed = [1, 2]\n"), "a list or a date");
  EXPECT_CONTAINS(error("[schedule]\npeak = inf\n"), "line 2: schedule.peak: a finite number; found inf");
  EXPECT_CONTAINS(error("label_smoothing = nan\n"), "line 1: label_smoothing: a finite number; found nan");
  EXPECT_CONTAINS(error("seed = \n"), "line 1: TOML");
  EXPECT_CONTAINS(error("{", "r.json"), "JSON");
  EXPECT_CONTAINS(error("[1]", "r.json"), "object");
  EXPECT_CONTAINS(error("{\"a\":[[[[[[[[[[[[1]]]]]]]]]]]]}", "r.json"), "8 levels");
  EXPECT_CONTAINS(error("", "r.yaml"), ".toml or .json");
  EXPECT_CONTAINS(message_of([&] { static_cast<void>(read_recipe(folder_ / "none.toml")); }), "none.toml");
}

TEST_F(RecipeFile, RefusesValuesThatMakeNoSense) {
  EXPECT_CONTAINS(error("consistency = -1.0\n"), "line 1: consistency: a number, from 0 to 1000000; found -1");
  EXPECT_CONTAINS(error("label_smoothing = 1.0\n"), "label_smoothing: a number, 0 or more and below 1");
  EXPECT_CONTAINS(error("accumulate = 0\n"), "accumulate: a whole number, more than 0");
  EXPECT_CONTAINS(error("best_by = \"bleu\"\n"), "valid_beam");
  EXPECT_CONTAINS(error("tokenizer = \"words\"\n"), "tokenizer");
  EXPECT_CONTAINS(error("[model]\nshare_embeddings = true\n"), "shared_vocabulary");
  EXPECT_CONTAINS(error("task = \"language_model\"\nvalid_beam = 4\n"), "valid_beam");
  EXPECT_CONTAINS(error("consistency_until = 5\n"), "consistency_until: 0, or, with consistency");
  EXPECT_CONTAINS(error("consistency = 5.0\nconsistency_from = 5\nconsistency_until = 5\n"),
                  "more than consistency_from; found 5, with consistency 5 from 5");
  EXPECT_CONTAINS(error("task = \"language_model\"\ncontext = 5000\n"), "context");
  EXPECT_CONTAINS(error("pairs = \"p\"\nvalid_source = \"a\"\nvalid_target = \"b\"\nvalid_fraction = 0.1\n"),
                  "valid_fraction: 0 beside valid_source; found 0.1");
  EXPECT_CONTAINS(error("similarity_scale = 3.0\n"), "similarity_scale: left out, unless the task is");
  EXPECT_CONTAINS(error("task = \"sentence_embedding\"\nloss = \"squared_error\"\nsimilarity_scale = 3.0\n"),
                  "found 3 for sentence_embedding with squared_error");
  EXPECT_CONTAINS(error("task = \"language_model\"\nvalid_tokenize = \"zh\"\n"),
                  "valid_tokenize: left out, unless the task is translation; found zh");
  EXPECT_CONTAINS(error("train_source = \"a\"\ntrain_target = \"b\"\nvalid_fraction = 0.1\n"),
                  "valid_fraction: 0 where two files have the texts");
}

// A key of the file may need one of the command line, or of a program.
TEST_F(RecipeFile, IsCheckedBehindItsChanges) {
  write_text(folder_ / "r.toml", "source_language = \"en_XX\"\ntarget_language = \"zh_CN\"\nbest_by = \"bleu\"\n");
  const auto read = [&](const char* beam) {
    return read_recipe(folder_ / "r.toml", {}, [&](Recipe& recipe) {
      set_option(recipe, "from", "model");
      set_option(recipe, "valid_beam", beam);
    });
  };
  EXPECT_EQ(read("2").target_language, "zh_CN");
  EXPECT_EQ(read("2").from, "model");  // not a path from the recipe's folder
  EXPECT_CONTAINS(message_of([&] { (void)read("0"); }), "r.toml: [recipe] best_by: ");
}

TEST_F(RecipeFile, ResolvesPathsAgainstItsFolderOrTheRoot) {
  const std::string text = "train_source = \"../a.txt\"\ntrain_target = \"/b.txt\"\n";
  std::filesystem::create_directory(folder_ / "sub");
  write_text(folder_ / "sub/r.toml", text);
  EXPECT_EQ(read_recipe(folder_ / "sub/r.toml").train_source, (folder_ / "a.txt").string());
  EXPECT_EQ(read_recipe(folder_ / "sub/r.toml", "/data/set").train_source, "/data/a.txt");
  EXPECT_EQ(read_recipe(folder_ / "sub/r.toml").train_target, "/b.txt");
}

TEST(RecipeOptions, SetEveryKeyToItsDefault) {
  Recipe recipe;
  const std::string before = to_json(recipe);
  const auto fields = recipe_fields();
  EXPECT_GT(fields.size(), 60u);
  for (const RecipeField& field : fields) {
    EXPECT_FALSE(field.help.empty()) << field.key;
    set_option(recipe, field.key, field.default_text);
  }
  EXPECT_EQ(to_json(recipe), before);
}

// Every key that a recipe may set is in the table, and each word that the table allows is taken.
TEST(RecipeOptions, TheTableOfModelKeysIsThatOfTheModel) {
  std::set<std::string> in_table, in_model;
  for (const ModelKey& entry : model_keys()) in_table.insert(std::string(entry.key));
  const auto model = nlohmann::json::parse(models::to_json(models::preset("small")));
  for (const auto& [key, value] : model.items()) {
    if (!is_decided_model_key(key)) in_model.insert(key);
  }
  EXPECT_EQ(in_table, in_model);
  for (const RecipeField& field : recipe_fields()) {
    std::string words = field.allowed;
    if (field.type != "text" || words.empty()) continue;
    for (size_t at = 0; (at = words.find(" or ")) != std::string::npos;) words.replace(at, 4, ", ");
    std::istringstream list(words);
    for (std::string word; std::getline(list, word, ',');) {
      Recipe recipe;
      set_option(recipe, field.key, word.substr(word.find_first_not_of(' ')));
    }
    Recipe recipe;
    EXPECT_CONTAINS(message_of([&] { set_option(recipe, field.key, "xyzzy"); }), field.allowed) << field.key;
  }
}

TEST(RecipeOptions, ApplyInAnyOrder) {
  Recipe recipe;
  set_option(recipe, "model.heads", "6");  // does not divide the preset's width: the next option mends that
  set_option(recipe, "model.width", "384");
  set_option(recipe, "preset", "base");  // keeps them
  set_option(recipe, "schedule.peak", "0.25");
  validate(recipe);
  EXPECT_EQ(recipe.model.heads, 6);
  EXPECT_EQ(recipe.model.width, 384);
  EXPECT_EQ(recipe.model.encoder_layers, 6);
  EXPECT_EQ(recipe.schedule.peak, 0.25);
  set_option(recipe, "model.heads", "7");
  EXPECT_CONTAINS(message_of([&] { validate(recipe); }), "heads");
}

TEST(RecipeOptions, SayWhatIsWrong) {
  Recipe recipe;
  EXPECT_CONTAINS(message_of([&] { set_option(recipe, "pathience", "3"); }), "did you mean \"patience\"?");
  EXPECT_EQ(message_of([&] { set_option(recipe, "foo", "3"); }).find("did you mean"), std::string::npos);
  EXPECT_CONTAINS(message_of([&] { set_option(recipe, "patience", "soon"); }),
                  "patience: a whole number; found \"soon\"");
  EXPECT_CONTAINS(message_of([&] { set_option(recipe, "bpe", "yes"); }), "bpe: true or false");
  EXPECT_CONTAINS(message_of([&] { set_option(recipe, "model.dropout", "much"); }), "model.dropout");
  EXPECT_CONTAINS(message_of([&] { set_option(recipe, "preset", "huge"); }), "huge");
  EXPECT_EQ(recipe.preset, "small");
}

TEST(RecipeFiles, ThatShipCanBeRead) {
  const std::filesystem::path folder = std::filesystem::path(HEED_SOURCE_DIR) / "recipes";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".toml") continue;
    ++count;
    const Recipe recipe = read_recipe(entry.path());
    EXPECT_GT(recipe.max_updates, 0) << entry.path();
  }
  EXPECT_GE(count, 3);
  const Recipe tiny = read_recipe(folder / "multi30k-en-de-tiny.toml");
  EXPECT_EQ(tiny.model.width, 128);
  EXPECT_EQ(tiny.model.feed_forward, 256);
  EXPECT_EQ(tiny.model.dropout, 0.3f);
  EXPECT_EQ(tiny.schedule.peak, 0.005);
  EXPECT_EQ(tiny.average_last, 12);
  EXPECT_EQ(tiny.precision, "bf16");
  EXPECT_EQ(tiny.consistency, 3.0f);
  EXPECT_EQ(tiny.consistency_from, 8000);
}

// A checkpoint of an older heed holds no keys that came later: they had their defaults.
TEST(Resume, KeysThatTheCheckpointDoesNotHaveAreTheirDefaults) {
  Recipe recipe;
  const std::string config = "{\"width\": 8}";
  nlohmann::json saved = nlohmann::json::parse(to_json(recipe));
  saved.erase("consistency");
  saved["adam"].erase("weight_decay");
  EXPECT_NO_THROW(require_same_recipe(recipe, saved.dump(), config, config));
  recipe.consistency = 2;
  const std::string error = message_of([&] { require_same_recipe(recipe, saved.dump(), config, config); });
  EXPECT_CONTAINS(error, "consistency (0 before, 2 now)");
}

}  // namespace
}  // namespace heed::train
