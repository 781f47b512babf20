// What a folder says about texts before they are cut into tokens, and about scores: the small files beside config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>

#include "heed/models.h"

namespace heed::models {

// sentence_bert_config.json and config_sentence_transformers.json.
struct SentenceSettings {
  int64_t longest = 0;     // tokens, special ones included; 0: as many as the model reads
  bool lowercase = false;  // the text is lower-cased before it is cut
  std::map<std::string, std::string> prompts = {};
  std::string default_prompt = {};  // the name of one; empty: none
  int64_t size = 0;                 // the first numbers of a vector that are kept; 0: all
};
// Of a folder of sentence-transformers, whose encoder may be in a folder inside of it.
[[nodiscard]] SentenceSettings read_sentence_settings(const std::filesystem::path& folder,
                                                      const std::filesystem::path& encoder);
// The names under which the encoder's folder may have its file.
[[nodiscard]] std::initializer_list<const char*> sentence_settings_files();

// The most tokens of a text, special ones included: what a model of `positions` reads, or less where
// tokenizer_config.json says so ("model_max_length", once "max_len"). tokenizer.json's truncation does not count, as in
// transformers.
[[nodiscard]] int64_t longest_text(const std::filesystem::path& folder, int64_t positions, const char* function);
// The same of an encoder: its max_seq_length takes precedence, and models of heed's own training have no other limit.
[[nodiscard]] int64_t longest_text(const SentenceSettings& settings, const std::filesystem::path& encoder,
                                   const Config& config, bool by_others, const char* function);
// Writes max_seq_length into the settings of an encoder's folder, unless they have one.
void keep_longest(int64_t longest, const std::filesystem::path& folder, const char* function);

// What becomes of the logits of a text's classes, as the folder of a model with this configuration says: softmax, the
// sigmoid of each (of a single class too), or nothing.
[[nodiscard]] Scores read_scores(const std::filesystem::path& folder, const Config& config);

}  // namespace heed::models
