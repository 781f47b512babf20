// Folders as Hugging Face's tools write them: the small models of tests/data/families, with a WordPiece vocabulary.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/io.h"
#include "heed/models.h"
#include "pipelines/sequences.h"

namespace heed::test {

inline constexpr const char* kWords[] = {"[PAD]",   "[UNK]", "[CLS]",  "[SEP]", "[MASK]", "paris", "is",  "the",
                                         "capital", "of",    "france", "a",     "query",  ":",     "##s", "city"};

// A copy of one of the folders, with a vocab.txt of kWords: fewer tokens than the model has rows.
inline std::filesystem::path with_words(const Scratch& scratch, const char* name) {
  const std::filesystem::path folder = scratch / name;
  std::filesystem::copy(test_data("families") / name, folder, std::filesystem::copy_options::recursive);
  std::string vocabulary;
  for (const char* const word : kWords) vocabulary += std::string(word) + "\n";
  scratch.file(std::string(name) + "/vocab.txt", vocabulary);
  // Marian's models end a text with the id 0.
  const std::string special = R"({"eos_token": "[PAD]"})";
  if (std::string_view(name).starts_with("marian"))
    scratch.file(std::string(name) + "/special_tokens_map.json", special);
  return folder;
}

// What transformers was given, and what it computed.
struct Golden {
  explicit Golden(const char* name)
      : tensors(io::read_safetensors(test_data("families") / name / "golden.safetensors").tensors) {
    const Tensor& ids = tensors.at("input_ids");
    for (int64_t b = 0; b < ids.size(0); ++b) {
      pipelines::Sequence sequence;
      for (int64_t l = 0; l < ids.size(1); ++l) {
        if (tensors.at("attention_mask").at({b, l}) == 0) break;
        sequence.ids.push_back(static_cast<int32_t>(ids.at({b, l})));
        sequence.types.push_back(static_cast<int32_t>(tensors.at("token_type_ids").at({b, l})));
      }
      sequences.push_back(sequence);
    }
  }
  io::Tensors tensors;
  std::vector<pipelines::Sequence> sequences;
};

}  // namespace heed::test
