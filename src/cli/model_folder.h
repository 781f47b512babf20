// A model with the tokenizers beside it, and lines of text as its ids.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/generate.h"
#include "heed/models.h"
#include "heed/text.h"

namespace heed::cli {

struct TranslationModel {
  std::unique_ptr<models::Model> owner;
  const models::Transformer* model = nullptr;
  std::shared_ptr<const text::Tokenizer> source, target;
};
// Throws Error when the folder holds another kind of model or its tokenizers do not fit it.
[[nodiscard]] TranslationModel load_translation_model(const std::filesystem::path& folder);

struct TextModel {
  std::unique_ptr<models::Model> owner;
  const models::Gpt* model = nullptr;
  std::shared_ptr<const text::Tokenizer> tokenizer;
};
[[nodiscard]] TextModel load_text_model(const std::filesystem::path& folder);

enum class TooLong { cut, refuse };

// Ids of one line, of at most `longest` tokens: longer lines are cut (with a warning) or refused (with an Error);
// `where` names the line in either, e.g. "standard input, line 3". Invalid UTF-8 is an Error that names it too.
[[nodiscard]] std::vector<int32_t> encode_line(const text::Tokenizer& tokenizer, std::string_view line, int64_t longest,
                                               TooLong too_long, const std::string& where);

// A line as the encoder reads it: its ids and the end id, as in training. An empty line stays empty.
[[nodiscard]] std::vector<int32_t> encode_source(const TranslationModel& model, std::string_view line, TooLong too_long,
                                                 const std::string& where);

// "@@ " joins undone, as text that is cut into pieces is scored.
[[nodiscard]] std::string undo_pieces(std::string_view text);

// Text that stays on its line, whatever it holds: line ends become spaces.
[[nodiscard]] std::string one_line(std::string text);

}  // namespace heed::cli
