// Recipes whose texts fill a token cache in many ways, and what is compared.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "toy.h"
#include "train/corpus.h"

namespace heed::train {

using Files = std::map<std::string, std::string>;

inline Files files_of(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_text(entry.path());
  }
  return files;
}

// Lines that differ in length and case, with empty and long ones and both line ends.
inline std::string prose(int64_t count, uint64_t seed) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const auto draw = philox(seed, 7, static_cast<uint64_t>(i));
    const uint32_t words = draw[0] % 37 == 0 ? 0 : draw[0] % 41 == 0 ? 60 : 1 + draw[1] % 9;
    for (uint32_t w = 0; w < words; ++w) {
      const auto letters = philox(seed, 8 + w, static_cast<uint64_t>(i));
      if (w > 0) text += ' ';
      for (uint32_t k = 0; k < 1 + letters[0] % 4; ++k) text += static_cast<char>('a' + letters[1 + k % 3] % 11);
      if (letters[2] % 9 == 0) text += "\xc3\xa4";
    }
    text += draw[2] % 5 == 0 ? "\r\n" : "\n";
  }
  return text;
}

struct CacheCase {
  std::string name, task, tokenizer;
  bool shared = false, pairs = false, bpe = false, own_valid = false, gzip = false;
  double valid_fraction = 0;
};

inline const CacheCase kCacheCases[] = {
    {.name = "translation, pieces", .task = "translation", .tokenizer = "pieces", .shared = true, .own_valid = true},
    {.name = "translation, characters", .task = "translation", .tokenizer = "characters"},
    {.name = "translation, unigram", .task = "translation", .tokenizer = "sentencepiece", .own_valid = true},
    {.name = "translation, shared bpe",
     .task = "translation",
     .tokenizer = "sentencepiece",
     .shared = true,
     .bpe = true},
    {.name = "pairs", .task = "translation", .tokenizer = "sentencepiece", .pairs = true, .valid_fraction = 0.1},
    {.name = "pairs, gzip",
     .task = "translation",
     .tokenizer = "pieces",
     .pairs = true,
     .gzip = true,
     .valid_fraction = 0.1},
    {.name = "text, characters", .task = "language_model", .tokenizer = "characters", .valid_fraction = 0.07},
    {.name = "text, pieces", .task = "language_model", .tokenizer = "pieces", .valid_fraction = 0.07},
    {.name = "text, unigram", .task = "language_model", .tokenizer = "sentencepiece", .own_valid = true},
    {.name = "masked, characters", .task = "masked_language_model", .tokenizer = "characters", .valid_fraction = 0.07},
    {.name = "masked, pieces", .task = "masked_language_model", .tokenizer = "pieces", .own_valid = true},
    {.name = "masked, unigram", .task = "masked_language_model", .tokenizer = "sentencepiece", .valid_fraction = 0.07},
};

// The recipe of a case; its texts are written into `folder`.
inline Recipe recipe_of(const CacheCase& c, const std::filesystem::path& folder, int64_t lines = 400) {
  Recipe recipe;
  recipe.task = c.task;
  recipe.tokenizer = c.tokenizer;
  recipe.shared_vocabulary = c.shared;
  recipe.bpe = c.bpe;
  recipe.vocabulary = 60;
  recipe.valid_fraction = c.valid_fraction;
  recipe.preset = "tiny";
  const auto architecture = c.task == "translation"      ? models::Architecture::encoder_decoder
                            : c.task == "language_model" ? models::Architecture::decoder_only
                                                         : models::Architecture::encoder_only;
  recipe.model = models::preset("tiny", architecture);
  recipe.model.encoder_layers = std::min<int64_t>(1, recipe.model.encoder_layers);
  recipe.model.decoder_layers = std::min<int64_t>(1, recipe.model.decoder_layers);
  recipe.model.width = 16;
  recipe.model.feed_forward = 32;
  recipe.model.heads = 2;
  recipe.model.max_length = 64;
  recipe.context = 16;
  recipe.max_tokens_per_sentence = 50;
  recipe.batch_tokens = 256;
  recipe.max_updates = 6;
  recipe.validate_every = 3;
  recipe.seed = 3;
  std::string text = "\xef\xbb\xbf" + prose(lines, 1);
  if (c.pairs) {
    std::istringstream source(prose(lines, 1)), target(prose(lines, 2));
    text.clear();
    for (std::string s, t; std::getline(source, s) && std::getline(target, t);) {
      if (s.ends_with('\r')) s.pop_back();
      text += s + "\t" + t + (text.size() % 3 == 0 ? "\tby someone\n" : "\n");
    }
  }
  const std::filesystem::path file = folder / "train.txt";
  write_text(file, text);
  if (c.gzip) {
    EXPECT_EQ(std::system(("gzip -nkf " + file.string()).c_str()), 0);
  }
  const std::string name = c.gzip ? file.string() + ".gz" : file.string();
  (c.pairs ? recipe.pairs : recipe.train_source) = name;
  if (c.task == "translation" && !c.pairs) {
    write_text(folder / "target.txt", prose(lines, 2));
    recipe.train_target = (folder / "target.txt").string();
  }
  if (c.own_valid) {
    write_text(folder / "valid.txt", prose(30, 5));
    recipe.valid_source = (folder / "valid.txt").string();
    if (c.task == "translation") recipe.valid_target = recipe.valid_source;
  }
  return recipe;
}

struct Loaded {
  Corpus corpus;
  std::string messages;
};

inline Loaded load(const Recipe& recipe, const CorpusOptions& options = {.part_bytes = 2000},
                   const std::filesystem::path& folder = {}) {
  Loaded loaded;
  loaded.corpus = load_corpus(
      recipe, folder, !folder.empty(), [&](std::string_view text) { loaded.messages += std::string(text) + "\n"; },
      options);
  return loaded;
}

inline std::string bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return to_string(tensor.shape()) +
         std::string(reinterpret_cast<const char*>(tensor.data<int32_t>()), static_cast<size_t>(4 * tensor.numel()));
}

inline std::string bytes_of(DataSet& data, int64_t epoch) {
  std::string bytes;
  for (int64_t i = 0; i < data.batches(epoch); ++i) {
    const Batch batch = data.batch(epoch, i);
    for (const Tensor& tensor : {batch.source, batch.source_lengths, batch.input, batch.output})
      bytes += bytes_of(tensor);
    bytes += std::to_string(batch.tokens) + " " + std::to_string(batch.sentences) + ";";
  }
  return bytes;
}

inline void expect_same_corpus(Corpus& a, Corpus& b, const std::string& what) {
  EXPECT_EQ(a.checksum, b.checksum) << what;
  EXPECT_EQ(a.batch_tokens, b.batch_tokens) << what;
  EXPECT_EQ(a.held_back, b.held_back) << what;
  EXPECT_EQ(a.references, b.references) << what;
  EXPECT_EQ(a.bleu_sources, b.bleu_sources) << what;
  EXPECT_EQ(a.mask_id, b.mask_id) << what;
  ASSERT_EQ(a.valid == nullptr, b.valid == nullptr) << what;
  for (const int64_t epoch : {0, 1, 5}) EXPECT_TRUE(bytes_of(*a.train, epoch) == bytes_of(*b.train, epoch)) << what;
  if (a.valid) {
    EXPECT_TRUE(bytes_of(*a.valid, 0) == bytes_of(*b.valid, 0)) << what;
  }
}

class TokenCache : public OneThread {
 protected:
  TemporaryFolder folder_;
};

}  // namespace heed::train
