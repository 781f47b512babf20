// tokenizer_config.json and what stands beside it: the tokenizer's class, its flags, and its special and added tokens.
#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "base/files.h"
#include "text/huggingface/read_tokenizer.h"

namespace heed::text::huggingface {

namespace {

using io::JsonValue;
using Kind = io::JsonValue::Kind;

constexpr const char* kConfiguration = "tokenizer_config.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kAddedTokens = "added_tokens.json";
constexpr int32_t kMostIds = 1 << 24;
constexpr int64_t kMostExtraIds = 1 << 16;

constexpr std::string_view kKeys[kRoles] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

AddedToken read_token(const Fields& f) {
  return {.content = f.text("content"),
          .single_word = f.flag_or("single_word", false),
          .lstrip = f.flag_or("lstrip", false),
          .rstrip = f.flag_or("rstrip", false),
          .normalized = f.flag_or("normalized", !f.flag_or("special", false)),
          .special = f.flag_or("special", false)};
}

AddedToken read_special(const Fields& f) {
  AddedToken made = read_token(f);
  made.special = true;
  made.normalized = f.flag_or("normalized", false);
  return made;
}

// "x", {"content": "x"} or nothing.
std::optional<AddedToken> read_special_under(const Fields& f, std::string_view key) {
  const JsonValue* const found = f.find(key);
  if (found == nullptr) return std::nullopt;
  if (found->is(Kind::object)) return read_special(f.object(key));
  return special_token(f.text(key));
}

std::optional<std::string> read_text(const Fields& f, std::string_view key) {
  if (f.find(key) == nullptr) return std::nullopt;
  return f.text(key);
}

// A list, or an object that says what each token is for.
void read_further(std::vector<AddedToken>& made, const Fields& f, std::string_view key) {
  const JsonValue* const found = f.find(key);
  if (found == nullptr) return;
  if (found->is(Kind::object)) {
    const Fields tokens = f.object(key);
    for (const auto& [purpose, value] : found->members) {
      if (const auto token = read_special_under(tokens, purpose)) made.push_back(*token);
    }
    return;
  }
  for (const JsonValue& item : f.get(key, Kind::array).items) {
    if (item.is(Kind::object)) {
      made.push_back(read_special(Fields(item, f.file(), std::string(key))));
    } else if (item.is(Kind::text)) {
      made.push_back(special_token(item.text));
    } else {
      f.refuse(key, "texts or objects; found another value");
    }
  }
}

int32_t read_id(const Fields& f, const std::string& text) {
  int32_t id = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || stop != end || id < 0 || id >= kMostIds)
    f.refuse("", "ids as keys; found ", files::quoted(text));
  return id;
}

// "added_tokens_decoder": {"58": {"content": "x", ...}}
void read_decoder_of_added(Configuration& made, const Fields& f) {
  const Fields tokens = f.object("added_tokens_decoder");
  for (const auto& [id, value] : f.get("added_tokens_decoder", Kind::object).members) {
    made.added.push_back(read_token(Fields(value, f.file(), tokens.place() + "." + id)));
    made.added.back().id = read_id(tokens, id);
  }
  made.added_have_flags = true;
  made.added_file = f.file();
}

// added_tokens.json: {"x": 58}
void read_added(Configuration& made, TokenizerFiles& files) {
  const JsonValue& document = files.read_json(kAddedTokens);
  const Fields f(document, files.quoted(kAddedTokens), "");
  for (const auto& member : document.members) {
    JsonValue alone;  // looking a member up takes time linear in the number of members
    alone.kind = Kind::object;
    alone.members = {member};
    const int64_t id = Fields(alone, f.file(), "").whole(member.first, 0, kMostIds - 1);
    made.added.push_back({.content = member.first, .id = static_cast<int32_t>(id)});
  }
  made.added_file = f.file();
}

void read_flags(Configuration& made, const Fields& f) {
  made.tokenizer_class = f.text_or("tokenizer_class", "");
  made.lowercase = f.flag_or("do_lower_case", true);
  made.split_chinese = f.flag_or("tokenize_chinese_chars", true);
  made.add_prefix_space = f.flag_or("add_prefix_space", false);
  made.trims_offsets = f.flag_or("trim_offsets", true);
  made.add_begin = f.flag_or("add_bos_token", false);
  made.add_end = f.flag_or("add_eos_token", false);
  made.source_language = read_text(f, "src_lang");
  made.language_codes = read_text(f, "language_codes");
  made.language_behind = f.flag_or("legacy_behaviour", false);
  made.legacy = f.flag_or("legacy", true);
  if (f.find("extra_ids") != nullptr) made.extra_ids = f.whole("extra_ids", 0, kMostExtraIds);
  if (f.find("truncation_side") != nullptr) made.cuts_left = f.one_of("truncation_side", {"right", "left"}) == 1;
  if (f.find("model_input_names") != nullptr) {
    made.with_segments = std::ranges::any_of(f.get("model_input_names", Kind::array).items, [](const JsonValue& name) {
      return name.is(Kind::text) && name.text == "token_type_ids";
    });
  }
  if (f.find("strip_accents") != nullptr) made.strip_accents = f.flag("strip_accents");
}

// "foo_token": a special token of one model.
bool is_further_token(std::string_view key, const JsonValue& value) {
  return key.ends_with("_token") && value.is(Kind::text) && std::ranges::find(kKeys, key) == std::end(kKeys);
}

std::set<std::string_view> special_contents(const Configuration& configuration) {
  std::set<std::string_view> contents;
  for (const auto& token : configuration.roles)
    if (token) contents.insert(token->content);
  for (const AddedToken& token : configuration.further) contents.insert(token.content);
  return contents;
}

// The special tokens of one of the two files. Those of the one that is read last take the place of the others; so does
// its list of further ones.
void read_special_tokens(Configuration& made, const Fields& f, const JsonValue& document) {
  for (size_t role = 0; role < kRoles; ++role) {
    if (const auto token = read_special_under(f, kKeys[role])) made.roles[role] = token;
  }
  std::vector<AddedToken> further;
  for (const auto& [key, value] : document.members) {
    if (is_further_token(key, value)) further.push_back(special_token(value.text));
  }
  const size_t before = further.size();
  read_further(further, f, "extra_special_tokens");
  if (further.size() == before) read_further(further, f, "additional_special_tokens");  // the older name
  if (!further.empty()) made.further = std::move(further);
}

std::vector<AddedToken> by_id(std::vector<AddedToken> tokens) {
  std::ranges::sort(tokens, {}, &AddedToken::id);
  return tokens;
}

// Unless the vocabulary has the token, its id is the next one.
void require_id_behind(const Configuration& configuration, const AddedToken& token, const TokenTable& tokens,
                       int32_t next) {
  const int32_t known = tokens.find(token.content), expected = known >= 0 ? known : next;
  require(token.id == expected, "load_tokenizer", configuration.added_file, ": the id ", expected, " for ",
          files::quoted(token.content), known >= 0 ? ", as in the vocabulary" : ", the next one behind the vocabulary",
          "; found ", token.id);
}

}  // namespace

AddedToken special_token(std::string_view content, bool lstrip) {
  return {.content = std::string(content), .lstrip = lstrip, .normalized = false, .special = true};
}

Configuration read_configuration(TokenizerFiles& files) {
  Configuration made;
  made.class_file = files.quoted(kConfiguration);
  if (files.has(kConfiguration)) {
    const JsonValue& document = files.read_json(kConfiguration);
    const Fields f(document, files.quoted(kConfiguration), "");
    read_flags(made, f);
    read_special_tokens(made, f, document);
    if (f.find("added_tokens_decoder") != nullptr) read_decoder_of_added(made, f);
  }
  // Where tokenizer_config.json has the added tokens, it is newer than the two other files, and transformers leaves
  // those alone.
  const bool older = made.added_file.empty();
  if (older && files.has(kSpecialTokens)) {
    const JsonValue& document = files.read_json(kSpecialTokens);
    read_special_tokens(made, Fields(document, files.quoted(kSpecialTokens), ""), document);
  }
  if (older && files.has(kAddedTokens)) read_added(made, files);
  const std::set<std::string_view> special = special_contents(made);
  for (AddedToken& token : made.added) {
    if (!special.contains(token.content)) continue;
    if (older) token.normalized = false;
    token.special = true;
  }
  if (made.tokenizer_class.empty()) {
    made.tokenizer_class = files.in_config("tokenizer_class");
    if (!made.tokenizer_class.empty()) made.class_file = files.quoted("config.json");
  }
  const auto name_of = [&](Role role) {
    const std::optional<AddedToken>& token = made.roles[static_cast<size_t>(role)];
    return token ? std::optional(token->content) : std::nullopt;
  };
  const auto either = [&](Role first, Role second) { return name_of(first) ? name_of(first) : name_of(second); };
  made.padding = name_of(Role::padding);
  made.begin = either(Role::begin, Role::classifier);
  made.end = either(Role::end, Role::separator);
  made.unknown = name_of(Role::unknown);
  return made;
}

std::string class_name(const Configuration& configuration) {
  std::string name = configuration.tokenizer_class;
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast) && name != "PreTrainedTokenizerFast") name.resize(name.size() - kFast.size());
  return name;
}

std::string usual_class(const TokenizerFiles& files, const Configuration& configuration) {
  if (std::string name = class_name(configuration); !name.empty()) return name;
  constexpr std::pair<std::string_view, std::string_view> kUsual[] = {
      {"bart", "BartTokenizer"},       {"bert", "BertTokenizer"},       {"camembert", "CamembertTokenizer"},
      {"distilbert", "BertTokenizer"}, {"electra", "BertTokenizer"},    {"gpt2", "GPT2Tokenizer"},
      {"mpnet", "MPNetTokenizer"},     {"roberta", "RobertaTokenizer"}, {"xlm-roberta", "XLMRobertaTokenizer"}};
  const std::string type = files.in_config("model_type");
  for (const auto& [model, name] : kUsual) {
    if (model == type) return std::string(name);
  }
  return "";
}

bool is_bert_class(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "BertTokenizer",       "ConvBertTokenizer",   "DPRContextEncoderTokenizer", "DPRQuestionEncoderTokenizer",
      "DistilBertTokenizer", "ElectraTokenizer",    "LayoutLMTokenizer",          "LxmertTokenizer",
      "MobileBertTokenizer", "SqueezeBertTokenizer"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool is_roberta_class(std::string_view name) {
  constexpr std::string_view kNames[] = {"BartTokenizer", "LEDTokenizer", "LongformerTokenizer", "MvpTokenizer",
                                         "RobertaTokenizer"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

void add_configured_tokens(std::vector<AddedToken>& made, const Configuration& configuration, const TokenTable& tokens,
                           const RoleTokens& usual, RolesBeyond beyond) {
  int32_t next = tokens.size();
  for (const AddedToken& token : made) next = std::max(next, token.id + 1);
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < made.size(); ++i) places.emplace(made[i].content, i);
  const auto find = [&](const AddedToken& token) {
    const auto found = places.find(token.content);
    return found == places.end() ? made.end() : made.begin() + static_cast<std::ptrdiff_t>(found->second);
  };
  const auto is_there = [&](const AddedToken& token) { return places.contains(token.content); };
  const auto is_new = [&](const AddedToken& token) { return !is_there(token) && tokens.find(token.content) < 0; };
  const auto add = [&](AddedToken token) {
    if (token.content.empty() || is_there(token)) return;
    token.id = tokens.find(token.content);
    if (token.id < 0) token.id = next++;
    places.emplace(token.content, made.size());
    made.push_back(std::move(token));
  };
  for (const AddedToken& token : by_id(configuration.added)) {
    if (const auto own = find(token); own != made.end()) {  // the flags of tokenizer_config.json take precedence
      const int32_t id = own->id;
      if (configuration.added_have_flags) *own = token;
      own->id = id;
      continue;
    }
    require_id_behind(configuration, token, tokens, next);
    add(token);
  }
  // A role's token that the vocabulary lacks matters where other ids follow it.
  const bool is_followed = std::ranges::any_of(configuration.further, is_new);
  for (size_t role = 0; role < kRoles; ++role) {
    const std::optional<AddedToken>& named = configuration.roles[role];
    if (!named && !usual[role]) continue;
    AddedToken token = named ? *named : *usual[role];
    const bool always = named && beyond == RolesBeyond::counted;
    if (!always && !is_followed && is_new(token)) continue;
    token.lstrip = token.lstrip || (usual[role] && usual[role]->lstrip);
    add(std::move(token));
  }
  std::set<std::string_view> by_file;
  for (const AddedToken& token : configuration.added) by_file.insert(token.content);
  for (const AddedToken& token : configuration.further) {
    const auto own = find(token);
    const bool lacks_flags = own != made.end() && !configuration.added_have_flags && by_file.contains(token.content);
    if (!lacks_flags) {
      add(token);
      continue;
    }
    const int32_t id = own->id;  // added_tokens.json has ids alone
    *own = token;
    own->id = id;
  }
}

}  // namespace heed::text::huggingface
