#include "pipelines/encoding.h"

#include <algorithm>

#include "heed/error.h"
#include "text/huggingface/characters.h"
#include "text/huggingface/normalizers.h"
#include "text/sentences.h"
#include "text/utf8.h"

namespace heed {
namespace {

namespace hf = text::huggingface;

constexpr std::string_view kSpace = "\u2581";

// Code points that are neither spaces nor SentencePiece's mark for one.
int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool starts = (byte & 0xC0) != 0x80;
    if (starts && byte > ' ' && !text.substr(i).starts_with(kSpace)) ++count;
  }
  return count;
}

}  // namespace

std::string to_string(const TextWarning& warning) {
  if (warning.kind == TextWarning::Kind::cut)
    return std::to_string(warning.total) + " tokens, cut to " + std::to_string(warning.count);
  if (warning.kind == TextWarning::Kind::split)
    return std::to_string(warning.total) + " tokens, translated in " + std::to_string(warning.count) + " parts";
  if (warning.kind == TextWarning::Kind::window)
    return std::to_string(warning.total) + " tokens; the model reads only the last " + std::to_string(warning.count);
  return std::to_string(warning.count) + " of " + std::to_string(warning.total) +
         " characters are unknown to the model; is the text in the language that it reads?";
}

Coverage coverage(const text::Tokenizer& tokenizer, std::string_view text, std::span<const int32_t> ids) {
  Coverage result{.characters = count_characters(text)};
  const int32_t unknown = tokenizer.special().unknown;
  if (std::find(ids.begin(), ids.end(), unknown) == ids.end()) return result;
  int64_t known = 0;
  for (const int32_t id : ids)
    if (id != unknown) known += count_characters(tokenizer.piece(id));
  result.unknown = std::max<int64_t>(0, result.characters - known);
  return result;
}

}  // namespace heed

namespace heed::pipelines {
namespace {

void refuse_or_warn(int64_t count, int64_t longest, int64_t index, const TextOptions& options, const char* function) {
  require(options.too_long == TooLong::cut, function, name_of_text(options, index), ": at most the ", longest,
          " tokens that the model reads; found ", count);
  if (options.on_warning)
    options.on_warning({.kind = TextWarning::Kind::cut, .text = index, .count = longest, .total = count});
}

// How much of a text its tokens cover, by the places that they say they stand at.
Coverage coverage_by_spans(const text::Tokenizer& tokenizer, std::string_view text, const text::Tokens& tokens) {
  Coverage result{.characters = count_characters(text)};
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.special[i] != 0 || tokens.ids[i] != tokenizer.special().unknown) continue;
    const auto [begin, end] = tokens.spans[i];
    if (end <= static_cast<int64_t>(text.size()) && begin < end)
      result.unknown += count_characters(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  }
  return result;
}

}  // namespace

void require_utf8(std::string_view text, int64_t index, const TextOptions& options, const char* function) {
  if (text::valid_utf8_prefix(text) != text.size()) text::require_utf8(text, function, name_of_text(options, index));
}

void require_rows(const Ids& ids, int64_t rows, const text::Tokenizer& tokenizer, int64_t index,
                  const TextOptions& options, const char* function) {
  for (const int32_t id : ids) {
    if (id < rows) continue;
    fail(function, name_of_text(options, index), ": tokens that the model has a row for; found \"",
         piece_of(tokenizer, id), "\"");
  }
}

std::string name_of_text(const TextOptions& options, int64_t index) {
  return options.name ? options.name(index) : "text " + std::to_string(index + 1);
}

text::Tokens encode_around(const text::Tokenizer& tokenizer, std::string_view text, const text::TokensOptions& tokens,
                           int64_t index, const TextOptions& options, const char* function) {
  require_utf8(text, index, options, function);
  if (tokens.pair) require_utf8(*tokens.pair, index, options, function);
  text::Tokens result = tokenizer.tokens(text, tokens);
  if (result.left_out > 0) {
    const auto kept = static_cast<int64_t>(result.ids.size());
    refuse_or_warn(kept + result.left_out, kept, index, options, function);
  } else if (options.on_warning && !tokens.pair) {
    const Coverage covered = coverage_by_spans(tokenizer, text, result);
    if (covered.mostly_unknown())
      options.on_warning(
          {.kind = TextWarning::Kind::unknown, .text = index, .count = covered.unknown, .total = covered.characters});
  }
  return result;
}

Ids encode_all(const text::Tokenizer& tokenizer, std::string_view text, int64_t index, const TextOptions& options,
               const char* function, bool parse_special) {
  require_utf8(text, index, options, function);
  return parse_special ? tokenizer.tokens(text, {.add_special = false, .parse_special = true}).ids
                       : tokenizer.encode(text);
}

Ids encode_text(const text::Tokenizer& tokenizer, std::string_view text, int64_t index, int64_t longest,
                const TextOptions& options, const char* function) {
  return cut_or_refuse(encode_all(tokenizer, text, index, options, function), tokenizer, text, index, longest, options,
                       function);
}

Ids cut_or_refuse(Ids ids, const text::Tokenizer& tokenizer, std::string_view text, int64_t index, int64_t longest,
                  const TextOptions& options, const char* function) {
  const auto count = static_cast<int64_t>(ids.size());
  if (count > longest) {
    refuse_or_warn(count, longest, index, options, function);
    leave_out(ids, static_cast<size_t>(count - longest), tokenizer);
  } else if (options.on_warning) {  // (what is cut is warned of once)
    const Coverage covered = coverage(tokenizer, text, ids);
    if (covered.mostly_unknown())
      options.on_warning(
          {.kind = TextWarning::Kind::unknown, .text = index, .count = covered.unknown, .total = covered.characters});
  }
  return ids;
}

std::string piece_of(const text::Tokenizer& tokenizer, int32_t id) {
  return id < tokenizer.vocabulary() ? tokenizer.piece(id) : "#" + std::to_string(id);
}

std::vector<std::string> pieces_of(const text::Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> out;
  out.reserve(ids.size());
  for (const int32_t id : ids) out.push_back(piece_of(tokenizer, id));
  return out;
}

std::string label_of(const text::Tokenizer& tokenizer, int32_t id) {
  std::string piece = piece_of(tokenizer, id);
  if (id >= tokenizer.vocabulary() || tokenizer.kind() != "bpe") return piece;
  std::string bytes;
  for (size_t at = 0; at < piece.size();) {
    const hf::Character c = hf::character_at(piece, at);
    const int byte = hf::byte_of_character(c.code_point);
    if (byte < 0) return piece;
    bytes += static_cast<char>(byte);
    at += c.size;
  }
  if (bytes == piece || text::valid_utf8_prefix(bytes) != bytes.size()) return piece;
  // In other vocabularies "Ã¯" is two letters. (The tokenizer may drop the space in front.)
  if (text::trimmed(tokenizer.decode({&id, 1})) != text::trimmed(bytes)) return piece;
  std::string label;
  for (const char byte : bytes) label += byte == ' ' ? std::string(kSpace) : std::string(1, byte);
  return label;
}

std::vector<std::string> labels_of(const text::Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> out;
  out.reserve(ids.size());
  for (const int32_t id : ids) out.push_back(label_of(tokenizer, id));
  return out;
}

Tensor as_row(const Ids& ids) {
  return Tensor::from(std::span<const int32_t>(ids), {1, static_cast<int64_t>(ids.size())});
}

Tensor length_of(const Ids& ids) {
  const auto length = static_cast<int32_t>(ids.size());
  return Tensor::from(std::span<const int32_t>(&length, 1), {1});
}

}  // namespace heed::pipelines
