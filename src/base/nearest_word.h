// What a misspelt name most likely means: commands, options and keys of a recipe.
#pragma once

#include <span>
#include <string_view>

namespace heed {

// The candidate with the fewest edits from `word`; empty where all are too far away for a typing mistake. An edit
// inserts, deletes or replaces a letter, or swaps two neighbours. One edit in three letters is allowed, and one in a
// shorter word; dashes at the beginning and a section ("model.") are no letters. A longer candidate that begins with
// `word` is one edit away.
[[nodiscard]] std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace heed
