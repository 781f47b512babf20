#include "text/huggingface/mapped_sentencepiece.h"

#include <unordered_map>

#include "base/files.h"
#include "heed/error.h"
#include "text/huggingface/characters.h"
#include "text/sentencepiece_cutter.h"
#include "text/tokenizers.h"
#include "text/utf8.h"

namespace heed::text::huggingface {

namespace {

class MappedSentencePiece : public Tokenizer {
 public:
  explicit MappedSentencePiece(MappedParts parts) : p_(std::move(parts)), added_(std::move(p_.added), {}) {
    for (size_t id = 0; id < p_.pieces.size(); ++id) {
      if (!p_.pieces[id].empty()) ids_.emplace(p_.pieces[id], static_cast<int32_t>(id));
    }
  }

  std::vector<int32_t> encode(std::string_view text) const override { return encoded(text, false).ids; }

  Tokens tokens(std::string_view text, const TokensOptions& options) const override {
    if (options.lowercase) return tokens_in_lower_case(*this, text, options);
    require(
        !options.parse_special || p_.parses_special, "tokens",
        "special tokens in the text as text, because \"legacy\" is false in tokenizer_config.json; found a request to "
        "parse them");
    Encoded first = encoded(text, options.parse_special);
    std::optional<Encoded> second;
    if (options.pair) second = encoded(*options.pair, options.parse_special);
    Encoded* const pair = second ? &*second : nullptr;
    require(options.limit >= 0, "tokens", "a limit of 0 (none) or more tokens; found ", options.limit);
    int64_t left_out = 0;
    if (options.limit > 0) {
      const int64_t added = options.add_special ? p_.post_processor.added(pair != nullptr) : 0;
      require(options.limit >= added, "tokens", "a limit of at least the ", added, " added tokens; found ",
              options.limit);
      left_out = truncate(first, pair, options.limit - added, p_.truncation);
    }
    Tokens made = assemble(p_.post_processor, first, pair, options.add_special);
    made.left_out = left_out;
    return made;
  }

  std::optional<int32_t> id_of(std::string_view token) const override {
    const auto found = ids_.find(std::string(token));
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string all;
    std::vector<std::string> pieces;
    const auto put = [&all](const std::string& text) { all += (all.empty() ? "" : " ") + text; };
    const auto put_pieces = [&] {
      if (pieces.empty()) return;
      std::string text;
      const auto status = p_.decoder->Decode(pieces, &text);
      require(status.ok(), "decode", "ids that SentencePiece can join; ", status.ToString());
      put(text);
      pieces.clear();
    };
    for (const int32_t id : ids) {
      require_id(id, vocabulary(), "decode");
      if (p_.special_pieces[static_cast<size_t>(id)]) continue;
      if (const AddedToken* const word = added_.find(id)) {  // between spaces, as transformers' slow tokenizers do
        put_pieces();
        put(word->content);
      } else {
        pieces.push_back(p_.pieces[static_cast<size_t>(id)]);
      }
    }
    put_pieces();
    return without_marks(all);
  }

  std::string piece(int32_t id) const override {
    require_id(id, vocabulary(), "piece");
    return p_.pieces[static_cast<size_t>(id)];
  }
  int64_t vocabulary() const override { return static_cast<int64_t>(p_.pieces.size()); }
  SpecialIds special() const override { return p_.special; }
  std::string kind() const override { return "sentencepiece"; }
  bool cuts_left() const override { return p_.truncation.from_left; }
  void save(const std::filesystem::path& folder, Side side) const override {
    remove_tokenizer_files(folder, side);
    for (const KeptFile& file : p_.files) files::write_atomically(folder / file.name, file.bytes, "save_tokenizer");
  }

 private:
  // What Python's strip() takes away.
  static bool is_space(int32_t c) { return is_whitespace(c) || (c >= 0x1c && c <= 0x1f); }

  // As transformers ends its decoding. Marian's vocabulary has pieces of both languages, and SentencePiece keeps the
  // space mark of those that only the other one's model knows.
  static std::string without_marks(const std::string& from) {
    std::string text;
    for (size_t at = 0; at < from.size();) {
      const size_t mark = std::min(from.find(kSpaceMark, at), from.size());
      text.append(from, at, mark - at);
      if (mark < from.size()) text += ' ';
      at = mark + kSpaceMark.size();
    }
    size_t begin = 0, end = text.size();
    for (size_t last = 0; end > 0; end = last) {
      last = last_character_before(text, end);
      if (!is_space(character_at(text, last).code_point)) break;
    }
    while (begin < end && is_space(character_at(text, begin).code_point)) begin += character_at(text, begin).size;
    return text.substr(begin, end - begin);
  }

  static int32_t next_word(const Encoded& made) { return made.words.empty() ? 0 : made.words.back() + 1; }

  // The token that stands for text[begin, end).
  static void put_token(Encoded& made, int32_t id, size_t begin, size_t end) {
    made.words.push_back(next_word(made));
    made.ids.push_back(id);
    made.spans.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }

  // The pieces of `part`, which begins at byte `begin` of the text.
  void put_pieces(Encoded& made, std::string_view part, size_t begin) const {
    const auto offset = static_cast<int64_t>(begin);
    bool begins = true;
    for (const SentencePieceCutter::Piece& piece : cutter_.pieces(part)) {
      const auto found = ids_.find(piece.spelling);
      begins = begins || piece.spelling.starts_with(kSpaceMark);
      made.words.push_back(begins ? next_word(made) : made.words.back());
      made.ids.push_back(found == ids_.end() ? p_.special.unknown : found->second);
      made.spans.push_back({offset + piece.begin, offset + piece.end});
      begins = false;
    }
  }

  // The language code that `part` begins with, as one token, even where nobody knows it. `part` begins at byte `begin`
  // of the text; gives the byte behind the code.
  size_t put_language_code(Encoded& made, std::string_view part, size_t begin) const {
    const size_t end = p_.language_codes && part.starts_with(">>") ? part.find("<<") : std::string_view::npos;
    if (end == std::string_view::npos) return begin;
    const std::string code(part.substr(0, end + 2));
    const auto found = ids_.find(code);
    put_token(made, found == ids_.end() ? p_.special.unknown : found->second, begin, begin + code.size());
    return begin + code.size();
  }

  Encoded encoded(std::string_view text, bool parse_special) const {
    require_utf8(text, "encode");
    Encoded made;
    added_.split(text, AddedTokens::When::before_normalization, parse_special,
                 [&](size_t begin, size_t end, const AddedToken* token) {
                   if (token != nullptr) return put_token(made, token->id, begin, end);
                   const size_t behind = put_language_code(made, text.substr(begin, end - begin), begin);
                   if (behind < end) put_pieces(made, text.substr(behind, end - behind), behind);
                 });
    return made;
  }

  MappedParts p_;
  SentencePieceCutter cutter_{p_.processor};
  AddedTokens added_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

std::shared_ptr<const Tokenizer> mapped_sentencepiece(MappedParts parts) {
  return std::make_shared<MappedSentencePiece>(std::move(parts));
}

}  // namespace heed::text::huggingface
