// SentencePiece models in folders without a tokenizer.json: Marian's, XLM-RoBERTa's, those of M2M100 and mBART, which
// have a token for each language; and T5's, whose ids are the model's.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/files.h"
#include "text/huggingface/languages.h"
#include "text/huggingface/mapped_sentencepiece.h"
#include "text/huggingface/read_tokenizer.h"
#include "text/sentencepiece_check.h"

namespace heed::text::huggingface {

namespace {

std::shared_ptr<const Processor> processor_of(const std::string& model, const std::string& name) {
  (void)check_sentencepiece(model, name);
  auto processor = std::make_shared<Processor>();
  const auto status = processor->LoadFromSerializedProto(model);
  require(status.ok(), "load_tokenizer", name, ": a SentencePiece model; ", status.ToString());
  return processor;
}

TemplatePiece end_piece(int32_t id) { return {TemplatePiece::Kind::special, {id}, 0}; }

void mark_special(MappedParts& parts) {
  parts.special_pieces.assign(parts.pieces.size(), false);
  for (const int32_t id : {parts.special.padding, parts.special.begin, parts.special.end, parts.special.unknown}) {
    if (id >= 0) parts.special_pieces[static_cast<size_t>(id)] = true;
  }
}

// Fills in pieces and special ids. Marian's and M2M100's texts begin with no special token.
void use_vocabulary(MappedParts& parts, TokenizerFiles& files, const char* vocabulary,
                    const Configuration& configuration) {
  const TokenTable table = read_vocabulary(files, vocabulary);
  for (int32_t id = 0; id < table.size(); ++id) parts.pieces.push_back(table.text(id));
  const auto id_of = [&](const std::optional<std::string>& given, std::string_view usual) {
    return table.find(given ? std::string_view(*given) : usual);
  };
  parts.special = {.padding = id_of(configuration.padding, "<pad>"),
                   .begin = -1,
                   .end = id_of(configuration.end, "</s>"),
                   .unknown = id_of(configuration.unknown, "<unk>")};
  require(parts.special.end >= 0 && parts.special.unknown >= 0, "load_tokenizer", files.quoted(vocabulary),
          ": the tokens </s> and <unk>; found not both");
}

// The ids of fairseq: the model's, moved behind <s>, <pad>, </s> and <unk>.
void use_moved_ids(MappedParts& parts) {
  parts.pieces = {"<s>", "<pad>", "</s>", "<unk>"};
  constexpr int kFirst = 3;  // the model's <unk>, <s> and </s> come before
  for (int id = kFirst; id < parts.processor->GetPieceSize(); ++id) {
    parts.pieces.push_back(parts.processor->IdToPiece(id));
  }
  parts.special = {.padding = 1, .begin = 0, .end = 2, .unknown = 3};
}

struct LanguageTokens {
  std::span<const std::string_view> names;
  std::string_view mark = {};        // on both sides of a name
  std::string_view usual = {};       // of a text, where the folder names none
  bool behind = false;               // the token stands behind </s>, not before the text
  std::string_view last_token = {};  // behind the languages
};

// Adds the tokens behind the pieces, and puts that of the source language around a text.
void add_languages(MappedParts& parts, const LanguageTokens& languages, TokenizerFiles& files,
                   const Configuration& configuration) {
  const size_t first = parts.pieces.size();
  const std::string mark(languages.mark);
  for (const std::string_view name : languages.names) {
    parts.pieces.push_back(mark + std::string(name) + mark);
    if (!mark.empty()) parts.not_in_text.insert(parts.pieces.back());  // M2M100's class does not look for them
  }
  if (!languages.last_token.empty()) parts.pieces.emplace_back(languages.last_token);
  mark_special(parts);
  std::fill(parts.special_pieces.begin() + static_cast<std::ptrdiff_t>(first), parts.special_pieces.end(), true);

  const std::string source = configuration.source_language.value_or(std::string(languages.usual));
  const auto found = std::find(languages.names.begin(), languages.names.end(), source);
  require(found != languages.names.end(), "load_tokenizer", files.quoted("tokenizer_config.json"),
          ": a \"src_lang\" that the model knows; found ", files::quoted(source));
  using Piece = TemplatePiece::Kind;
  const TemplatePiece language =
      end_piece(static_cast<int32_t>(first + static_cast<size_t>(found - languages.names.begin())));
  const TemplatePiece end = end_piece(parts.special.end);
  const auto around = [&](std::vector<TemplatePiece> text) {
    text.push_back(end);
    text.insert(languages.behind ? text.end() : text.begin(), language);
    return text;
  };
  parts.post_processor.single = around({{.kind = Piece::text}});
  parts.post_processor.pair = around({{.kind = Piece::text}, {.kind = Piece::pair}});
}

// Puts the tokens that the files add behind the pieces. transformers' slow tokenizers find them in a text before it is
// cut, and the special ones among the pieces as well.
class TokenAdder {
 public:
  TokenAdder(MappedParts& parts, const TokenizerFiles& files, const Configuration& configuration)
      : parts_(parts), configuration_(configuration), rows_(files.vocabulary_in_config()) {
    for (size_t id = 0; id < parts.pieces.size(); ++id) ids_.emplace(parts.pieces[id], static_cast<int32_t>(id));
  }

  void add_all() {
    std::vector<AddedToken> tokens = configuration_.added;
    std::ranges::sort(tokens, {}, &AddedToken::id);
    for (const AddedToken& token : tokens) add_with_id(token);
    for (const std::optional<AddedToken>& role : configuration_.roles) {
      if (role) add_special(*role);
    }
    for (const AddedToken& token : configuration_.further) add_special(token);
    for (size_t id = 0; id < parts_.pieces.size(); ++id) find_in_texts(static_cast<int32_t>(id));
  }

 private:
  int32_t append(const std::string& content) {
    const auto id = static_cast<int32_t>(parts_.pieces.size());
    ids_.emplace(content, id);
    parts_.pieces.push_back(content);
    parts_.special_pieces.push_back(false);
    return id;
  }

  void add_with_id(const AddedToken& token) {
    const auto found = ids_.find(token.content);
    const auto expected = found == ids_.end() ? static_cast<int32_t>(parts_.pieces.size()) : found->second;
    require(token.id == expected, "load_tokenizer", configuration_.added_file, ": the id ", expected, " for ",
            files::quoted(token.content), "; found ", token.id);
    if (found == ids_.end()) append(token.content);
    const auto place = static_cast<size_t>(token.id);
    parts_.special_pieces[place] = parts_.special_pieces[place] || token.special;
    named_[token.id] = token;
  }

  // One without an id: behind the others, if the model has a row for it.
  void add_special(const AddedToken& token) {
    if (token.content.empty()) return;
    const auto found = ids_.find(token.content);
    if (found == ids_.end() && rows_ >= 0 && std::ssize(parts_.pieces) >= rows_) return;
    const int32_t id = found == ids_.end() ? append(token.content) : found->second;
    parts_.special_pieces[static_cast<size_t>(id)] = true;
    if (!configuration_.added_have_flags || !named_.contains(id)) named_[id] = token;
  }

  void find_in_texts(int32_t id) {
    const std::string& content = parts_.pieces[static_cast<size_t>(id)];
    const auto named = named_.find(id);
    const bool special = parts_.special_pieces[static_cast<size_t>(id)];
    if (content.empty() || (!special && named == named_.end())) return;
    if (parts_.not_in_text.contains(content) && named == named_.end()) return;
    const std::optional<AddedToken>& mask = configuration_.roles[static_cast<size_t>(Role::mask)];
    AddedToken token = named == named_.end() ? special_token(content) : named->second;
    token.lstrip = token.lstrip || content == (mask ? mask->content : "<mask>");  // takes the space before it
    token.id = id;
    token.special = special;
    token.normalized = false;
    parts_.added.push_back(token);
  }

  MappedParts& parts_;
  const Configuration& configuration_;
  int64_t rows_;
  std::unordered_map<std::string, int32_t> ids_;
  std::map<int32_t, AddedToken> named_;
};

std::shared_ptr<const Tokenizer> finish(MappedParts parts, const TokenizerFiles& files,
                                        const Configuration& configuration) {
  TokenAdder(parts, files, configuration).add_all();
  if (!configuration.legacy) {
    const auto is_word = [](const AddedToken& token) { return !token.special; };
    require(std::ranges::none_of(parts.added, is_word), "load_tokenizer", configuration.class_file,
            ": \"legacy\": true where tokens are added that are not special; found false");
    parts.added.clear();
    parts.parses_special = false;
  }
  parts.truncation.from_left = configuration.cuts_left.value_or(false);
  parts.files = files.kept();
  return mapped_sentencepiece(std::move(parts));
}

}  // namespace

std::shared_ptr<const Tokenizer> read_marian(TokenizerFiles& files, Side side, const Configuration& configuration) {
  MappedParts parts;
  const char* const own = side == Side::source ? "source.spm" : "target.spm";
  const char* const other = side == Side::source ? "target.spm" : "source.spm";
  parts.processor = parts.decoder = processor_of(files.read(own), files.quoted(own));
  (void)check_sentencepiece(files.read(other), files.quoted(other));  // kept, to be written back
  // Two languages with a vocabulary each ("separate_vocabs"), or one for both.
  const bool apart = files.has("target_vocab.json");
  if (apart) (void)files.read("target_vocab.json");  // kept, to be written back
  if (apart && side == Side::target) (void)files.read("vocab.json");
  use_vocabulary(parts, files, apart && side == Side::target ? "target_vocab.json" : "vocab.json", configuration);
  mark_special(parts);
  using Piece = TemplatePiece::Kind;
  parts.post_processor.single = {{.kind = Piece::text}, end_piece(parts.special.end)};
  parts.post_processor.pair = {{.kind = Piece::text}, {.kind = Piece::pair}, end_piece(parts.special.end)};
  parts.language_codes = true;
  return finish(std::move(parts), files, configuration);
}

std::shared_ptr<const Tokenizer> read_m2m100(TokenizerFiles& files, std::string_view name,
                                             const Configuration& configuration) {
  const std::string codes = configuration.language_codes.value_or("m2m100");
  require(codes == "m2m100", "load_tokenizer", files.quoted("tokenizer_config.json"),
          ": \"language_codes\": \"m2m100\"; found ", files::quoted(codes));
  MappedParts parts;
  parts.processor = parts.decoder = processor_of(files.read(name), files.quoted(name));
  use_vocabulary(parts, files, "vocab.json", configuration);
  const auto empty = std::find(parts.pieces.begin(), parts.pieces.end(), "");
  require(empty == parts.pieces.end(), "load_tokenizer", files.quoted("vocab.json"),
          ": a token for every id up to the largest, because the languages come after it; found none for ",
          empty - parts.pieces.begin());
  add_languages(parts, {.names = languages_of_m2m100(), .mark = "__", .usual = "en"}, files, configuration);
  const auto begin = std::ranges::find(parts.pieces, configuration.begin.value_or("<s>"));  // around no text
  if (begin != parts.pieces.end()) parts.special_pieces[static_cast<size_t>(begin - parts.pieces.begin())] = true;
  return finish(std::move(parts), files, configuration);
}

std::shared_ptr<const Tokenizer> read_mbart(TokenizerFiles& files, std::string_view name, MBartKind kind,
                                            const Configuration& configuration) {
  MappedParts parts;
  parts.processor = parts.decoder = processor_of(files.read(name), files.quoted(name));
  use_moved_ids(parts);
  const bool fifty = kind == MBartKind::of_50_languages;
  add_languages(parts,
                {.names = fifty ? languages_of_mbart50() : languages_of_mbart(),
                 .usual = "en_XX",
                 .behind = !fifty,
                 .last_token = "<mask>"},
                files, configuration);
  return finish(std::move(parts), files, configuration);
}

namespace {

// What XLM-RoBERTa's and CamemBERT's have in common: the mask behind the pieces, and the tokens around a text.
// `unused`: ids that are special, too.
std::shared_ptr<const Tokenizer> finish_encoder(MappedParts parts, const TokenizerFiles& files,
                                                const Configuration& configuration,
                                                std::initializer_list<size_t> unused = {}) {
  parts.pieces.emplace_back("<mask>");
  mark_special(parts);
  parts.special_pieces.back() = true;
  for (const size_t id : unused) parts.special_pieces[id] = true;
  using Piece = TemplatePiece::Kind;
  const TemplatePiece begin = end_piece(parts.special.begin), end = end_piece(parts.special.end);
  parts.post_processor.single = {begin, {.kind = Piece::text}, end};
  parts.post_processor.pair = {begin, {.kind = Piece::text}, end, end, {.kind = Piece::pair}, end};
  return finish(std::move(parts), files, configuration);
}

}  // namespace

std::shared_ptr<const Tokenizer> read_xlm_roberta(TokenizerFiles& files, std::string_view name,
                                                  const Configuration& configuration) {
  MappedParts parts;
  parts.processor = parts.decoder = processor_of(files.read(name), files.quoted(name));
  use_moved_ids(parts);
  return finish_encoder(std::move(parts), files, configuration);
}

std::shared_ptr<const Tokenizer> read_camembert(TokenizerFiles& files, std::string_view name,
                                                const Configuration& configuration) {
  MappedParts parts;
  parts.processor = parts.decoder = processor_of(files.read(name), files.quoted(name));
  // Four tokens stand before the model's, whose own <unk> is the fifth. The class names three of them so.
  parts.pieces = {"<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"};
  for (int id = 1; id < parts.processor->GetPieceSize(); ++id) parts.pieces.push_back(parts.processor->IdToPiece(id));
  constexpr int32_t kMoved = 4;
  parts.special = {.padding = 1,
                   .begin = parts.processor->PieceToId("<s>") + kMoved,
                   .end = parts.processor->PieceToId("</s>") + kMoved,
                   .unknown = 3};
  require(parts.special.begin > kMoved && parts.special.end > kMoved && parts.processor->unk_id() == 0,
          "load_tokenizer", files.quoted(name),
          ": a model of CamemBERT, with the pieces <s> and </s>, and with <unk> as the first; found another");
  return finish_encoder(std::move(parts), files, configuration, {0, 2, 4});
}

namespace {

// 100 in T5's class, unless the files say otherwise or the model has no rows for them.
int64_t extra_ids(const MappedParts& parts, const TokenizerFiles& files, const Configuration& configuration) {
  if (configuration.extra_ids) return *configuration.extra_ids;
  const auto is_extra = [](const AddedToken& token) { return token.content.starts_with("<extra_id_"); };
  if (const auto listed = std::ranges::count_if(configuration.further, is_extra); listed > 0) return listed;
  if (std::ranges::any_of(configuration.added, is_extra)) return 0;  // they have their ids there
  constexpr int64_t kUsual = 100;
  const int64_t rows = files.vocabulary_in_config();
  return rows < 0 || std::ssize(parts.pieces) + kUsual <= rows ? kUsual : 0;
}

}  // namespace

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
  // T5's "sentinels": the last one has the first id.
  for (int64_t i = extra_ids(parts, files, configuration) - 1; i >= 0; --i) {
    parts.pieces.push_back("<extra_id_" + std::to_string(i) + ">");
    parts.special_pieces.push_back(true);
  }
  using Piece = TemplatePiece::Kind;
  parts.post_processor.single = {{.kind = Piece::text}};
  parts.post_processor.pair = {{.kind = Piece::text}, {.kind = Piece::pair}};
  if (parts.special.end >= 0) {
    const TemplatePiece end = end_piece(parts.special.end);
    parts.post_processor.single.push_back(end);
    parts.post_processor.pair = {{.kind = Piece::text}, end, {.kind = Piece::pair}, end};
  }
  return finish(std::move(parts), files, configuration);
}

}  // namespace heed::text::huggingface
