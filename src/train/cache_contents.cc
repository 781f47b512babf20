#include "train/cache_contents.h"

#include <algorithm>

#include "base/sha256.h"
#include "heed/error.h"

namespace heed::train {

namespace {

io::Json rule_of_split(const Recipe& recipe) {
  if (!recipe.pairs.empty()) return recipe.valid_fraction > 0 ? io::Json{{"pairs", recipe.valid_fraction}} : io::Json();
  const bool of_tokens = is_stream(recipe) && recipe.tokenizer == "characters";
  const bool splits = recipe.task != "translation" && recipe.valid_source.empty() && recipe.valid_fraction > 0;
  return splits && !of_tokens ? io::Json{{"lines", recipe.valid_fraction}} : io::Json();
}

}  // namespace

TextTokenizers load_tokenizers(const Recipe& recipe, const std::filesystem::path& folder) {
  const auto load = [&](text::Side side) { return text::Tokenizer::load(folder, side); };
  TextTokenizers loaded;
  if (is_stream(recipe)) {
    loaded.target = load(text::Side::target);
    return loaded;
  }
  loaded.source = load(text::Side::source);
  if (recipe.task == "translation") {
    loaded.target = recipe.shared_vocabulary ? loaded.source : load(text::Side::target);
  }
  return loaded;
}

TokenFileKind kind_of_tokens(const Recipe& recipe, const CachePlan& plan, const TextTokenizers& tokenizers) {
  const auto size_of = [](const auto& tokenizer) { return tokenizer ? tokenizer->vocabulary() : 0; };
  const int64_t vocabulary = std::max(size_of(tokenizers.source), size_of(tokenizers.target));
  const bool stream = is_stream(recipe);
  TokenFileKind kind{.sides = stream                         ? 0
                              : recipe.task == "translation" ? 2
                                                             : 1,
                     .id_bytes = vocabulary <= 65536 ? 2 : 4,
                     .vocabulary = vocabulary};
  io::Json what = {{"stream", stream}, {"longest", stream ? 0 : longest_sentence(recipe)}, {"split", plan.split}};
  for (const CachePlan::File& file : plan.texts) what["texts"].push_back(files::to_string(file.checksum));
  for (const auto& [side, checksum] : plan.tokenizers) what["tokenizers"].push_back(files::to_string(checksum));
  for (const auto& place : plan.parts) what["parts"].push_back({place.line, place.source, place.target});
  const auto hash = sha256(io::json_text(what));
  for (size_t i = 0; i < sizeof kind.fingerprint; ++i) kind.fingerprint = (kind.fingerprint << 8) | hash[i];
  return kind;
}

int64_t longest_sentence(const Recipe& recipe) {
  const int64_t room = recipe.model.max_length - (recipe.task == "translation" ? 1 : 2);
  return std::min(recipe.max_tokens_per_sentence, room);
}

TrainedLines::TrainedLines(const Recipe& recipe, int64_t lines)
    : rule_(rule_of_split(recipe)),
      by_hash_(!recipe.pairs.empty()),
      valid_fraction_(recipe.valid_fraction),
      end_(by_hash_ || rule_.is_null()
               ? lines
               : static_cast<int64_t>((1.0 - recipe.valid_fraction) * static_cast<double>(lines))) {}

std::vector<std::filesystem::path> training_files(const Recipe& recipe) {
  if (!recipe.pairs.empty()) return {recipe.pairs};
  if (recipe.task == "translation") return {recipe.train_source, recipe.train_target};
  return {recipe.train_source};
}

void require_no_interrupt(const CorpusOptions& options, const std::filesystem::path& cache) {
  if (options.stop == nullptr || !options.stop->load()) return;
  throw Interrupted("interrupted while the text becomes tokens; what is done is kept in " + files::quoted(cache) +
                    ", and the same command goes on there");
}

}  // namespace heed::train
