// Examples of classes: lines of text <tab> label, or of text <tab> second text <tab> label.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "heed/models.h"
#include "train/data.h"

namespace heed::train {

struct Example {
  std::string text, second, label;
  int64_t line = 0;  // in its file, from 1
};

struct Examples {
  std::filesystem::path file;
  bool pairs = false;  // each has a second text
  std::vector<Example> all;

  // "train.tsv, line 3"
  [[nodiscard]] std::string place_of(const Example& example) const;
};
// Throws Error, naming the file and the line, where a line has other columns than the first one, or an empty column.
[[nodiscard]] Examples read_examples(const std::filesystem::path& file);

// The labels, each once: whole numbers by their value, other labels in the order of their bytes. Throws Error where
// there are fewer than two.
[[nodiscard]] std::vector<std::string> labels_of(const Examples& examples);

// The place of each example's label in `labels`. Throws Error with the line and the list for one that is not there.
[[nodiscard]] std::vector<int32_t> classes_of(const Examples& examples, std::span<const std::string> labels);

// Each example's label as a score, which the loss can use. Throws Error with the line for one that is no such number.
[[nodiscard]] std::vector<float> scores_of(const Examples& examples, ScoreLoss loss);

// "0, 1, 2, and 4 more"
[[nodiscard]] std::string list_of(std::span<const std::string> labels);

// How texts that are wholes are read.
struct Reading {
  int64_t longest = 0;  // tokens, with those around a text
  bool lowercase = false;
  std::string prompt = {};  // in front of each text, but not of the second ones
};
// As `heed classify` reads them where nobody asks for something else: `folder` has the model and its settings.
[[nodiscard]] Reading reading_of(const models::Model& model, const std::filesystem::path& folder, const char* function);

// The examples as `tokenizer` arranges them, each cut to reading.longest tokens.
struct TokenizedTexts {
  std::vector<Ids> ids, types;  // types: of the tokens
  int64_t cut = 0;              // texts that were longer
};
[[nodiscard]] TokenizedTexts tokenize(const text::Tokenizer& tokenizer, const Examples& examples,
                                      const Reading& reading);

}  // namespace heed::train
