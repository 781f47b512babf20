// Vocabularies without a tokenizer.json: BERT's vocab.txt, and vocab.json with merges.txt of GPT-2 and RoBERTa.
#include <algorithm>

#include "base/files.h"
#include "text/huggingface/read_tokenizer.h"
#include "text/utf8.h"

namespace heed::text::huggingface {

namespace {

std::vector<std::string_view> lines_of(const std::string& text, const std::string& name) {
  const size_t valid = valid_utf8_prefix(text);
  require(valid == text.size(), "load_tokenizer", name, ": UTF-8; byte ", valid, " is not");
  std::vector<std::string_view> lines;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

// The usual token of a role, or the configuration's.
std::string token_for(Role role, const Configuration& configuration, const RoleTokens& usual) {
  const auto place = static_cast<size_t>(role);
  const std::optional<AddedToken>& named = configuration.roles[place] ? configuration.roles[place] : usual[place];
  return named ? named->content : "";
}

int32_t id_for(const TokenizerParts& parts, const TokenTable& tokens, std::string_view name) {
  const auto found = std::ranges::find(parts.added_tokens, name, &AddedToken::content);
  return found != parts.added_tokens.end() ? found->id : tokens.find(name);
}

// A special token around a text.
class SpecialPieces {
 public:
  SpecialPieces(const TokenizerParts& parts, const TokenTable& tokens, std::string file)
      : parts_(parts), tokens_(tokens), file_(std::move(file)) {}

  [[nodiscard]] TemplatePiece make(std::string_view name, int32_t segment = 0) const {
    const int32_t id = id_for(parts_, tokens_, name);
    require(id >= 0, "load_tokenizer", file_, ": the token ", files::quoted(name),
            ", which tokenizer_config.json or its class puts around a text; found none");
    return {TemplatePiece::Kind::special, {id}, segment};
  }

 private:
  const TokenizerParts& parts_;
  const TokenTable& tokens_;
  std::string file_;
};

constexpr TemplatePiece text_piece() { return {.kind = TemplatePiece::Kind::text}; }
constexpr TemplatePiece pair_piece(int32_t segment) { return {.kind = TemplatePiece::Kind::pair, .segment = segment}; }

// <s> text </s>, and between two texts </s> twice.
void surround_as_roberta(PostProcessor& processor, const TemplatePiece& begin, const TemplatePiece& end) {
  processor.single = {begin, text_piece(), end};
  processor.pair = {begin, text_piece(), end, end, pair_piece(0), end};
}

RoleTokens roles_of_roberta(std::string_view unknown) {
  // The mask takes the space before it, as a word does.
  return {special_token("<s>"),   special_token("</s>"), special_token(unknown),       special_token("</s>"),
          special_token("<pad>"), special_token("<s>"),  special_token("<mask>", true)};
}

RoleTokens roles_of_bert() {
  return {std::nullopt,           std::nullopt,           special_token("[UNK]"), special_token("[SEP]"),
          special_token("[PAD]"), special_token("[CLS]"), special_token("[MASK]")};
}

RoleTokens roles_of_gpt2() {
  const AddedToken end = special_token("<|endoftext|>");
  return {end, end, end, std::nullopt, std::nullopt, std::nullopt, std::nullopt};
}

// GPT-2 has nothing around a text unless the configuration asks for it.
void surround_as_gpt2(PostProcessor& processor, const SpecialPieces& pieces, const Configuration& configuration,
                      const RoleTokens& usual) {
  const auto around = [&](std::vector<TemplatePiece>& made, const TemplatePiece& text) {
    if (configuration.add_begin)
      made.push_back(pieces.make(token_for(Role::begin, configuration, usual), text.segment));
    made.push_back(text);
    if (configuration.add_end) made.push_back(pieces.make(token_for(Role::end, configuration, usual), text.segment));
  };
  processor.single.clear();
  around(processor.single, text_piece());
  processor.pair = processor.single;
  around(processor.pair, pair_piece(1));
}

}  // namespace

RoleTokens usual_roles(std::string_view class_name) {
  if (is_bert_class(class_name)) return roles_of_bert();
  if (class_name == "MPNetTokenizer") return roles_of_roberta("[UNK]");
  if (is_roberta_class(class_name) || class_name == "BertweetTokenizer") return roles_of_roberta("<unk>");
  if (class_name == "GPT2Tokenizer") return roles_of_gpt2();
  return {};
}

std::optional<PostProcessor> surroundings(std::string_view class_name, const TokenizerParts& parts,
                                          const TokenTable& tokens, const Configuration& configuration,
                                          const std::string& file) {
  const bool is_bert = is_bert_class(class_name), is_mpnet = class_name == "MPNetTokenizer";
  if (!is_bert && !is_mpnet && !is_roberta_class(class_name)) return std::nullopt;
  const RoleTokens usual = usual_roles(class_name);
  const SpecialPieces pieces(parts, tokens, file);
  const auto piece = [&](Role role, int32_t segment = 0) {
    return pieces.make(token_for(role, configuration, usual), segment);
  };
  const TemplatePiece begin = piece(Role::classifier), end = piece(Role::separator);
  PostProcessor made;
  if (is_bert) {
    made.single = {begin, text_piece(), end};
    made.pair = {begin, text_piece(), end, pair_piece(1), piece(Role::separator, 1)};
  } else {
    surround_as_roberta(made, begin, end);
    if (configuration.trims_offsets) made.trims = {{.add_prefix_space = !is_mpnet && configuration.add_prefix_space}};
  }
  return made;
}

std::shared_ptr<const Tokenizer> read_wordpiece(TokenizerFiles& files, std::string_view name,
                                                const Configuration& configuration, WordPieceKind kind) {
  const std::string file = files.quoted(name);
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (std::string_view line : lines_of(files.read(name), file)) {
    while (line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
    tokens.emplace_back(line, static_cast<int32_t>(tokens.size()));
  }
  require(!tokens.empty(), "load_tokenizer", file, ": a token on each line; found none");
  TokenTable table(std::move(tokens), file);
  const std::string_view class_name = kind == WordPieceKind::bert ? "BertTokenizer" : "MPNetTokenizer";
  const RoleTokens usual = usual_roles(class_name);
  const auto named = [&](Role role) { return token_for(role, configuration, usual); };
  TokenizerParts parts;
  add_configured_tokens(parts.added_tokens, configuration, table, usual, RolesBeyond::counted);
  parts.post_processor = surroundings(class_name, parts, table, configuration, file).value();
  parts.normalizer = bert_normalizer({.handle_chinese_chars = configuration.split_chinese,
                                      .strip_accents = configuration.strip_accents,
                                      .lowercase = configuration.lowercase});
  parts.pre_tokenizers.push_back(bert_pre_tokenizer());
  parts.special.padding = id_for(parts, table, named(Role::padding));
  require(!configuration.unknown || table.find(*configuration.unknown) >= 0, "load_tokenizer", file,
          ": the unknown token that tokenizer_config.json or special_tokens_map.json names, ",
          files::quoted(configuration.unknown.value_or("")), "; found none");
  parts.model = wordpiece_model(std::move(table), {.unknown = named(Role::unknown)}, file);
  parts.decoders.push_back(wordpiece_decoder("##", true));
  use_input_names(parts, files, configuration);
  use_configuration(parts, configuration, class_name);
  parts.files = files.kept();
  return std::make_shared<HuggingFaceTokenizer>(std::move(parts));
}

TokenTable read_vocabulary(TokenizerFiles& files, std::string_view vocabulary) {
  const std::string name = files.quoted(vocabulary);
  const io::JsonValue& document = files.read_json(vocabulary);
  require(document.is(io::JsonValue::Kind::object), "load_tokenizer", name, ": an object; found ",
          name_of(document.kind));
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (const auto& [text, id] : document.members) {
    if (!id.is(io::JsonValue::Kind::integer) || id.integer < 0 || id.integer > INT32_MAX)
      fail("load_tokenizer", name, ": an id for each token; found another value for ", files::quoted(text));
    tokens.emplace_back(text, static_cast<int32_t>(id.integer));
  }
  require(!tokens.empty(), "load_tokenizer", name, ": tokens; found none");
  return TokenTable(std::move(tokens), name);
}

std::shared_ptr<const Tokenizer> read_byte_level_bpe(TokenizerFiles& files, std::string_view vocabulary,
                                                     std::string_view merges, const Configuration& configuration,
                                                     BpeKind kind) {
  const std::string file = files.quoted(vocabulary), merges_file = files.quoted(merges);
  TokenTable table = read_vocabulary(files, vocabulary);
  MergePairs pairs;
  for (const std::string_view line : lines_of(files.read(merges), merges_file)) {
    if (line.starts_with("#version") || line.empty()) continue;
    const size_t space = line.find(' ');
    require(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos, "load_tokenizer",
            merges_file, ": two tokens with a space between them on each line; found another line, ", pairs.size() + 1);
    pairs.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  const bool is_roberta = kind == BpeKind::roberta || (kind == BpeKind::by_vocabulary && table.find("<s>") >= 0 &&
                                                       table.find("</s>") >= 0 && table.find("<mask>") >= 0);
  const bool as_bytes = has_all_bytes(table);
  const RoleTokens usual = usual_roles(is_roberta ? "RobertaTokenizer" : "GPT2Tokenizer");
  const auto named = [&](Role role) { return token_for(role, configuration, usual); };
  TokenizerParts parts;
  add_configured_tokens(parts.added_tokens, configuration, table, usual, RolesBeyond::counted);
  if (is_roberta) {
    parts.post_processor = surroundings("RobertaTokenizer", parts, table, configuration, file).value();
    parts.special.padding = id_for(parts, table, named(Role::padding));
  } else {
    surround_as_gpt2(parts.post_processor, SpecialPieces(parts, table, file), configuration, usual);
  }
  parts.pre_tokenizers.push_back(
      byte_level_pre_tokenizer({.add_prefix_space = configuration.add_prefix_space, .as_bytes = as_bytes}));
  parts.model = bpe_model(std::move(table), pairs, {.as_bytes = as_bytes}, merges_file);
  parts.decoders.push_back(byte_level_decoder());
  Configuration with_names = configuration;
  if (!is_roberta && !with_names.begin) with_names.begin = "<|endoftext|>";
  if (!is_roberta && !with_names.end) with_names.end = "<|endoftext|>";
  if (is_roberta && !with_names.unknown) with_names.unknown = "<unk>";
  use_configuration(parts, with_names, is_roberta ? "RobertaTokenizer" : "GPT2Tokenizer");
  parts.files = files.kept();
  return std::make_shared<HuggingFaceTokenizer>(std::move(parts));
}

}  // namespace heed::text::huggingface
