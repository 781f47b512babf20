// Loaded pipelines written back as folders, and the options of embed() that programs need.
#include "pipelines/save.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/message.h"
#include "formats/json.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "pipelines/hugging_face.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using pipelines::Layout;
using test::Scratch;
using test::with_words;
using testing::message_of;

const std::vector<std::string> kSomeTexts = {"Paris is the capital of France", "a city", "", "query : the city"};

bool same_vectors(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data<float>(), b.data<float>(), static_cast<size_t>(a.nbytes())) == 0;
}

// The folder with a token for each of the model's 61 rows.
fs::path with_all_words(const Scratch& scratch, const char* name) {
  const fs::path folder = with_words(scratch, name);
  std::string vocabulary = io::read_file(folder / "vocab.txt");
  for (size_t i = std::size(test::kWords); i < 61; ++i) vocabulary += "word" + std::to_string(i) + "\n";
  io::write_file_atomically(folder / "vocab.txt", vocabulary);
  return folder;
}

std::set<std::string> files_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(folder).string());
  return names;
}

TEST(SavePipeline, AnEncoderKeepsItsModulesAndItsBits) {
  for (const char* const name : {"st-mean", "st-cls-dense"}) {
    const Scratch scratch;
    const fs::path from = with_all_words(scratch, name);
    const Encoder encoder = Encoder::load(from);
    for (const Layout layout : {Layout::same, Layout::huggingface}) {
      const fs::path to = scratch / (layout == Layout::same ? "same" : "huggingface");
      save(encoder, from, to, layout);
      EXPECT_TRUE(same_vectors(Encoder::load(to).embed(kSomeTexts), encoder.embed(kSomeTexts))) << name;
      const io::Tensors before = io::read_weights(from).tensors, after = io::read_weights(to).tensors;
      ASSERT_EQ(before.size(), after.size());
      for (const auto& [path, tensor] : before) {
        ASSERT_EQ(after.at(path).nbytes(), tensor.nbytes());
        EXPECT_EQ(std::memcmp(after.at(path).raw(), tensor.raw(), static_cast<size_t>(tensor.nbytes())), 0) << path;
      }
    }
    save(encoder, from, scratch / "own", Layout::heed);
    const Encoder own = Encoder::load(scratch / "own");
    EXPECT_EQ(own.model().origin(), nullptr);
    EXPECT_TRUE(same_vectors(own.embed(kSomeTexts), encoder.embed(kSomeTexts))) << name;
  }
}

// The name of an Instructor model alone says that its pooling leaves prompts out; its copy has another name.
TEST(SavePipeline, TheCopyOfAnInstructorLeavesPromptsOut) {
  const Scratch scratch;
  const fs::path from = scratch / "models--hkunlp--instructor-large/snapshots/0123";
  fs::create_directories(from.parent_path());
  fs::rename(with_all_words(scratch, "st-mean"), from);
  const EncoderOptions prompted{.prompt_text = "word20 word21 "};
  const Tensor plain = Encoder::load(with_all_words(scratch, "st-mean")).embed(kSomeTexts, prompted);
  const Encoder encoder = Encoder::load(from);
  const Tensor vectors = encoder.embed(kSomeTexts, prompted);
  EXPECT_FALSE(same_vectors(vectors, plain));
  save(encoder, from, scratch / "copy", Layout::same);
  EXPECT_TRUE(same_vectors(Encoder::load(scratch / "copy").embed(kSomeTexts, prompted), vectors));
  const std::string settings = io::read_file(scratch / "copy/1_Pooling/config.json");
  EXPECT_CONTAINS(settings, "\"include_prompt\": false");
}

TEST(SavePipeline, AT5OfSentenceTransformersLosesItsDecoder) {
  const Scratch scratch;
  const fs::path from = with_all_words(scratch, "t5"), modules = test::test_data("families") / "st-mean";
  for (const char* const name : {"modules.json", "1_Pooling", "2_Normalize"})
    fs::copy(modules / name, from / name, fs::copy_options::recursive);
  io::ParsedJson config = io::parse_json(io::read_file(from / "config.json"));
  config.value["eos_token_id"] = 3;  // the tokenizer's [SEP]
  io::write_file_atomically(from / "config.json", config.value.dump());
  const Encoder encoder = Encoder::load(from);
  save(encoder, from, scratch / "same", Layout::same);
  const io::Tensors tensors = io::read_weights(scratch / "same").tensors;
  EXPECT_TRUE(tensors.contains("shared.weight"));
  for (const auto& [name, tensor] : tensors) EXPECT_FALSE(name.starts_with("decoder.")) << name;
  EXPECT_TRUE(same_vectors(Encoder::load(scratch / "same").embed(kSomeTexts), encoder.embed(kSomeTexts)));
  EXPECT_TRUE(fs::exists(scratch / "same/modules.json"));
  // The same with the T5 in a folder below.
  const fs::path apart = scratch / "apart";
  fs::create_directory(apart);
  for (const char* const name : {"modules.json", "1_Pooling", "2_Normalize"}) fs::rename(from / name, apart / name);
  fs::rename(from, apart / "0_Transformer");
  io::ParsedJson list = io::parse_json(io::read_file(apart / "modules.json"));
  list.value[0]["path"] = "0_Transformer";
  io::write_file_atomically(apart / "modules.json", list.value.dump());
  EXPECT_TRUE(same_vectors(Encoder::load(apart).embed(kSomeTexts), encoder.embed(kSomeTexts)));
  // Modules of something else beside it say nothing.
  list.value[0]["path"] = "other";
  io::write_file_atomically(apart / "modules.json", list.value.dump());
  EXPECT_EQ(models::read_config(apart / "0_Transformer").architecture, models::Architecture::encoder_decoder);
}

// What lies in a folder that is written over must not change what the new files mean.
TEST(SavePipeline, LeavesNothingOfAnotherModelBehind) {
  const Scratch scratch;
  const fs::path first = with_words(scratch, "st-cls-dense"), second = with_words(scratch, "bert-model");
  save(Encoder::load(first), first, scratch / "to", Layout::same);
  io::write_file_atomically(scratch / "to/tokenizer.json", "{}");  // of a third model
  const Encoder encoder = Encoder::load(second);
  save(encoder, second, scratch / "to", Layout::same);
  EXPECT_FALSE(fs::exists(scratch / "to/modules.json"));
  EXPECT_TRUE(same_vectors(Encoder::load(scratch / "to").embed(kSomeTexts), encoder.embed(kSomeTexts)));
  // Older shards are another model; a file that their index does not name is not.
  const fs::path shards = with_words(scratch, "bert-sharded"), kept = shards / "model-00009-of-00009.safetensors";
  io::write_file_atomically(kept, "another");
  ASSERT_TRUE(fs::exists(shards / "model.safetensors.index.json"));
  for (const fs::path& from : {second, shards}) {
    const fs::path to = scratch / ("shards of " + from.filename().string());
    fs::copy(shards, to);
    const Encoder written = Encoder::load(from == shards ? to : from);
    save(written, from == shards ? to : from, to, Layout::same);
    EXPECT_FALSE(fs::exists(to / "model.safetensors.index.json"));
    EXPECT_FALSE(fs::exists(to / "model-00001-of-00003.safetensors"));
    EXPECT_TRUE(fs::exists(to / kept.filename()));
    EXPECT_TRUE(same_vectors(Encoder::load(to).embed(kSomeTexts), written.embed(kSomeTexts)));
  }
  // Onto itself: nothing is lost.
  save(Encoder::load(first), first, first, Layout::same);
  EXPECT_TRUE(fs::exists(first / "modules.json"));
}

// heed's own layout does not say which token is the mask.
TEST(SavePipeline, OwnLayoutRefusesTheMasksOfOthers) {
  const Scratch scratch;
  const fs::path masked = with_all_words(scratch, "bert-masked");
  const Encoder filler = Encoder::load(masked);
  EXPECT_CONTAINS(message_of([&] { save(filler, masked, scratch / "own", Layout::heed); }), "masks of others");
  EXPECT_FALSE(fs::exists(scratch / "own"));
  save(filler, masked, scratch / "same", Layout::same);
}

TEST(SavePipeline, OwnLayoutKeepsHowClassesAreScored) {
  const Scratch scratch;
  const fs::path classes = with_all_words(scratch, "bert-classify");
  io::Json config = io::parse_json(io::read_file(classes / "config.json")).value;
  std::set<std::vector<float>> seen;
  for (const char* const problem : {"single_label_classification", "multi_label_classification", "regression"}) {
    SCOPED_TRACE(problem);
    config["problem_type"] = problem;
    io::write_file_atomically(classes / "config.json", io::json_text(config));
    const Encoder encoder = Encoder::load(classes);
    save(encoder, classes, scratch / problem, Layout::heed);
    const Encoder again = Encoder::load(scratch / problem);
    EXPECT_EQ(again.model().origin(), nullptr);
    const std::vector<std::string> texts = {"the city"};
    const std::vector<float> scores = again.classify(texts).front().scores;
    EXPECT_EQ(scores, encoder.classify(texts).front().scores);
    EXPECT_TRUE(seen.insert(scores).second);
    // And back: a BERT that says it as transformers does.
    save(again, scratch / problem, scratch / "bert", Layout::huggingface);
    EXPECT_EQ(io::parse_json(io::read_file(scratch / "bert/config.json")).value.at("problem_type"), problem);
  }
}

TEST(SavePipeline, OwnLayoutKeepsWhatAScoreIs) {
  const Scratch scratch;
  const fs::path from = with_all_words(scratch, "bert-cross-encoder");
  const std::vector<std::string> texts = {"the city", "a"};
  const auto expect_same_score = [&](const std::string& to) {
    const Encoder encoder = Encoder::load(from);
    save(encoder, from, scratch / to, Layout::heed);
    const float expected = encoder.classify(texts).front().score;
    EXPECT_EQ(Encoder::load(scratch / to).classify(texts).front().score, expected);
    return expected;
  };
  const float probability = expect_same_score("probability");
  std::string config = io::read_file(from / "config.json");
  config.insert(config.find('{') + 1, "\"problem_type\": \"regression\",");
  io::write_file_atomically(from / "config.json", config);
  EXPECT_NE(expect_same_score("plain"), probability);
}

// A model of others keeps its tokenizer, which says what stands around a pair, and which tokens are special.
TEST(SavePipeline, OwnLayoutReadsPairs) {
  const Scratch scratch;
  const fs::path from = with_all_words(scratch, "bert-cross-encoder");
  const Encoder encoder = Encoder::load(from);
  save(encoder, from, scratch / "own", Layout::heed);
  const Encoder own = Encoder::load(scratch / "own");
  EXPECT_EQ(own.model().origin(), nullptr);
  const std::vector<TextPair> pairs = {{.text = "the city", .pair = "paris is"},
                                       {.text = "a [SEP] city", .pair = "of"}};
  for (const bool parse_special : {false, true}) {
    const auto expected = encoder.classify(pairs, {.parse_special = parse_special}),
               found = own.classify(pairs, {.parse_special = parse_special});
    for (size_t i = 0; i < pairs.size(); ++i) EXPECT_EQ(found[i].score, expected[i].score) << i;
  }
}

// The licence that a card states is that of the model beside it.
TEST(SavePipeline, AModelCardGoesWithItsModel) {
  const Scratch scratch;
  const fs::path first = with_words(scratch, "st-mean"), second = with_words(scratch, "bert-model");
  io::write_file_atomically(first / "README.md", "---\nlicense: mit\n---\n");
  save(Encoder::load(first), first, scratch / "to", Layout::same);
  io::write_file_atomically(scratch / "to/NOTES.md", "own");
  EXPECT_TRUE(fs::exists(scratch / "to/README.md"));
  save(Encoder::load(second), second, scratch / "to", Layout::same);
  EXPECT_FALSE(fs::exists(scratch / "to/README.md")) << "the first model's";
  EXPECT_TRUE(fs::exists(scratch / "to/NOTES.md"));
  for (const char* const own : {"What I want with this model.\n", "-----------\nMy notes\n-----------\n",
                                "---\ntitle: my thesis\n---\nlicense: none\n"}) {
    io::write_file_atomically(scratch / "to/README.md", own);
    io::write_file_atomically(scratch / "to/LICENSE", own);
    for (const fs::path& from : {first, second}) {
      save(Encoder::load(from), from, scratch / "to", Layout::same);
      EXPECT_EQ(io::read_file(scratch / "to/README.md"), own) << "no card";
      EXPECT_EQ(io::read_file(scratch / "to/LICENSE"), own);
    }
  }
  io::write_file_atomically(scratch / "to/README.md", "---\nlicense: gpl\n---\n");
  save(Encoder::load(first), first, scratch / "to", Layout::same);
  EXPECT_EQ(io::read_file(scratch / "to/README.md"), "---\nlicense: mit\n---\n");
  // demo/en-zh has a card, in every layout.
  const fs::path shipped = fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh";
  save(Translator::load(shipped), shipped, scratch / "marian", Layout::huggingface);
  EXPECT_TRUE(fs::exists(scratch / "marian/MODEL_CARD.md"));
}

TEST(SavePipeline, OwnLayoutKeepsTheLimit) {
  const Scratch scratch;
  const fs::path from = with_all_words(scratch, "st-mean");
  fs::remove(from / "sentence_bert_config.json");
  io::write_file_atomically(from / "tokenizer_config.json", R"({"model_max_length": 9})");
  const Encoder encoder = Encoder::load(from);
  EXPECT_EQ(encoder.longest(), 9);
  save(encoder, from, scratch / "own", Layout::heed);
  EXPECT_EQ(Encoder::load(scratch / "own").longest(), 9);
  // sentence-transformers 6 writes its settings without the limit.
  io::write_file_atomically(from / "sentence_roberta_config.json", R"({"do_lower_case": true})");
  save(Encoder::load(from), from, scratch / "with settings", Layout::heed);
  EXPECT_EQ(Encoder::load(scratch / "with settings").longest(), 9);
  EXPECT_FALSE(fs::exists(scratch / "with settings/sentence_bert_config.json"));
  const std::string kept = io::read_file(scratch / "with settings/sentence_roberta_config.json");
  EXPECT_EQ(io::parse_json(kept).value, io::Json({{"do_lower_case", true}, {"max_seq_length", 9}}));
  fs::remove(from / "sentence_roberta_config.json");
  io::write_file_atomically(from / "tokenizer_config.json", R"({"model_max_length": 1})");
  EXPECT_CONTAINS(message_of([&] { (void)Encoder::load(from); }), "3 tokens or more");
}

TEST(SavePipeline, AnEncoderMayBeInAFolderOfItsOwn) {
  const Scratch scratch;
  const fs::path from = with_words(scratch, "st-mean"), inner = from / "0_Transformer";
  fs::create_directories(inner);
  for (const char* const file : {"config.json", "model.safetensors", "vocab.txt"})
    fs::rename(from / file, inner / file);
  std::string modules = io::read_file(from / "modules.json");
  const std::string path = "\"path\": \"\"";
  modules.replace(modules.find(path), path.size(), "\"path\": \"0_Transformer\"");
  io::write_file_atomically(from / "modules.json", modules);
  const Encoder encoder = Encoder::load(from);
  save(encoder, from, scratch / "to", Layout::same);
  EXPECT_TRUE(files_of(scratch / "to").contains("0_Transformer/vocab.txt"));
  EXPECT_TRUE(same_vectors(Encoder::load(scratch / "to").embed(kSomeTexts), encoder.embed(kSomeTexts)));
}

TEST(SavePipeline, WeightsInInt8KeepTheLayout) {
  const Scratch scratch;
  const fs::path from = with_words(scratch, "st-mean");  // fewer tokens than rows
  const Encoder encoder = Encoder::load(from, WeightFormat::int8);
  save(encoder, from, scratch / "to", Layout::same);
  const Encoder again = Encoder::load(scratch / "to");
  EXPECT_NE(again.model().origin(), nullptr);
  EXPECT_TRUE(same_vectors(again.embed(kSomeTexts), encoder.embed(kSomeTexts)));
  const fs::path masked = with_words(scratch, "bert-masked");
  const Encoder filler = Encoder::load(masked, WeightFormat::int8);
  save(filler, masked, scratch / "filler", Layout::same);
  const auto expected = filler.fill("paris is [MASK]"),
             filled = Encoder::load(scratch / "filler").fill("paris is [MASK]");
  ASSERT_EQ(filled.size(), 1u);
  EXPECT_EQ(filled.front().front().token, expected.front().front().token);
  EXPECT_EQ(filled.front().front().probability, expected.front().front().probability);
  const fs::path all = with_all_words(scratch, "st-cls-dense");
  const Encoder other = Encoder::load(all, WeightFormat::int8);
  save(other, all, scratch / "own", Layout::heed);
  const Encoder own = Encoder::load(scratch / "own");
  EXPECT_EQ(own.model().origin(), nullptr);
  EXPECT_TRUE(same_vectors(own.embed(kSomeTexts), other.embed(kSomeTexts)));
  EXPECT_CONTAINS(message_of([&] { save(encoder, from, scratch / "no", Layout::huggingface); }),
                  "found weights in int8");
}

TEST(SavePipeline, WhatHeedsOwnLayoutCannotHoldIsRefused) {
  const Scratch scratch;
  const fs::path from = with_words(scratch, "st-mean");
  const Encoder encoder = Encoder::load(from);
  EXPECT_CONTAINS(message_of([&] { save(encoder, from, scratch / "own", Layout::heed); }), "61 tokens");
  EXPECT_FALSE(fs::exists(scratch / "own"));
}

TEST(SavePipeline, ATranslatorInEveryLayoutTranslatesAlike) {
  const Scratch scratch;
  const fs::path shipped = fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh";
  const Translator translator = Translator::load(shipped);
  const std::vector<Translation> expected = translator.translate("Where is the station?");
  const auto check = [&](const Translator& from, const fs::path& folder, const char* name, Layout layout) {
    save(from, folder, scratch / name, layout);
    const Translator again = Translator::load(scratch / name);
    EXPECT_EQ(again.translate("Where is the station?").front().text, expected.front().text) << name;
    return again;
  };
  (void)check(translator, shipped, "own", Layout::same);
  EXPECT_EQ(io::read_file(scratch / "own/config.json"), io::read_file(shipped / "config.json"));
  const Translator marian = check(translator, shipped, "marian", Layout::huggingface);
  EXPECT_NE(marian.model().origin(), nullptr);
  const Translator back = check(marian, scratch / "marian", "back", Layout::heed);
  EXPECT_EQ(back.model().origin(), nullptr);
  (void)check(marian, scratch / "marian", "marian again", Layout::same);
  EXPECT_EQ(files_of(scratch / "marian again"), files_of(scratch / "marian"));
  // The settings of the search go along into either layout.
  io::Json settings = io::parse_json(io::read_file(scratch / "marian/generation_config.json")).value;
  settings["min_length"] = 20;
  io::write_file_atomically(scratch / "marian/generation_config.json", io::json_text(settings));
  const Translator strict = Translator::load(scratch / "marian");
  save(strict, scratch / "marian", scratch / "strict", Layout::heed);
  const char* const brief = "No.";
  EXPECT_EQ(Translator::load(scratch / "strict").translate(brief).front().text, strict.translate(brief).front().text);
  EXPECT_NE(strict.translate(brief).front().text, marian.translate(brief).front().text);
  // Folders of older versions have them in config.json.
  io::Json config = io::parse_json(io::read_file(scratch / "marian/config.json")).value;
  config.update(settings);
  io::write_file_atomically(scratch / "marian/config.json", io::json_text(config));
  fs::remove(scratch / "marian/generation_config.json");
  const Translator older = Translator::load(scratch / "marian");
  save(older, scratch / "marian", scratch / "older", Layout::heed);
  EXPECT_EQ(older.translate(brief).front().text, strict.translate(brief).front().text);
  EXPECT_EQ(Translator::load(scratch / "older").translate(brief).front().text, strict.translate(brief).front().text);
}

TEST(EmbedOptions, AreToldOfTheWorkAndMayEndIt) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "st-mean"));
  std::vector<int64_t> told;
  const int threads = num_threads();
  set_num_threads(1);  // several say what is done when they look
  const Tensor found =
      encoder.embed(kSomeTexts, {.batch_tokens = 8, .progress = [&](int64_t done) { told.push_back(done); }});
  EXPECT_EQ(told, (std::vector<int64_t>{0, 1, 2, 4}));  // while texts are read; 8, 6, and 4 with 2 tokens
  told.clear();
  set_num_threads(3);
  (void)encoder.embed(kSomeTexts, {.batch_tokens = 8, .progress = [&](int64_t done) { told.push_back(done); }});
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 4);
  set_num_threads(1);
  EXPECT_TRUE(same_vectors(found, encoder.embed(kSomeTexts)));
  const auto stop = [](int64_t done) { require(done < 2, "test", "to go on; found ", done, " texts done"); };
  EXPECT_CONTAINS(message_of([&] { (void)encoder.embed(kSomeTexts, {.batch_tokens = 8, .progress = stop}); }),
                  "found 2 texts done");
  const Encoder classes = Encoder::load(with_words(scratch, "bert-classify"));
  const std::vector<std::string> words = {"the city", "a", "of france"};
  EXPECT_CONTAINS(message_of([&] { (void)classes.classify(words, {.batch_tokens = 1, .progress = stop}); }),
                  "found 2 texts done");
  set_num_threads(threads);
}

TEST(EmbedOptions, APromptMayBeATextAndTheLimitASmallerOne) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "st-mean"));
  const std::vector<std::string> city = {"the city"}, asked = {"query : the city"};
  EXPECT_TRUE(same_vectors(encoder.embed(city, {.prompt_text = "query : "}), encoder.embed(asked)));
  EXPECT_TRUE(same_vectors(encoder.embed(city, {.prompt_text = ""}), encoder.embed(city)));
  const std::vector<std::string> begins = {"query :"};
  const TextOptions cut{.too_long = TooLong::cut};
  EXPECT_TRUE(same_vectors(encoder.embed(asked, {.longest = 4, .text = cut}), encoder.embed(begins)));
  EXPECT_EQ(encoder.encode("query : the city", {.longest = 4, .text = cut}).tokens,
            (std::vector<std::string>{"[CLS]", "query", ":", "[SEP]"}));
  EXPECT_CONTAINS(message_of([&] { (void)encoder.embed(asked, {.longest = 4}); }), "4");
  EXPECT_CONTAINS(message_of([&] { (void)encoder.embed(asked, {.longest = 2}); }), "a limit of 3 tokens or more");
  EXPECT_GE(encoder.longest(), 16);
}

}  // namespace
}  // namespace heed
