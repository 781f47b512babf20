#include "text/language_tokens.h"

#include <algorithm>

#include "heed/error.h"

namespace heed::text {

bool looks_like_language(std::string_view piece) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto letters = [&](std::string_view part) { return std::ranges::all_of(part, is_letter); };
  const bool underscores = piece.starts_with("__") && piece.ends_with("__");
  // GPT-2's vocabulary has runs of underscores, which name nothing.
  if (underscores || (piece.starts_with(">>") && piece.ends_with("<<"))) return std::ranges::any_of(piece, is_letter);
  const size_t bar = piece.find('_');
  return (bar == 2 || bar == 3) && (piece.size() == bar + 3 || piece.size() == bar + 5) &&
         letters(piece.substr(0, bar)) && letters(piece.substr(bar + 1));
}

bool looks_like_language(const Tokenizer& tokenizer, int64_t id) {
  return id >= 0 && id < tokenizer.vocabulary() && looks_like_language(tokenizer.piece(static_cast<int32_t>(id)));
}

std::optional<int32_t> language_id(const Tokenizer& tokenizer, const std::string& language) {
  if (const auto id = tokenizer.id_of("__" + language + "__")) return id;
  if (!looks_like_language(language)) return std::nullopt;  // "en" is also a piece of ordinary words
  return tokenizer.id_of(language);
}

std::string language_name(const std::string& piece) {
  const bool marked = looks_like_language(piece) && (piece.starts_with("__") || piece.starts_with(">>"));
  return marked ? piece.substr(2, piece.size() - 4) : piece;
}

std::string arrow_token(const std::string& language) {
  return language.starts_with(">>") ? language : ">>" + language + "<<";
}

std::vector<int32_t> languages_of(const Tokenizer& tokenizer, bool arrows) {
  std::vector<int32_t> found;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string piece = tokenizer.piece(id);
    if (!looks_like_language(piece) || piece.starts_with(">>") != arrows) continue;
    // "de_DE" may also be a piece of ordinary texts.
    const bool marked = piece.starts_with("__") || arrows;
    if (marked || tokenizer.decode(std::span(&id, 1)).empty()) found.push_back(id);
  }
  return found;
}

std::optional<int32_t> known_arrow(const Tokenizer& source, const std::string& language, const char* function) {
  if (const std::optional<int32_t> id = source.id_of(arrow_token(language))) return id;
  const std::vector<int32_t> arrows = languages_of(source, true);
  if (arrows.empty()) return std::nullopt;
  std::string known;
  for (const int32_t id : arrows) known += (known.empty() ? "" : " ") + language_name(source.piece(id));
  fail(function, "a target_language that the model knows (", known, "); found \"", language, "\"");
}

int32_t known_language(const Tokenizer& tokenizer, const std::string& language, const char* function) {
  if (const std::optional<int32_t> id = language_id(tokenizer, language)) return *id;
  std::string known;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string piece = tokenizer.piece(id);
    if (looks_like_language(piece)) known += (known.empty() ? "" : " ") + language_name(piece);
  }
  require(!known.empty(), function,
          "no source_language and no target_language, because this model knows no language by name; found \"", language,
          "\"");
  fail(function, "a language that the model knows (", known, "); found \"", language, "\"");
}

}  // namespace heed::text
