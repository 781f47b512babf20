#include "text/huggingface/read_tokenizer.h"

#include <algorithm>

#include "base/files.h"
#include "heed/io.h"
#include "text/huggingface/read_parts.h"

namespace heed::text::huggingface {

namespace {

using Kind = io::JsonValue::Kind;

constexpr int64_t kMostBytesOfFile = int64_t{1} << 28;
constexpr std::string_view kRead = "load_tokenizer";

std::vector<AddedToken> read_added_tokens(const Fields& f, const TokenTable& tokens) {
  std::vector<AddedToken> made;
  int32_t next = tokens.count();  // the id that PyPI's `tokenizers` gives to a new token, whatever the file says
  if (f.find("added_tokens") == nullptr) return made;
  for (const Fields& token : f.objects("added_tokens")) {
    AddedToken added{.content = token.text("content"),
                     .id = static_cast<int32_t>(token.whole("id", 0, (1 << 24) - 1)),
                     .single_word = token.flag("single_word"),
                     .lstrip = token.flag("lstrip"),
                     .rstrip = token.flag("rstrip"),
                     .normalized = token.flag("normalized"),
                     .special = token.flag("special")};
    if (added.content.empty()) token.refuse("content", "a token; found an empty text");
    const int32_t known = tokens.find(added.content);
    if (known >= 0 && known != added.id) token.refuse("id", "the id of the vocabulary, ", known, "; found ", added.id);
    if (known < 0 && tokens.has(added.id)) {
      token.refuse("id", "an id that no other token has; found ", added.id, ", which is ",
                   files::quoted(tokens.text(added.id)));
    }
    if (known < 0 && added.id != next) {
      token.refuse("id", next, ", because new tokens are numbered in their order behind the vocabulary; found ",
                   added.id);
    }
    next = std::max(next, added.id + 1);
    made.push_back(std::move(added));
  }
  std::vector<std::string_view> sorted;
  for (const AddedToken& token : made) sorted.emplace_back(token.content);
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) f.refuse("added_tokens", "each token once; found ", files::quoted(*twice), " twice");
  return made;
}

// transformers takes the direction only: how much is read, tokenizer_config.json and the model say.
Truncation read_truncation(const Fields& f) {
  Truncation made;
  (void)f.whole("max_length", 0, INT64_MAX);
  (void)f.whole_or("stride", 0, INT64_MAX, 0);
  (void)f.one_of("strategy", {"LongestFirst", "OnlyFirst", "OnlySecond"});
  if (f.find("direction") != nullptr) made.from_left = f.one_of("direction", {"Right", "Left"}) == 1;
  return made;
}

void check_ids(const PostProcessor& processor, int64_t vocabulary, const Fields& f) {
  for (const auto* pieces : {&processor.single, &processor.pair}) {
    for (const TemplatePiece& piece : *pieces) {
      for (const int32_t id : piece.ids) {
        if (id >= vocabulary) f.refuse("post_processor", "ids below ", vocabulary, "; found ", id);
      }
    }
  }
}

}  // namespace

bool TokenizerFiles::has(std::string_view name) const {
  std::error_code ignored;
  return std::filesystem::exists(folder_ / name, ignored);
}

std::string TokenizerFiles::in_config(std::string_view key) const {
  if (!has("config.json")) return "";
  const std::string name = quoted("config.json");
  const io::JsonValue document = io::parse_json_document(io::read_file(folder_ / "config.json"), name, kRead);
  return Fields(document, name, "").text_or(key, "");
}

int64_t TokenizerFiles::vocabulary_in_config() const {
  if (!has("config.json")) return -1;
  const std::string name = quoted("config.json");
  const io::JsonValue document = io::parse_json_document(io::read_file(folder_ / "config.json"), name, kRead);
  return Fields(document, name, "").whole_or("vocab_size", 0, INT32_MAX, -1);
}

std::string TokenizerFiles::quoted(std::string_view name) const { return files::quoted(folder_ / name); }

const std::string& TokenizerFiles::read(std::string_view name) {
  const auto found = bytes_.find(name);
  if (found != bytes_.end()) return found->second;
  return bytes_.emplace(name, files::read_all(folder_ / name, kMostBytesOfFile, kRead)).first->second;
}

const io::JsonValue& TokenizerFiles::read_json(std::string_view name) {
  const auto found = documents_.find(name);
  if (found != documents_.end()) return found->second;
  return documents_.emplace(name, io::parse_json_document(read(name), quoted(name), kRead)).first->second;
}

void TokenizerFiles::keep_class(std::string_view name) {
  std::string& bytes = bytes_["tokenizer_config.json"];
  if (bytes.find("\"tokenizer_class\"") != std::string::npos) return;  // null
  const size_t begin = bytes.find('{'), first = bytes.find_first_not_of(" \t\r\n", begin + 1);
  const std::string member = "\"tokenizer_class\": \"" + std::string(name) + "\"";
  if (begin == std::string::npos) {
    bytes = "{" + member + "}\n";
  } else {
    bytes.insert(begin + 1, member + (bytes[first] == '}' ? "" : ", "));
  }
}

std::vector<KeptFile> TokenizerFiles::kept() const {
  std::vector<KeptFile> made;
  for (const auto& [name, bytes] : bytes_) made.push_back({name, bytes});
  return made;
}

void use_configuration(TokenizerParts& parts, const Configuration& configuration, std::string_view class_name) {
  const auto id_of = [&](const std::optional<std::string>& token) {
    if (!token) return -1;
    for (const AddedToken& added : parts.added_tokens) {
      if (added.content == *token) return added.id;
    }
    return parts.model->tokens().find(*token);
  };
  SpecialIds& special = parts.special;
  const auto& pieces = parts.post_processor.single;
  const std::optional<AddedToken> usual = usual_roles(class_name)[static_cast<size_t>(Role::padding)];
  const std::optional<std::string> padding =
      configuration.padding || !usual ? configuration.padding : std::optional(usual->content);
  if (const int32_t id = id_of(padding); id >= 0) special.padding = id;
  special.begin = id_of(configuration.begin);
  special.end = id_of(configuration.end);
  special.unknown = id_of(configuration.unknown);
  if (special.begin < 0 && !pieces.empty() && !pieces.front().ids.empty()) special.begin = pieces.front().ids.front();
  if (special.end < 0 && !pieces.empty() && !pieces.back().ids.empty()) special.end = pieces.back().ids.back();
  if (special.unknown < 0) special.unknown = parts.model->unknown();
  if (configuration.cuts_left) parts.truncation.from_left = *configuration.cuts_left;
}

namespace {

// NLLB's files of before 2023 have the language behind </s>. transformers puts it before the text, whatever the file
// says, unless "legacy_behaviour" is true; and it is that of "src_lang", or English.
void put_language_first(PostProcessor& processor, int32_t language) {
  using Piece = TemplatePiece::Kind;
  for (std::vector<TemplatePiece>* const pieces : {&processor.single, &processor.pair}) {
    Ids behind;
    while (!pieces->empty() && pieces->back().kind == Piece::special) {
      behind.insert(behind.begin(), pieces->back().ids.begin(), pieces->back().ids.end());
      pieces->pop_back();
    }
    const bool begins_with_text = !pieces->empty() && pieces->front().kind != Piece::special;
    if (behind.size() == 2 && begins_with_text) {
      pieces->insert(pieces->begin(), {.kind = Piece::special, .ids = {behind[1]}});
      behind.pop_back();
    }
    if (!behind.empty()) pieces->push_back({.kind = Piece::special, .ids = behind});
    if (language >= 0 && !pieces->empty() && pieces->front().ids.size() == 1) pieces->front().ids = {language};
  }
}

// As transformers does for mBART, and for NLLB with "legacy_behaviour", whatever the file says: the language behind
// </s>, or before the text.
void put_language_around(PostProcessor& processor, int32_t language, int32_t end, bool behind) {
  using Piece = TemplatePiece::Kind;
  const TemplatePiece at_end = {.kind = Piece::special, .ids = {end}},
                      mark = {.kind = Piece::special, .ids = {language}};
  processor.single = {{.kind = Piece::text}, at_end};
  processor.pair = {{.kind = Piece::text}, {.kind = Piece::pair}, at_end};
  for (std::vector<TemplatePiece>* const pieces : {&processor.single, &processor.pair})
    pieces->insert(behind ? pieces->end() : pieces->begin(), mark);
}

int32_t token_id(const TokenizerParts& parts, std::string_view token) {
  for (const AddedToken& added : parts.added_tokens) {
    if (added.content == token) return added.id;
  }
  return parts.model->tokens().find(token);
}

// Puts the token of the source language where the class has it.
void use_language(TokenizerParts& parts, const TokenizerFiles& files, const Configuration& configuration) {
  std::string name = class_name(configuration);
  // mBART-50 has the same model_type, so that it decides only where a language is asked for.
  if (name.empty() && configuration.source_language && files.in_config("model_type") == "mbart")
    name = "MBartTokenizer";
  const bool is_mbart = name == "MBartTokenizer" || name == "MBart50Tokenizer";
  if (!is_mbart && name != "NllbTokenizer") return;
  const std::optional<std::string>& asked = configuration.source_language;
  const int32_t language = token_id(parts, asked.value_or(is_mbart ? "en_XX" : "eng_Latn"));
  require(!asked || language >= 0, kRead, files.quoted("tokenizer_config.json"),
          ": a \"src_lang\" that the tokenizer has a token for; found ", files::quoted(asked.value_or("")));
  if (!is_mbart && !configuration.language_behind) {
    put_language_first(parts.post_processor, language);
    return;
  }
  const std::string end_token = configuration.end.value_or("</s>");
  const int32_t end = token_id(parts, end_token);
  if (language < 0) return;
  require(end >= 0, kRead, files.quoted("tokenizer.json"), ": the token ", files::quoted(end_token), "; found none");
  put_language_around(parts.post_processor, language, end, name != "MBart50Tokenizer");
}

// transformers reads these models' tokenizer.json as it is, whatever the class.
bool is_read_as_it_is(const TokenizerFiles& files) {
  const std::string type = files.in_config("model_type");
  return type == "modernbert" || type == "umt5";
}

// A copy of the tokenizer may have the config.json of another model beside it.
void keep_class(TokenizerFiles& files, const Configuration& configuration) {
  if (configuration.class_file != files.quoted("tokenizer_config.json") || configuration.tokenizer_class.empty())
    files.keep_class(usual_class(files, configuration));
}

// What sentence-transformers writes for a model whose texts it makes lower-case: Lowercase, and BERT's normalizer.
bool has_lowercase_before_bert(const Fields& normalizer) {
  if (normalizer.text("type") != "Sequence") return false;
  const std::vector<Fields> parts = normalizer.objects("normalizers");
  return parts.size() == 2 && parts[0].text("type") == "Lowercase" && parts[1].text("type") == "BertNormalizer";
}

// transformers makes the normalizer of BERT's classes from tokenizer_config.json, and from the usual flags where that
// says nothing.
void use_flags_of_bert(NormalizerPointer& normalizer, const Fields& f, TokenizerFiles& files,
                       const Configuration& configuration) {
  const std::string name = usual_class(files, configuration);
  if ((!is_bert_class(name) && name != "MPNetTokenizer") || is_read_as_it_is(files)) return;
  const auto part = f.object_if_any("normalizer");
  const bool is_bert = part && part->text("type") == "BertNormalizer";
  if (!is_bert && !(part && configuration.lowercase && has_lowercase_before_bert(*part))) {
    if (configuration.tokenizer_class.empty()) return;
    f.refuse("normalizer", "a BertNormalizer, which transformers makes for the \"tokenizer_class\" ",
             files::quoted(configuration.tokenizer_class), "; found ",
             part ? files::quoted(part->text("type")) : "none",
             ". If tokenizer.json is right, write PreTrainedTokenizerFast under \"tokenizer_class\" in ",
             configuration.class_file);
  }
  normalizer = bert_normalizer({.handle_chinese_chars = configuration.split_chinese,
                                .strip_accents = configuration.strip_accents,
                                .lowercase = configuration.lowercase});
  keep_class(files, configuration);
}

// "add_prefix_space" of the classes of RoBERTa and GPT-2, and RoBERTa's "trim_offsets", in the same way.
void use_prefix_space(TokenizerParts& parts, const Fields& pre_tokenizer, bool as_bytes, TokenizerFiles& files,
                      const Configuration& configuration) {
  const std::string name = usual_class(files, configuration);
  if ((!is_roberta_class(name) && name != "GPT2Tokenizer") || is_read_as_it_is(files)) return;
  if (pre_tokenizer.text("type") != "ByteLevel") return;
  parts.pre_tokenizers.clear();
  parts.pre_tokenizers.push_back(byte_level_pre_tokenizer({.add_prefix_space = configuration.add_prefix_space,
                                                           .use_regex = pre_tokenizer.flag_or("use_regex", true),
                                                           .as_bytes = as_bytes}));
  if (is_roberta_class(name)) {
    parts.post_processor.trims.clear();
    if (configuration.trims_offsets)
      parts.post_processor.trims.push_back({.add_prefix_space = configuration.add_prefix_space});
  }
  keep_class(files, configuration);
}

// Tokens that say where a text begins and ends and what it lacks. A unigram model has them among its pieces, and a text
// that has their letters must not end there. (T5's <extra_id_0> and others are of use within a text.)
std::vector<int32_t> marks_of(const std::vector<AddedToken>& tokens, const Configuration& configuration) {
  constexpr std::string_view kUsual[] = {"<s>",   "</s>",  "<pad>", "<unk>", "<mask>",
                                         "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"};
  std::vector<int32_t> ids;
  for (const AddedToken& token : tokens) {
    const bool is_role = std::ranges::any_of(configuration.roles,
                                             [&](const auto& role) { return role && role->content == token.content; });
    if (token.special && (is_role || std::ranges::find(kUsual, token.content) != std::end(kUsual)))
      ids.push_back(token.id);
  }
  return ids;
}

// transformers 5 puts around texts what the class says. Older versions did what the file says, so that nobody can know
// what the model was trained with where the two differ.
void use_surroundings(TokenizerParts& parts, const Fields& f, TokenizerFiles& files,
                      const Configuration& configuration) {
  const std::string name = usual_class(files, configuration);
  // A tokenizer of one's own, with words as tokens for example, may stand in a folder of these models.
  const char* const kind = is_roberta_class(name) ? "bpe" : "wordpiece";
  if (is_read_as_it_is(files) || parts.model->kind() != kind) return;
  const auto made = surroundings(name, parts, parts.model->tokens(), configuration, files.quoted("tokenizer.json"));
  if (!made) return;
  if (!f.object_if_any("post_processor")) {
    parts.post_processor = *made;
    keep_class(files, configuration);
    return;
  }
  // The token types of a pair count for BERT alone: the other models have one.
  const auto same = [&](const TemplatePiece& a, const TemplatePiece& b) {
    return a.kind == b.kind && a.ids == b.ids && (a.segment == b.segment || !is_bert_class(name));
  };
  if (!std::ranges::equal(made->single, parts.post_processor.single, same) ||
      !std::ranges::equal(made->pair, parts.post_processor.pair, same)) {
    f.refuse("post_processor", "the tokens around a text that transformers makes for the \"tokenizer_class\" ",
             files::quoted(name),
             "; found others. If tokenizer.json is right, write PreTrainedTokenizerFast under "
             "\"tokenizer_class\" in ",
             files.quoted("tokenizer_config.json"));
  }
}

}  // namespace

void use_input_names(TokenizerParts& parts, TokenizerFiles& files, const Configuration& configuration) {
  const std::string name = usual_class(files, configuration);
  constexpr std::string_view kWithout[] = {"RobertaTokenizer", "XLMRobertaTokenizer", "CamembertTokenizer",
                                           "MPNetTokenizer",   "DistilBertTokenizer", "TokenizersBackend"};
  if (configuration.with_segments.value_or(std::ranges::find(kWithout, name) == std::end(kWithout))) return;
  bool had_some = false;
  for (auto* const pieces : {&parts.post_processor.single, &parts.post_processor.pair}) {
    for (TemplatePiece& piece : *pieces) {
      had_some = had_some || piece.segment != 0;
      piece.segment = 0;
    }
  }
  if (had_some && !configuration.with_segments) keep_class(files, configuration);
}

std::shared_ptr<const Tokenizer> read_tokenizer_json(TokenizerFiles& files, std::string_view name) {
  const Fields f(files.read_json(name), files.quoted(name), "");
  if (f.find("version") != nullptr && f.text("version") != "1.0") {
    f.refuse("version", "1.0; found ", files::quoted(f.text("version")));
  }
  const Configuration configuration = read_configuration(files);
  TokenizerParts parts;
  if (const auto normalizer = f.object_if_any("normalizer")) parts.normalizer = read_normalizer(*normalizer);
  const Fields model = f.object("model");
  ModelReading reading = begin_model(model);
  parts.added_tokens = read_added_tokens(f, reading.tokens);
  // transformers counts every token that the configuration names. A model has no row for one that no file gives an id.
  add_configured_tokens(parts.added_tokens, configuration, reading.tokens,
                        usual_roles(usual_class(files, configuration)), RolesBeyond::where_followed);
  int64_t vocabulary = reading.tokens.size();
  for (const AddedToken& token : parts.added_tokens) vocabulary = std::max<int64_t>(vocabulary, token.id + 1);
  bool as_bytes = false;
  if (const auto pre_tokenizer = f.object_if_any("pre_tokenizer")) {
    PreTokenizerReading read = read_pre_tokenizer(*pre_tokenizer, reading.may_read_bytes);
    parts.pre_tokenizers = std::move(read.parts);
    as_bytes = read.leaves_bytes;
  }
  parts.model = finish_model(model, std::move(reading), as_bytes);
  if (const auto processor = f.object_if_any("post_processor")) {
    parts.post_processor = read_post_processor(*processor);
    check_ids(parts.post_processor, vocabulary, f);
  }
  if (const auto decoder = f.object_if_any("decoder")) parts.decoders = read_decoder(*decoder);
  if (const auto truncation = f.object_if_any("truncation")) parts.truncation = read_truncation(*truncation);
  if (const auto padding = f.object_if_any("padding")) {
    parts.special.padding = static_cast<int32_t>(padding->whole("pad_id", 0, vocabulary - 1));
  }
  if (const auto pre_tokenizer = f.object_if_any("pre_tokenizer"))
    use_prefix_space(parts, *pre_tokenizer, as_bytes, files, configuration);
  if (parts.model->kind() == "wordpiece") use_flags_of_bert(parts.normalizer, f, files, configuration);
  use_surroundings(parts, f, files, configuration);
  use_input_names(parts, files, configuration);
  use_language(parts, files, configuration);
  use_configuration(parts, configuration, usual_class(files, configuration));
  parts.model->hide(marks_of(parts.added_tokens, configuration));
  parts.files = files.kept();
  return std::make_shared<HuggingFaceTokenizer>(std::move(parts));
}

}  // namespace heed::text::huggingface
