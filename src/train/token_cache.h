// The folder of `token_cache`: a training text as tokens, in mapped files, for texts that are larger than memory.
//
//   corpus.json          which text, which tokenizers, where its parts begin; behind a line with its checksum
//   source.*, target.*   the tokenizers
//   held_back.txt        lines that valid_fraction holds back
//   part-00000.tokens    the tokens of the first part of the text (token_file.h)
//
// Every file is written aside, synced and renamed, so that a file is whole or is not there. A run that is killed leaves
// whole parts behind; the next one makes the others. Where the text is cut depends on the text alone: any number of
// processes makes the same files.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/corpus.h"
#include "train/mapped_data.h"

namespace heed::train {

struct PreparedText {
  std::shared_ptr<const text::Tokenizer> source, target;  // as in Corpus
  std::shared_ptr<const TokenParts> tokens;               // of the training text
  std::vector<std::string> held_back;                     // lines that valid_fraction keeps from it
};

// Reads the text of `recipe` from recipe.token_cache, and first makes what is missing or out of date there: all ranks
// together, each some of the parts. Tokenizers are loaded from `folder` where `continued`, else from the cache, where
// they were trained on this text with these settings, else trained. At most one process works in the folder; others
// wait for it.
[[nodiscard]] PreparedText prepare_tokens(const Recipe& recipe, const std::filesystem::path& folder, bool continued,
                                          const std::function<void(std::string_view)>& message,
                                          const CorpusOptions& options = {});

}  // namespace heed::train
