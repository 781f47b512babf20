// What rank 0 does for a token cache before all ranks make its parts: it looks at the text, finds where its parts begin
// and which lines are held back, learns vocabularies, and writes corpus.json.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "train/cache_contents.h"

namespace heed::train {

struct PlannedCache {
  CachePlan plan;
  TextTokenizers tokenizers;
  TokenFileKind kind;
  std::string text;  // of corpus.json: the plan
};

// The arguments are those of prepare_tokens(). Takes from recipe.token_cache, a folder that is there, what fits this
// recipe. A text that has to be read is read once to find its parts, and where vocabularies are missing once more.
// Removes parts with other tokens.
[[nodiscard]] PlannedCache plan_cache(const Recipe& recipe, const std::filesystem::path& folder, bool continued,
                                      const std::function<void(std::string_view)>& message,
                                      const CorpusOptions& options);

}  // namespace heed::train
