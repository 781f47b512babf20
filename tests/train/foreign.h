// Folders of models of others with tokenizers of letters, and what tests of trainings from them share.
#pragma once

#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/data.h"
#include "toy.h"

namespace heed::train {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The last line of that type in the log.
inline Json last_line(const fs::path& folder, const std::string& type) {
  Json last;
  std::istringstream text(read_text(folder / "log.jsonl"));
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line);
    if (json.at("type") == type) last = std::move(json);
  }
  return last;
}

// Updates so small that no weight changes.
inline Recipe without_steps(Recipe recipe) {
  recipe.schedule.peak = 1e-30;
  recipe.max_updates = 1;
  recipe.validate_every = 1;
  return recipe;
}

// Pairs of letters and the letter eight places behind each, with `more` at the end of each line.
inline std::string paired_letters(int64_t count, uint64_t seed, const std::string& more = "") {
  std::istringstream lines(letters(count, seed));
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    std::string other = line;
    for (char& letter : other) letter = letter == ' ' ? ' ' : static_cast<char>(letter + 8);
    result += line + "\t" + other + more + "\n";
  }
  return result;
}

// A training on these pairs of texts, which are written into `folder`.
inline Recipe recipe_of_pairs(const fs::path& folder, const std::string& pairs, const fs::path& from) {
  write_text(folder / "pairs.tsv", pairs);
  Recipe recipe;
  recipe.task = "sentence_embedding";
  recipe.pairs = (folder / "pairs.tsv").string();
  recipe.valid_fraction = 0.1;
  recipe.from = from.string();
  recipe.label_smoothing = 0;
  recipe.batch_sentences = 16;
  recipe.schedule = {.kind = ScheduleKind::constant, .peak = 5e-3, .warmup = 0};
  recipe.max_updates = 200;
  recipe.validate_every = 100;
  recipe.log_every = 10;
  return recipe;
}

// A few updates of a small encoder of heed's own.
inline Recipe recipe_of_own_encoder(const fs::path& folder) {
  Recipe masked = copy_recipe(folder);
  masked.task = "masked_language_model";
  masked.train_target = masked.valid_target = "";
  masked.model = models::preset("tiny", models::Architecture::encoder_only);
  masked.model.encoder_layers = 1;
  masked.model.width = 32;
  masked.model.feed_forward = 64;
  masked.model.heads = 2;
  masked.model.max_length = 24;
  masked.max_updates = 7;
  return masked;
}

inline Outcome run_until(const Recipe& recipe, const fs::path& folder, int64_t update) {
  std::atomic<bool> stop = false;
  const Callbacks callbacks{.progress = [&](const Progress& p) { stop = p.update >= update; }, .stop = &stop};
  return train(recipe, folder, false, callbacks);
}

// Ids 0 to 60: the special ones of `json` first, then letters and their pairs.
inline void write_word_tokenizer(const fs::path& folder, const std::vector<std::pair<int, std::string>>& special,
                                 const Json& post_processor) {
  Json vocabulary = Json::object(), added = Json::array();
  for (const auto& [id, token] : special) {
    vocabulary[token] = id;
    added.push_back({{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  int letter = 0;
  for (int id = 0; id < 61; ++id) {
    bool taken = false;
    for (const auto& [there, token] : special) taken = taken || there == id;
    if (taken) continue;
    std::string word(1, static_cast<char>('a' + letter % 26));
    if (letter >= 26) word += word;
    if (letter >= 52) word += static_cast<char>('a' + letter % 26);
    vocabulary[word] = id;
    ++letter;
  }
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                          {"post_processor", post_processor},
                          {"decoder", nullptr},
                          {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}}};
  write_text(folder / "tokenizer.json", tokenizer.dump());
}

// <s> before and </s> behind, where `begin` is there.
inline Json template_of(bool begin, int end_id) {
  Json single = Json::array(), tokens = Json::object();
  const auto add = [&](const char* token, int id) {
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  };
  if (begin) add("<s>", 0);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("</s>", end_id);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", single}, {"special_tokens", tokens}};
}

// The same of pairs: the second text has type 1, and </s> stands between.
inline Json pair_template() {
  const auto special = [](const char* token) { return Json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}}; };
  const auto sequence = [](const char* id, int type) { return Json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  const Json single = {special("<s>"), sequence("A", 0), special("</s>")};
  const Json pair = {special("<s>"), sequence("A", 0), special("</s>"), sequence("B", 1), special("</s>")};
  const auto token = [](const char* name, int id) { return Json{{"id", name}, {"ids", {id}}, {"tokens", {name}}}; };
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", {{"<s>", token("<s>", 0)}, {"</s>", token("</s>", 2)}}}};
}

inline void copy_family(const std::string& name, const fs::path& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(heed::test::test_data("families") / name)) {
    if (entry.is_regular_file() && entry.path().filename() != "golden.safetensors") {
      fs::copy_file(entry.path(), to / entry.path().filename());
    }
  }
}

inline void write_marian(const fs::path& folder) {
  copy_family("marian", folder);
  write_word_tokenizer(folder, {{0, "</s>"}, {1, "<unk>"}, {60, "<pad>"}}, template_of(false, 0));
}

inline void write_bert(const fs::path& folder) {
  copy_family("bert-masked", folder);
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 0; i < 56; ++i) {
    vocabulary += std::string(static_cast<size_t>(1 + i / 26), static_cast<char>('a' + i % 26)) + "\n";
  }
  write_text(folder / "vocab.txt", vocabulary);
}

}  // namespace heed::train
