#include "text/huggingface/mapped_sentencepiece.h"

#include <unordered_map>

#include "base/files.h"
#include "heed/error.h"
#include "text/tokenizers.h"
#include "text/utf8.h"

namespace heed::text::huggingface {

namespace {

class MappedSentencePiece : public Tokenizer {
 public:
  explicit MappedSentencePiece(MappedParts parts) : p_(std::move(parts)) {
    for (size_t id = 0; id < p_.pieces.size(); ++id) {
      if (!p_.pieces[id].empty()) ids_.emplace(p_.pieces[id], static_cast<int32_t>(id));
    }
  }

  std::vector<int32_t> encode(std::string_view text) const override { return encoded(text).ids; }

  Tokens tokens(std::string_view text, const TokensOptions& options) const override {
    require(!options.parse_special, "tokens",
            "special tokens in the text as text; found a request to parse them, which this tokenizer cannot do");
    Encoded first = encoded(text);
    std::optional<Encoded> second;
    if (options.pair) second = encoded(*options.pair);
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
    std::vector<std::string> pieces;
    for (const int32_t id : ids) {
      require_id(id, vocabulary(), "decode");
      if (!p_.special_pieces[static_cast<size_t>(id)]) pieces.push_back(p_.pieces[static_cast<size_t>(id)]);
    }
    std::string text;
    const auto status = p_.decoder->Decode(pieces, &text);
    require(status.ok(), "decode", "ids that SentencePiece can join; ", status.ToString());
    return without_marks(std::move(text));
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
  // As transformers ends its decoding. Marian's vocabulary has pieces of both languages, and SentencePiece keeps the
  // space mark of those that only the other one's model knows.
  static std::string without_marks(std::string text) {
    for (size_t at = text.find(kSpaceMark); at != std::string::npos; at = text.find(kSpaceMark, at))
      text.replace(at, kSpaceMark.size(), " ");
    text.erase(text.find_last_not_of(' ') + 1);
    text.erase(0, text.find_first_not_of(' '));
    return text;
  }

  Encoded encoded(std::string_view text) const {
    require_utf8(text, "encode");
    Encoded made;
    size_t begin = 0;
    if (p_.language_codes && text.starts_with(">>")) {
      const size_t end = text.find("<<");
      const auto found = end == std::string_view::npos ? ids_.end() : ids_.find(std::string(text.substr(0, end + 2)));
      if (found != ids_.end()) {
        begin = end + 2;
        made.ids.push_back(found->second);
        made.spans.push_back({0, static_cast<int64_t>(begin)});
        made.words.push_back(0);
      }
    }
    sentencepiece::ImmutableSentencePieceText cut;
    const auto status = p_.processor->Encode(text.substr(begin), cut.mutable_proto());
    require(status.ok(), "encode", "text that SentencePiece can cut; ", status.ToString());
    for (size_t i = 0; i < cut.pieces_size(); ++i) {
      const auto piece = cut.pieces(static_cast<int>(i));
      const auto found = ids_.find(piece.piece());
      made.ids.push_back(found == ids_.end() ? p_.special.unknown : found->second);
      const auto offset = static_cast<int64_t>(begin);
      made.spans.push_back({offset + piece.begin(), offset + piece.end()});
      const bool begins = i == 0 || std::string_view(piece.piece()).starts_with(kSpaceMark);
      made.words.push_back((made.words.empty() ? -1 : made.words.back()) + (begins ? 1 : 0));
    }
    return made;
  }

  MappedParts p_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

std::shared_ptr<const Tokenizer> mapped_sentencepiece(MappedParts parts) {
  return std::make_shared<MappedSentencePiece>(std::move(parts));
}

}  // namespace heed::text::huggingface
