// What transformers' MarianTokenizer reads beside two SentencePiece models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace heed::pipelines {

struct MarianFiles {
  std::vector<std::string> source, target;  // tokens in the order of their ids; no target: one list for both sides
  std::string end, unknown, padding;
  int64_t longest = 0;  // tokens of a text
};
// Writes vocab.json, target_vocab.json where there are two lists, and tokenizer_config.json. Throws Error for a token
// that is in a list twice.
void write_marian_files(const MarianFiles& files, const std::filesystem::path& folder);

}  // namespace heed::pipelines
