#include "text/huggingface/write_tokenizer.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/sha256.h"
#include "formats/json.h"
#include "text/protobuf.h"
#include "text/utf8.h"

namespace heed::text::huggingface {
namespace {

using io::Json;

constexpr const char* kWriter = "save_tokenizer";
constexpr int64_t kMostBytes = int64_t{1} << 28;
constexpr const char* kNoToken = "\n";  // what no token of a line begins with

// Of a SentencePiece model, by the numbers of sentencepiece_model.proto.
struct SentencePieceParts {
  enum class Type : uint64_t { unigram = 1, bpe = 2 };
  enum class Kind : uint64_t { normal = 1, unknown = 2, control = 3, byte = 6 };
  struct Piece {
    std::string spelling;
    float score = 0;
    Kind kind = Kind::normal;
  };

  std::vector<Piece> pieces;
  Type type = Type::unigram;
  std::string_view characters, characters_of_decoder;  // its maps, or empty
  bool begins_with_space = true, drops_spaces = true, falls_back_to_bytes = false;
  bool has_spaces = false;       // as they are
  bool ends_with_space = false;  // a word does, where others begin with one
};

SentencePieceParts::Piece read_piece(files::Reader reader) {
  SentencePieceParts::Piece piece;
  while (reader.remaining() > 0) {
    const ProtobufField field = next_field(reader);
    if (field.number == 1 && field.wire == 2) piece.spelling = field.bytes;
    if (field.number == 2 && field.wire == 5) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
    if (field.number == 3 && field.wire == 0) piece.kind = static_cast<SentencePieceParts::Kind>(field.value);
  }
  return piece;
}

void read_trainer_spec(files::Reader reader, SentencePieceParts& parts) {
  while (reader.remaining() > 0) {
    const ProtobufField field = next_field(reader);
    if (field.wire != 0) continue;
    if (field.number == 3) parts.type = static_cast<SentencePieceParts::Type>(field.value);
    if (field.number == 24) parts.ends_with_space = field.value != 0;
    if (field.number == 35) parts.falls_back_to_bytes = field.value != 0;
  }
}

void read_normalizer_spec(files::Reader reader, SentencePieceParts& parts) {
  while (reader.remaining() > 0) {
    const ProtobufField field = next_field(reader);
    if (field.number == 2 && field.wire == 2) parts.characters = field.bytes;
    if (field.wire != 0) continue;
    if (field.number == 3) parts.begins_with_space = field.value != 0;
    if (field.number == 4) parts.drops_spaces = field.value != 0;
    if (field.number == 5) parts.has_spaces = field.value == 0;
  }
}

// `model` must live as long as what is returned.
SentencePieceParts read_parts_of(std::string_view model, const std::string& name) {
  SentencePieceParts parts;
  files::Reader reader(model, name, kWriter);
  while (reader.remaining() > 0) {
    const ProtobufField field = next_field(reader);
    if (field.wire != 2) continue;
    const files::Reader inner(field.bytes, name, kWriter);
    if (field.number == 1) parts.pieces.push_back(read_piece(inner));
    if (field.number == 2) read_trainer_spec(inner, parts);
    if (field.number == 3) read_normalizer_spec(inner, parts);
    if (field.number == 5) {
      SentencePieceParts of_decoder;
      read_normalizer_spec(inner, of_decoder);
      parts.characters_of_decoder = of_decoder.characters;
    }
  }
  return parts;
}

bool is_normal(const SentencePieceParts::Piece& piece) { return piece.kind == SentencePieceParts::Kind::normal; }

// SentencePiece also merges characters that are no pieces, and it merges the leftmost pair first where scores are
// equal. A list of merges can say neither.
bool merges_have_form(const std::vector<SentencePieceParts::Piece>& pieces) {
  std::set<std::string_view> known;
  std::set<float> scores;
  for (const auto& piece : pieces)
    if (is_normal(piece)) known.insert(piece.spelling);
  for (const auto& piece : pieces) {
    const std::string_view spelling = piece.spelling;
    if (!is_normal(piece) || code_point_size(spelling) == spelling.size()) continue;
    if (!scores.insert(piece.score).second) return false;
    for (size_t at = 0, size = 0; at < spelling.size(); at += size) {
      size = code_point_size(spelling.substr(at));
      if (!known.contains(spelling.substr(at, size))) return false;
    }
  }
  return true;
}

// Whether tokenizer.json can say what this model does.
bool has_form(const SentencePieceParts& parts, const Tokenizer& tokenizer) {
  using Kind = SentencePieceParts::Kind;
  using Type = SentencePieceParts::Type;
  if (parts.type != Type::unigram && parts.type != Type::bpe) return false;
  if (parts.has_spaces || parts.ends_with_space || !parts.characters_of_decoder.empty()) return false;
  const std::string two_marks = std::string(kSpaceMark) + std::string(kSpaceMark);
  for (size_t id = 0; id < parts.pieces.size(); ++id) {
    const auto& piece = parts.pieces[id];
    if (valid_utf8_prefix(piece.spelling) != piece.spelling.size() || piece.spelling.empty()) return false;
    // decode() takes one mark of each piece at the beginning of a text.
    if (parts.drops_spaces && piece.spelling.find(two_marks) != std::string::npos) return false;
    switch (piece.kind) {
      case Kind::normal:
        if (piece.spelling.find(' ') != std::string::npos) return false;  // a merge is two pieces with a space between
        break;
      case Kind::byte:
        // A unigram model would find "<0x41>" in texts.
        if (parts.type == Type::unigram) return false;
        break;
      case Kind::unknown:
      case Kind::control:
        if (!is_special(static_cast<int32_t>(id), tokenizer.special())) return false;
        break;
      default: return false;  // one that users defined, or that is not in use
    }
  }
  return parts.type == Type::unigram || merges_have_form(parts.pieces);
}

Json replacement(const char* kind, std::string_view pattern, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

// What SentencePiece does before it cuts: spaces at the ends go, runs become one, one is put in front.
Json normalizer_of(const SentencePieceParts& parts) {
  Json steps = Json::array();
  if (!parts.characters.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(parts.characters)}});
  if (parts.drops_spaces) {
    steps.push_back(replacement("Regex", "\\A +", ""));
    // At the end, its own mark is a space, too. Only the beginning of a run is tried: each of its places would take a
    // time that grows with its square.
    steps.push_back(replacement("Regex", "(?<![ \u2581])[ \u2581]+\\z", ""));
    steps.push_back(replacement("Regex", " {2,}", " "));
  }
  if (parts.begins_with_space) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(replacement("String", " ", kSpaceMark));
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

Json decoder_of(const SentencePieceParts& parts) {
  constexpr int64_t kAll = 1 << 20;
  Json steps = Json::array({replacement("String", kSpaceMark, " ")});
  if (parts.falls_back_to_bytes) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (parts.begins_with_space || parts.drops_spaces)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", parts.drops_spaces ? kAll : 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

// Id by token, in the order of the ids; none where a token comes twice, or is not UTF-8.
std::optional<Json> vocabulary_of(const Tokenizer& tokenizer) {
  Json object = Json::object();
  auto& members = object.get_ref<Json::object_t&>();  // by its own way in, each token is compared with all others
  std::set<std::string> known;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string token = tokenizer.piece(id);
    if (!known.insert(token).second || valid_utf8_prefix(token) != token.size()) return std::nullopt;
    members.push_back({token, id});
  }
  return object;
}

// SentencePiece merges what gives the piece of the largest score. tokenizer.json has a list of pairs instead: every way
// to put a piece together from two others.
Json merges_of(const std::vector<SentencePieceParts::Piece>& pieces) {
  std::set<std::string_view> ids;
  for (const auto& piece : pieces)
    if (is_normal(piece)) ids.insert(piece.spelling);
  struct Merge {
    std::string_view left, right;
    float score;
  };
  std::vector<Merge> merges;
  for (const auto& piece : pieces) {
    if (!is_normal(piece)) continue;
    const std::string_view spelling = piece.spelling;
    for (size_t at = 1; at < spelling.size(); ++at) {
      const std::string_view left = spelling.substr(0, at), right = spelling.substr(at);
      if (ids.contains(left) && ids.contains(right)) merges.push_back({left, right, piece.score});
    }
  }
  std::ranges::stable_sort(merges, [](const Merge& a, const Merge& b) { return a.score > b.score; });
  Json list = Json::array();
  for (const Merge& merge : merges) list.push_back(std::string(merge.left) + " " + std::string(merge.right));
  return list;
}

struct Core {
  Json normalizer, pre_tokenizer, model, decoder;
};

std::optional<Core> sentencepiece_core(const Tokenizer& tokenizer, const std::filesystem::path& file) {
  const std::string bytes = files::read_all(file, kMostBytes, kWriter);
  const SentencePieceParts parts = read_parts_of(bytes, files::quoted(file));
  std::optional<Json> vocabulary = vocabulary_of(tokenizer);
  if (!vocabulary || !has_form(parts, tokenizer)) return std::nullopt;
  const int32_t unknown = tokenizer.special().unknown;
  Core core{.normalizer = normalizer_of(parts), .pre_tokenizer = nullptr, .model = {}, .decoder = decoder_of(parts)};
  if (parts.type == SentencePieceParts::Type::unigram) {
    Json list = Json::array();
    for (const auto& piece : parts.pieces) list.push_back(Json::array({piece.spelling, piece.score}));
    core.model = {{"type", "Unigram"},
                  {"unk_id", unknown},
                  {"vocab", std::move(list)},
                  {"byte_fallback", parts.falls_back_to_bytes}};
  } else {
    core.model = {{"type", "BPE"},
                  {"dropout", nullptr},
                  {"unk_token", tokenizer.piece(unknown)},
                  {"continuing_subword_prefix", nullptr},
                  {"end_of_word_suffix", nullptr},
                  {"fuse_unk", true},
                  {"byte_fallback", parts.falls_back_to_bytes},
                  {"vocab", std::move(*vocabulary)},
                  {"merges", merges_of(parts.pieces)}};
  }
  return core;
}

std::optional<Core> vocabulary_core(const Tokenizer& tokenizer) {
  std::optional<Json> vocabulary = vocabulary_of(tokenizer);
  if (!vocabulary || tokenizer.special().unknown < 0) return std::nullopt;
  const bool characters = tokenizer.kind() == "characters";
  if (!characters) {
    for (int32_t id = 0; id < tokenizer.vocabulary(); ++id)
      if (tokenizer.piece(id).starts_with(kNoToken)) return std::nullopt;
  }
  Core core{.normalizer = nullptr,
            .pre_tokenizer = {{"type", "Split"},
                              {"pattern", {{characters ? "Regex" : "String", characters ? "[\\s\\S]" : " "}}},
                              {"behavior", characters ? "Isolated" : "Removed"},
                              {"invert", false}},
            .model = {{"type", "WordLevel"},
                      {"vocab", std::move(*vocabulary)},
                      {"unk_token", tokenizer.piece(tokenizer.special().unknown)}},
            .decoder = {{"type", "Fuse"}}};
  if (!characters) {  // a space before each token but the first, and none behind "@@"
    core.decoder = {{"type", "Sequence"},
                    {"decoders",
                     {{{"type", "WordPiece"}, {"prefix", kNoToken}, {"cleanup", false}},
                      {{"type", "Fuse"}},
                      replacement("Regex", "@@( |\\z)", "")}}};
  }
  return core;
}

// The special tokens around $A, and around a pair.
Json post_processor_of(const Tokenizer& tokenizer, Around around) {
  const SpecialIds special = tokenizer.special();
  std::vector<int32_t> before, behind;
  if (around == Around::both && special.begin >= 0) before.push_back(special.begin);
  if (around != Around::none && special.end >= 0) behind.push_back(special.end);
  if (before.empty() && behind.empty()) return nullptr;
  Json ids = Json::object();
  const auto add = [&](Json& list, const std::vector<int32_t>& tokens) {
    for (const int32_t id : tokens) {
      const std::string token = tokenizer.piece(id);
      list.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      ids[token] = {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
    }
  };
  Json single = Json::array(), pair = Json::array();
  add(single, before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(single, behind);
  pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 0}}}});
  add(pair, behind);
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(ids)}};
}

// transformers finds special tokens in texts: no word should be one.
bool is_in_brackets(std::string_view token) {
  return token.size() > 2 &&
         ((token.starts_with('<') && token.ends_with('>')) || (token.starts_with('[') && token.ends_with(']')));
}

}  // namespace

bool write_tokenizer(const Tokenizer& tokenizer, const std::filesystem::path& folder, Side side,
                     const WrittenTokenizer& written) {
  const SpecialIds special = tokenizer.special();
  const bool is_sentencepiece = tokenizer.kind() == "sentencepiece";
  if (!is_sentencepiece && tokenizer.kind() != "characters" && tokenizer.kind() != "pieces") return false;
  if (!written.mask.empty() && tokenizer.id_of(written.mask)) return false;
  for (const int32_t id : {special.padding, special.begin, special.end, special.unknown})
    if (id >= 0 && !is_in_brackets(tokenizer.piece(id))) return false;
  std::optional<Core> core = is_sentencepiece
                                 ? sentencepiece_core(tokenizer, tokenizer_file(folder, side, kSentencePieceEnding))
                                 : vocabulary_core(tokenizer);
  if (!core) return false;

  std::map<int32_t, std::string> found_in_texts;
  Json settings = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto role = [&](const char* name, int32_t id, const std::string& token) {
    settings[name] = token;
    found_in_texts.emplace(id, token);
  };
  const auto role_of = [&](const char* name, int32_t id) {
    if (id >= 0) role(name, id, tokenizer.piece(id));
  };
  role_of("pad_token", special.padding);
  role_of("bos_token", special.begin);
  role_of("eos_token", special.end);
  role_of("unk_token", special.unknown);
  if (written.around == Around::both) {
    role_of("cls_token", special.begin);
    role_of("sep_token", special.end);
  }
  if (!written.mask.empty()) role("mask_token", static_cast<int32_t>(tokenizer.vocabulary()), written.mask);
  settings["model_max_length"] = written.longest;
  settings["padding_side"] = "right";
  settings["clean_up_tokenization_spaces"] = false;
  settings["model_input_names"] = Json::array({"input_ids", "attention_mask"});

  Json added = Json::array();
  for (const auto& [id, token] : found_in_texts) {
    added.push_back({{"id", id},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer", std::move(core->normalizer)},
                     {"pre_tokenizer", std::move(core->pre_tokenizer)},
                     {"post_processor", post_processor_of(tokenizer, written.around)},
                     {"decoder", std::move(core->decoder)},
                     {"model", std::move(core->model)}};
  files::write_atomically(folder / "tokenizer.json", io::json_text(file) + "\n", kWriter);
  files::write_atomically(folder / "tokenizer_config.json", io::json_text(settings, 2) + "\n", kWriter);
  return true;
}

}  // namespace heed::text::huggingface
