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

// Those of `names` that the vocabulary has, as special tokens.
std::vector<AddedToken> special_tokens_of(const TokenTable& tokens, const std::vector<std::string>& names) {
  std::vector<AddedToken> made;
  for (const std::string& name : names) {
    const int32_t id = tokens.find(name);
    if (id >= 0) made.push_back({.content = name, .id = id, .normalized = false, .special = true});
  }
  return made;
}

TemplatePiece special_piece(const TokenTable& tokens, std::string_view name, int32_t segment, const std::string& file) {
  const int32_t id = tokens.find(name);
  require(id >= 0, "load_tokenizer", file, ": the token ", name, "; found none");
  return {TemplatePiece::Kind::special, {id}, segment};
}

}  // namespace

std::shared_ptr<const Tokenizer> read_wordpiece(TokenizerFiles& files, std::string_view name,
                                                const Configuration& configuration) {
  const std::string file = files.quoted(name);
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (std::string_view line : lines_of(files.read(name), file)) {
    while (line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
    tokens.emplace_back(line, static_cast<int32_t>(tokens.size()));
  }
  require(!tokens.empty(), "load_tokenizer", file, ": a token on each line; found none");
  TokenTable table(std::move(tokens), file);
  using Piece = TemplatePiece::Kind;
  TokenizerParts parts;
  parts.added_tokens = special_tokens_of(table, {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"});
  parts.post_processor.single = {
      special_piece(table, "[CLS]", 0, file), {.kind = Piece::text}, special_piece(table, "[SEP]", 0, file)};
  parts.post_processor.pair = parts.post_processor.single;
  parts.post_processor.pair.push_back({.kind = Piece::pair, .segment = 1});
  parts.post_processor.pair.push_back(special_piece(table, "[SEP]", 1, file));
  parts.normalizer = bert_normalizer({.handle_chinese_chars = configuration.split_chinese,
                                      .strip_accents = configuration.strip_accents,
                                      .lowercase = configuration.lowercase});
  parts.pre_tokenizers.push_back(bert_pre_tokenizer());
  parts.special.padding = table.find("[PAD]");
  parts.model = wordpiece_model(std::move(table), {}, file);
  parts.decoders.push_back(wordpiece_decoder("##", true));
  use_configuration(parts, configuration);
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
    require(id.is(io::JsonValue::Kind::integer) && id.integer >= 0 && id.integer <= INT32_MAX, "load_tokenizer", name,
            ": an id for each token; found another value for ", files::quoted(text));
    tokens.emplace_back(text, static_cast<int32_t>(id.integer));
  }
  require(!tokens.empty(), "load_tokenizer", name, ": tokens; found none");
  return TokenTable(std::move(tokens), name);
}

std::shared_ptr<const Tokenizer> read_byte_level_bpe(TokenizerFiles& files, std::string_view vocabulary,
                                                     std::string_view merges, const Configuration& configuration) {
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
  const bool is_roberta = table.find("<s>") >= 0 && table.find("</s>") >= 0 && table.find("<mask>") >= 0;
  const bool as_bytes = has_all_bytes(table);
  TokenizerParts parts;
  using Piece = TemplatePiece::Kind;
  if (is_roberta) {
    parts.added_tokens = special_tokens_of(table, {"<s>", "<pad>", "</s>", "<unk>"});
    parts.added_tokens.push_back(
        {.content = "<mask>", .id = table.find("<mask>"), .lstrip = true, .normalized = false, .special = true});
    const TemplatePiece begin = special_piece(table, "<s>", 0, file), end = special_piece(table, "</s>", 0, file);
    parts.post_processor.single = {begin, {.kind = Piece::text}, end};
    parts.post_processor.pair = {begin, {.kind = Piece::text}, end, end, {.kind = Piece::pair}, end};
    parts.special.padding = table.find("<pad>");
  } else {
    parts.added_tokens = special_tokens_of(table, {"<|endoftext|>"});
  }
  parts.post_processor.trims = {{.add_prefix_space = configuration.add_prefix_space}};
  parts.pre_tokenizers.push_back(
      byte_level_pre_tokenizer({.add_prefix_space = configuration.add_prefix_space, .as_bytes = as_bytes}));
  parts.model = bpe_model(std::move(table), pairs, {.as_bytes = as_bytes}, merges_file);
  parts.decoders.push_back(byte_level_decoder());
  Configuration with_names = configuration;
  if (!is_roberta && !with_names.begin) with_names.begin = "<|endoftext|>";
  if (!is_roberta && !with_names.end) with_names.end = "<|endoftext|>";
  if (is_roberta && !with_names.unknown) with_names.unknown = "<unk>";
  use_configuration(parts, with_names);
  parts.files = files.kept();
  return std::make_shared<HuggingFaceTokenizer>(std::move(parts));
}

}  // namespace heed::text::huggingface
