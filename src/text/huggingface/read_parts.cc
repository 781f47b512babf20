#include "text/huggingface/read_parts.h"

#include <array>

#include "base/files.h"

namespace heed::text::huggingface {

namespace {

using io::JsonValue;
using Kind = io::JsonValue::Kind;

// Sequences inside of sequences; the JSON that they stand in is bounded too.
constexpr int kDeepestSequence = 8;

std::vector<Fields> flattened(const Fields& fields, std::string_view key, int depth = 0) {
  std::vector<Fields> made;
  if (depth > kDeepestSequence) fields.refuse("type", "sequences at most 8 deep; found more");
  for (const Fields& part : fields.objects(key)) {
    if (part.text("type") == "Sequence") {
      for (const Fields& inner : flattened(part, key, depth + 1)) made.push_back(inner);
    } else {
      made.push_back(part);
    }
  }
  return made;
}

// A component that is a sequence as its parts, and any other one by itself.
std::vector<Fields> parts_of(const Fields& fields, std::string_view key) {
  if (fields.text("type") == "Sequence") return flattened(fields, key);
  return {fields};
}

// {"String": ...} or {"Regex": ...}
struct Pattern {
  std::string text = {};
  std::unique_ptr<const Regex> expression = {};
};

Pattern read_pattern(const Fields& fields) {
  const Fields pattern = fields.object("pattern");
  if (pattern.find("Regex") != nullptr) {
    return {.expression = std::make_unique<Regex>(pattern.text("Regex"), pattern.name("Regex"))};
  }
  // PyPI's `tokenizers` finds an empty text between all characters.
  if (pattern.text("String").empty()) pattern.refuse("String", "a text; found an empty one");
  return {.text = pattern.text("String")};
}

NormalizerPointer read_one_normalizer(const Fields& f) {
  switch (f.one_of("type", {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents",
                            "Replace", "Prepend", "Nmt", "Precompiled", "ByteLevel", "Sequence"})) {
    case 0: {
      BertNormalizerOptions options{.clean_text = f.flag("clean_text"),
                                    .handle_chinese_chars = f.flag("handle_chinese_chars"),
                                    .lowercase = f.flag("lowercase")};
      if (f.find("strip_accents") != nullptr) options.strip_accents = f.flag("strip_accents");
      return bert_normalizer(options);
    }
    case 1: return form_normalizer(NormalForm::nfc);
    case 2: return form_normalizer(NormalForm::nfd);
    case 3: return form_normalizer(NormalForm::nfkc);
    case 4: return form_normalizer(NormalForm::nfkd);
    case 5: return lowercase_normalizer();
    case 6: return strip_normalizer(f.flag("strip_left"), f.flag("strip_right"));
    case 7: return strip_accents_normalizer();
    case 8: {
      Pattern pattern = read_pattern(f);
      if (pattern.expression) return replace_normalizer(std::move(pattern.expression), f.text("content"));
      return replace_normalizer(std::move(pattern.text), f.text("content"));
    }
    case 9: return prepend_normalizer(f.text("prepend"));
    case 10: return nmt_normalizer();
    case 11: {
      const std::string name = f.name("precompiled_charsmap");
      return character_map_normalizer(from_base64(f.text("precompiled_charsmap"), name), name);
    }
    default: return byte_level_normalizer();
  }
}

Delimiters read_delimiters(const Fields& f, std::string_view key) {
  constexpr Delimiters kAll[] = {Delimiters::removed, Delimiters::isolated, Delimiters::merged_with_previous,
                                 Delimiters::merged_with_next, Delimiters::contiguous};
  return kAll[f.one_of(key, {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"})];
}

Prepend read_prepend(const Fields& f) {
  Prepend scheme = Prepend::always;
  if (f.find("prepend_scheme") != nullptr) {
    constexpr Prepend kAll[] = {Prepend::first, Prepend::never, Prepend::always};
    scheme = kAll[f.one_of("prepend_scheme", {"first", "never", "always"})];
  }
  if (!f.flag_or("add_prefix_space", true)) {  // how files say it that are older than the schemes
    if (f.find("prepend_scheme") != nullptr && scheme != Prepend::never) {
      f.refuse("prepend_scheme", "never, because add_prefix_space is false; found another scheme");
    }
    scheme = Prepend::never;
  }
  return scheme;
}

PreTokenizerPointer read_one_pre_tokenizer(const Fields& f, bool leaves_bytes) {
  switch (f.one_of("type", {"BertPreTokenizer", "ByteLevel", "Metaspace", "Split", "Digits", "Punctuation",
                            "Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "Sequence"})) {
    case 0: return bert_pre_tokenizer();
    case 1:
      return byte_level_pre_tokenizer({.add_prefix_space = f.flag("add_prefix_space"),
                                       .use_regex = f.flag_or("use_regex", true),
                                       .as_bytes = leaves_bytes});
    case 2:
      return metaspace_pre_tokenizer(
          {.replacement = f.character("replacement"), .prepend = read_prepend(f), .split = f.flag_or("split", true)});
    case 3: {
      Pattern pattern = read_pattern(f);
      return split_pre_tokenizer({.expression = std::move(pattern.expression),
                                  .text = std::move(pattern.text),
                                  .delimiters = read_delimiters(f, "behavior"),
                                  .invert = f.flag("invert")});
    }
    case 4: return digits_pre_tokenizer(f.flag("individual_digits") ? Delimiters::isolated : Delimiters::contiguous);
    case 5:
      return punctuation_pre_tokenizer(f.find("behavior") == nullptr ? Delimiters::isolated
                                                                     : read_delimiters(f, "behavior"));
    case 6: return whitespace_pre_tokenizer();
    case 7: return whitespace_split_pre_tokenizer();
    default: return character_pre_tokenizer(character_at(f.character("delimiter"), 0).code_point);
  }
}

Ids read_ids(const Fields& f) {
  Ids ids;
  for (const JsonValue& id : f.get("ids", Kind::array).items) {
    if (!id.is(Kind::integer) || id.integer < 0 || id.integer > INT32_MAX) f.refuse("ids", "ids; found something else");
    ids.push_back(static_cast<int32_t>(id.integer));
  }
  return ids;
}

std::vector<TemplatePiece> read_template(const Fields& f, std::string_view key) {
  std::vector<TemplatePiece> pieces;
  const Fields tokens = f.object("special_tokens");
  for (const Fields& item : f.objects(key)) {
    TemplatePiece piece;
    if (const auto text = item.object_if_any("Sequence")) {
      const bool is_pair = text->one_of("id", {"A", "B"}) == 1;
      if (is_pair && key == "single") text->refuse("id", "A, because there is one text; found B");
      piece.kind = is_pair ? TemplatePiece::Kind::pair : TemplatePiece::Kind::text;
      piece.segment = static_cast<int32_t>(text->whole("type_id", 0, INT32_MAX));
    } else {
      const Fields special = item.object("SpecialToken");
      piece.kind = TemplatePiece::Kind::special;
      piece.ids = read_ids(tokens.object(special.text("id")));
      piece.segment = static_cast<int32_t>(special.whole("type_id", 0, INT32_MAX));
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

DecoderPointer read_one_decoder(const Fields& f) {
  switch (f.one_of("type", {"WordPiece", "ByteLevel", "Metaspace", "BPEDecoder", "ByteFallback", "Fuse", "Strip",
                            "Replace", "Sequence"})) {
    case 0: return wordpiece_decoder(f.text("prefix"), f.flag("cleanup"));
    case 1: return byte_level_decoder();
    case 2: return metaspace_decoder(f.character("replacement"), read_prepend(f));
    case 3:
      if (f.text("suffix").empty()) f.refuse("suffix", "the end of words; found an empty text");
      return bpe_decoder(f.text("suffix"));
    case 4: return byte_fallback_decoder();
    case 5: return fuse_decoder();
    case 6: return strip_decoder(f.character("content"), f.whole("start", 0, INT32_MAX), f.whole("stop", 0, INT32_MAX));
    default: {
      Pattern pattern = read_pattern(f);
      if (pattern.expression) return replace_decoder(std::move(pattern.expression), f.text("content"));
      return replace_decoder(std::move(pattern.text), f.text("content"));
    }
  }
}

}  // namespace

NormalizerPointer read_normalizer(const Fields& fields) {
  std::vector<NormalizerPointer> parts;
  for (const Fields& part : parts_of(fields, "normalizers")) parts.push_back(read_one_normalizer(part));
  return parts.size() == 1 ? std::move(parts[0]) : sequence_normalizer(std::move(parts));
}

PreTokenizerReading read_pre_tokenizer(const Fields& fields, bool may_leave_bytes) {
  PreTokenizerReading made;
  const std::vector<Fields> parts = parts_of(fields, "pretokenizers");
  made.leaves_bytes = may_leave_bytes && !parts.empty() && parts.back().text("type") == "ByteLevel";
  for (const Fields& part : parts) {
    const bool is_last = &part == &parts.back();
    made.parts.push_back(read_one_pre_tokenizer(part, is_last && made.leaves_bytes));
  }
  return made;
}

std::vector<DecoderPointer> read_decoder(const Fields& fields) {
  std::vector<DecoderPointer> made;
  for (const Fields& part : parts_of(fields, "decoders")) made.push_back(read_one_decoder(part));
  if (made.empty()) made.push_back(fuse_decoder());  // a sequence of nothing: not even spaces come between tokens
  return made;
}

std::string from_base64(std::string_view text, const std::string& name) {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < kDigits.size(); ++i) values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  require(text.size() % 4 == 0, "load_tokenizer", name, ": base64 in groups of 4 characters; found ", text.size());
  size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int8_t value = values[static_cast<uint8_t>(c)];
    require(value >= 0, "load_tokenizer", name, ": base64; found another character");
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

PostProcessor read_post_processor(const Fields& fields) {
  PostProcessor made;
  bool has_template = false;
  for (const Fields& f : parts_of(fields, "processors")) {
    size_t type =
        f.one_of("type", {"TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence"});
    // Without these keys PyPI's `tokenizers` takes it for BERT's.
    if (type == 2 && (f.find("trim_offsets") == nullptr || f.find("add_prefix_space") == nullptr)) type = 1;
    if ((type == 2 || type == 3) && f.flag_or("trim_offsets", true)) {
      made.trims.push_back({.add_prefix_space = f.flag_or("add_prefix_space", true)});
    }
    if (type == 3) continue;
    if (has_template) f.refuse("type", "one post-processor that adds tokens; found another");
    has_template = true;
    if (type == 0) {
      made.single = read_template(f, "single");
      made.pair = read_template(f, "pair");
      continue;
    }
    const auto special = [&](std::string_view key, int32_t segment) {
      const auto& pair = f.get(key, Kind::array).items;
      if (pair.size() != 2 || !pair[0].is(Kind::text) || !pair[1].is(Kind::integer) || pair[1].integer < 0 ||
          pair[1].integer > INT32_MAX) {
        f.refuse(key, "a token and its id; found something else");
      }
      return TemplatePiece{TemplatePiece::Kind::special, {static_cast<int32_t>(pair[1].integer)}, segment};
    };
    using Piece = TemplatePiece::Kind;
    made.single = {special("cls", 0), {.kind = Piece::text}, special("sep", 0)};
    made.pair = made.single;
    if (type == 2) made.pair.push_back(special("sep", 0));
    made.pair.push_back({.kind = Piece::pair, .segment = type == 2 ? 0 : 1});
    made.pair.push_back(special("sep", type == 2 ? 0 : 1));
  }
  return made;
}

}  // namespace heed::text::huggingface
