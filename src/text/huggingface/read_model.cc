#include <algorithm>
#include <unordered_set>

#include "base/files.h"
#include "text/huggingface/read_parts.h"
#include "text/huggingface/score.h"

namespace heed::text::huggingface {

namespace {

using io::JsonValue;
using Kind = io::JsonValue::Kind;

std::vector<std::pair<std::string, int32_t>> read_vocabulary(const Fields& f) {
  std::vector<std::pair<std::string, int32_t>> tokens;
  const auto& members = f.get("vocab", Kind::object).members;
  tokens.reserve(members.size());
  for (const auto& [text, id] : members) {
    if (!id.is(Kind::integer) || id.integer < 0 || id.integer > INT32_MAX) {
      f.refuse("vocab", "an id for each token; found ", name_of(id.kind), " for ", files::quoted(text));
    }
    tokens.emplace_back(text, static_cast<int32_t>(id.integer));
  }
  return tokens;
}

// [["a", 0], ["b", -1.5], ...]: the ids are the places.
std::vector<std::pair<std::string, int32_t>> read_unigram_vocabulary(const Fields& f) {
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (const JsonValue& item : f.get("vocab", Kind::array).items) {
    const auto& parts = item.items;
    if (parts.size() != 2 || !parts[0].is(Kind::text) || (!parts[1].is(Kind::number) && !parts[1].is(Kind::integer))) {
      f.refuse("vocab", "a token and its score; found something else at place ", tokens.size());
    }
    tokens.emplace_back(parts[0].text, static_cast<int32_t>(tokens.size()));
  }
  return tokens;
}

MergePairs read_merges(const Fields& f) {
  MergePairs merges;
  for (const JsonValue& item : f.get("merges", Kind::array).items) {
    if (item.is(Kind::text) && item.text.starts_with("#version")) continue;  // the first line of merges.txt
    if (item.is(Kind::array) && item.items.size() == 2 && item.items[0].is(Kind::text) &&
        item.items[1].is(Kind::text)) {
      merges.emplace_back(item.items[0].text, item.items[1].text);
      continue;
    }
    const size_t space = item.text.find(' ');
    if (!item.is(Kind::text) || space == std::string::npos || item.text.find(' ', space + 1) != std::string::npos) {
      f.refuse("merges", "two tokens with a space between them, or in an array; found something else at place ",
               merges.size());
    }
    merges.emplace_back(item.text.substr(0, space), item.text.substr(space + 1));
  }
  return merges;
}

// Files that are older than the key "type" say by other keys what they are.
std::string kind_of(const Fields& f) {
  const std::vector<std::string_view> kinds = {"WordPiece", "BPE", "Unigram", "WordLevel"};
  if (f.find("type") != nullptr) return std::string(kinds[f.one_of("type", kinds)]);
  if (f.find("merges") != nullptr) return "BPE";
  const JsonValue* const vocabulary = f.find("vocab");
  if (vocabulary != nullptr && vocabulary->is(Kind::array)) return "Unigram";
  return f.find("continuing_subword_prefix") != nullptr ? "WordPiece" : "WordLevel";
}

}  // namespace

ModelReading begin_model(const Fields& f) {
  ModelReading made;
  made.kind = kind_of(f);
  const std::string name = f.name("vocab");
  made.tokens = TokenTable(made.kind == "Unigram" ? read_unigram_vocabulary(f) : read_vocabulary(f), name);
  if (made.tokens.size() == 0) f.refuse("vocab", "tokens; found none");
  made.may_read_bytes = made.kind == "BPE" && f.text_or("continuing_subword_prefix", "").empty() &&
                        f.text_or("end_of_word_suffix", "").empty() && has_all_bytes(made.tokens);
  return made;
}

ModelPointer finish_model(const Fields& f, ModelReading reading, bool as_bytes) {
  if (reading.kind == "WordPiece") {
    return wordpiece_model(std::move(reading.tokens),
                           {.unknown = f.text("unk_token"),
                            .prefix = f.text("continuing_subword_prefix"),
                            .longest_word = f.whole("max_input_chars_per_word", 0, INT32_MAX)},
                           f.name());
  }
  if (reading.kind == "WordLevel") return wordlevel_model(std::move(reading.tokens), f.text("unk_token"), f.name());
  if (reading.kind == "BPE") {
    const JsonValue* const dropout = f.find("dropout");
    if (dropout != nullptr && dropout->number != 0) f.refuse("dropout", "0 or null; found a rate");
    BpeOptions options{.prefix = f.text_or("continuing_subword_prefix", ""),
                       .suffix = f.text_or("end_of_word_suffix", ""),
                       .fuse_unknown = f.flag_or("fuse_unk", false),
                       .byte_fallback = f.flag_or("byte_fallback", false),
                       .ignore_merges = f.flag_or("ignore_merges", false),
                       .as_bytes = as_bytes};
    if (f.find("unk_token") != nullptr) options.unknown = f.text("unk_token");
    return bpe_model(std::move(reading.tokens), read_merges(f), options, f.name());
  }
  UnigramOptions options{.byte_fallback = f.flag_or("byte_fallback", false)};
  options.unknown = static_cast<int32_t>(f.whole_or("unk_id", 0, reading.tokens.size() - 1, -1));
  for (const JsonValue& item : f.get("vocab", Kind::array).items) options.scores.push_back(score_of(item.items[1]));
  return unigram_model(std::move(reading.tokens), std::move(options), f.name());
}

}  // namespace heed::text::huggingface
