// SentencePiece models whose pieces have other ids in the network than in the model: Marian's, XLM-RoBERTa's; and T5's,
// whose ids are the model's.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <unordered_map>

#include "base/files.h"
#include "text/huggingface/read_tokenizer.h"
#include "text/sentencepiece_check.h"
#include "text/tokenizers.h"
#include "text/utf8.h"

namespace heed::text::huggingface {

namespace {

using Processor = sentencepiece::SentencePieceProcessor;

std::shared_ptr<const Processor> processor_of(const std::string& model, const std::string& name) {
  (void)check_sentencepiece(model, name);
  auto processor = std::make_shared<Processor>();
  const auto status = processor->LoadFromSerializedProto(model);
  require(status.ok(), "load_tokenizer", name, ": a SentencePiece model; ", status.ToString());
  return processor;
}

struct MappedParts {
  std::shared_ptr<const Processor> processor;  // cuts text
  std::shared_ptr<const Processor> decoder;    // joins pieces
  std::vector<std::string> pieces;             // [id]
  std::vector<bool> special_pieces;            // [id]: left out by decode()
  PostProcessor post_processor;
  SpecialIds special;
  bool language_codes = false;  // ">>fra<<" before a text is a token
  std::vector<KeptFile> files;
};

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
      left_out = truncate(first, pair, options.limit - added, {});
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
    return text;
  }

  std::string piece(int32_t id) const override {
    require_id(id, vocabulary(), "piece");
    return p_.pieces[static_cast<size_t>(id)];
  }
  int64_t vocabulary() const override { return static_cast<int64_t>(p_.pieces.size()); }
  SpecialIds special() const override { return p_.special; }
  std::string kind() const override { return "sentencepiece"; }
  void save(const std::filesystem::path& folder, Side side) const override {
    remove_tokenizer_files(folder, side);
    for (const KeptFile& file : p_.files) files::write_atomically(folder / file.name, file.bytes, "save_tokenizer");
  }

 private:
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

TemplatePiece end_piece(int32_t id) { return {TemplatePiece::Kind::special, {id}, 0}; }

void mark_special(MappedParts& parts) {
  parts.special_pieces.assign(parts.pieces.size(), false);
  for (const int32_t id : {parts.special.padding, parts.special.begin, parts.special.end, parts.special.unknown}) {
    if (id >= 0) parts.special_pieces[static_cast<size_t>(id)] = true;
  }
}

}  // namespace

std::shared_ptr<const Tokenizer> read_marian(TokenizerFiles& files, Side side, const Configuration& configuration) {
  MappedParts parts;
  const auto source = processor_of(files.read("source.spm"), files.quoted("source.spm"));
  const auto target = processor_of(files.read("target.spm"), files.quoted("target.spm"));
  parts.processor = side == Side::source ? source : target;
  parts.decoder = parts.processor;
  // Two languages with a vocabulary each ("separate_vocabs"), or one for both.
  const bool apart = files.has("target_vocab.json");
  if (apart) (void)files.read("target_vocab.json");  // kept, to be written back
  const char* const vocabulary = apart && side == Side::target ? "target_vocab.json" : "vocab.json";
  if (apart && side == Side::target) (void)files.read("vocab.json");
  const std::string name = files.quoted(vocabulary);
  const io::JsonValue& document = files.read_json(vocabulary);
  require(document.is(io::JsonValue::Kind::object), "load_tokenizer", name, ": an object; found ",
          name_of(document.kind));
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (const auto& [text, id] : document.members) {
    require(id.is(io::JsonValue::Kind::integer) && id.integer >= 0 && id.integer <= INT32_MAX, "load_tokenizer", name,
            ": an id for each token; found another value for ", files::quoted(text));
    tokens.emplace_back(text, static_cast<int32_t>(id.integer));
  }
  const TokenTable table(std::move(tokens), name);
  for (int32_t id = 0; id < table.size(); ++id) parts.pieces.push_back(table.text(id));
  const auto id_of = [&](const std::optional<std::string>& given, std::string_view usual) {
    return table.find(given ? std::string_view(*given) : usual);
  };
  parts.special = {.padding = id_of(configuration.padding, "<pad>"),
                   .begin = -1,
                   .end = id_of(configuration.end, "</s>"),
                   .unknown = id_of(configuration.unknown, "<unk>")};
  require(parts.special.end >= 0 && parts.special.unknown >= 0, "load_tokenizer", name,
          ": the tokens </s> and <unk>; found not both");
  mark_special(parts);
  using Piece = TemplatePiece::Kind;
  parts.post_processor.single = {{.kind = Piece::text}, end_piece(parts.special.end)};
  parts.post_processor.pair = {{.kind = Piece::text}, {.kind = Piece::pair}, end_piece(parts.special.end)};
  parts.language_codes = true;
  parts.files = files.kept();
  return std::make_shared<MappedSentencePiece>(std::move(parts));
}

std::shared_ptr<const Tokenizer> read_xlm_roberta(TokenizerFiles& files, std::string_view name) {
  MappedParts parts;
  parts.processor = parts.decoder = processor_of(files.read(name), files.quoted(name));
  parts.pieces = {"<s>", "<pad>", "</s>", "<unk>"};
  constexpr int kFirst = 3;  // the model's <unk>, <s> and </s> come before
  for (int id = kFirst; id < parts.processor->GetPieceSize(); ++id) {
    parts.pieces.push_back(parts.processor->IdToPiece(id));
  }
  parts.pieces.emplace_back("<mask>");
  parts.special = {.padding = 1, .begin = 0, .end = 2, .unknown = 3};
  mark_special(parts);
  parts.special_pieces.back() = true;
  using Piece = TemplatePiece::Kind;
  const TemplatePiece begin = end_piece(0), end = end_piece(2);
  parts.post_processor.single = {begin, {.kind = Piece::text}, end};
  parts.post_processor.pair = {begin, {.kind = Piece::text}, end, end, {.kind = Piece::pair}, end};
  (void)read_configuration(files);
  parts.files = files.kept();
  return std::make_shared<MappedSentencePiece>(std::move(parts));
}

std::shared_ptr<const Tokenizer> read_plain_sentencepiece(TokenizerFiles& files, std::string_view name,
                                                          const Configuration& configuration) {
  MappedParts parts;
  parts.processor = parts.decoder = processor_of(files.read(name), files.quoted(name));
  for (int id = 0; id < parts.processor->GetPieceSize(); ++id) parts.pieces.push_back(parts.processor->IdToPiece(id));
  const auto id_of = [&](const std::optional<std::string>& token, int otherwise) {
    if (!token) return static_cast<int32_t>(otherwise);
    const auto found = std::find(parts.pieces.begin(), parts.pieces.end(), *token);
    return found == parts.pieces.end() ? -1 : static_cast<int32_t>(found - parts.pieces.begin());
  };
  parts.special = {.padding = id_of(configuration.padding, parts.processor->pad_id()),
                   .begin = id_of(configuration.begin, parts.processor->bos_id()),
                   .end = id_of(configuration.end, parts.processor->eos_id()),
                   .unknown = id_of(configuration.unknown, parts.processor->unk_id())};
  mark_special(parts);
  using Piece = TemplatePiece::Kind;
  parts.post_processor.single = {{.kind = Piece::text}};
  parts.post_processor.pair = {{.kind = Piece::text}, {.kind = Piece::pair}};
  if (parts.special.end >= 0) {
    const TemplatePiece end = end_piece(parts.special.end);
    parts.post_processor.single.push_back(end);
    parts.post_processor.pair = {{.kind = Piece::text}, end, {.kind = Piece::pair}, end};
  }
  parts.files = files.kept();
  return std::make_shared<MappedSentencePiece>(std::move(parts));
}

}  // namespace heed::text::huggingface
