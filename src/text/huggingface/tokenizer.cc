#include "text/huggingface/tokenizer.h"

#include <algorithm>

#include "base/files.h"
#include "heed/error.h"
#include "text/tokenizers.h"
#include "text/utf8.h"

namespace heed::text::huggingface {

namespace {

// A space or the character that stands for it in byte-level vocabularies.
bool is_space_of_token(int32_t c) {
  constexpr int32_t kByteLevelSpace = 0x120;
  return c == kByteLevelSpace || is_whitespace(c);
}

Encoded::Spaces spaces_of(std::string_view token) {
  size_t leading = 0, trailing = 0;
  bool only_spaces = true;
  for (size_t at = 0; at < token.size();) {
    const Character c = character_at(token, at);
    if (is_space_of_token(c.code_point)) {
      ++trailing;
      leading += only_spaces ? 1 : 0;
    } else {
      trailing = 0;
      only_spaces = false;
    }
    at += c.size;
  }
  const auto bounded = [](size_t count) { return static_cast<uint16_t>(std::min<size_t>(count, UINT16_MAX)); };
  return {bounded(leading), bounded(trailing)};
}

}  // namespace

// One text on its way.
class HuggingFaceTokenizer::Encoding {
 public:
  Encoding(const HuggingFaceTokenizer& tokenizer, const Way& way)
      : t_(tokenizer), added_(tokenizer.added_in(way)), way_(way), trims_(way.with_spans && !t_.spaces_.empty()) {
    const std::lock_guard lock(t_.mutex_);
    if (!t_.idle_.empty()) {
      workspace_ = std::move(t_.idle_.back());
      t_.idle_.pop_back();
    }
    if (!workspace_) workspace_ = std::make_unique<Workspace>();
  }
  ~Encoding() {
    constexpr size_t kMostKept = 1 << 20;  // what a very long text needed is given back
    if (workspace_->symbols.capacity() + workspace_->merges.capacity() + workspace_->steps.capacity() > kMostKept) {
      return;
    }
    const std::lock_guard lock(t_.mutex_);
    t_.idle_.push_back(std::move(workspace_));
  }
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  Encoded run(std::string_view text) {
    using When = AddedTokens::When;
    added_.split(text, When::before_normalization, way_.parse_special,
                 [&](size_t begin, size_t end, const AddedToken* token) {
                   if (token != nullptr) {
                     const auto first = static_cast<int64_t>(begin), last = static_cast<int64_t>(end);
                     return put_added(*token, {first, last}, text.substr(begin, end - begin));
                   }
                   AlignedText piece(std::string(text.substr(begin, end - begin)), static_cast<uint32_t>(begin),
                                     way_.with_spans || t_.needs_origins_);
                   if (way_.lowercase) t_.lowercase_->apply(piece);
                   if (t_.parts_.normalizer) t_.parts_.normalizer->apply(piece);
                   run_normalised(std::move(piece));
                 });
    return std::move(made_);
  }

 private:
  void run_normalised(AlignedText text) {
    std::vector<std::pair<Part, const AddedToken*>> pieces;
    added_.split(text.text(), AddedTokens::When::after_normalization, way_.parse_special,
                 [&](size_t begin, size_t end, const AddedToken* token) {
                   const uint32_t start = text.tracked() ? text.origin(begin).begin : 0;
                   pieces.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end), start}, token});
                 });
    if (pieces.size() == 1 && pieces[0].second == nullptr) {
      return run_between({std::move(text), {pieces[0].first}});
    }
    for (const auto& [part, token] : pieces) {
      if (token != nullptr) {
        put_added(*token, way_.with_spans ? text.span(part.begin, part.end) : Span{},
                  std::string_view(text.text()).substr(part.begin, part.end - part.begin));
      } else {
        AlignedText piece = text.slice(part.begin, part.end);
        run_between({std::move(piece), {{0, part.end - part.begin, part.start}}});
      }
    }
  }

  void run_between(Parts parts) {
    for (const PreTokenizerPointer& pre_tokenizer : t_.parts_.pre_tokenizers) pre_tokenizer->apply(parts);
    const Model& model = *t_.parts_.model;
    const bool keeps_words = model.keeps_words();
    std::vector<Cut> cuts;
    const std::string_view text = parts.text.text();
    for (const Part& part : parts.parts) {
      const std::string_view word = text.substr(part.begin, part.end - part.begin);
      cuts.clear();
      if (keeps_words && word.size() <= WordCache::kLongest) {
        const uint64_t hash = WordCache::hash_of(word);
        if (!workspace_->cache.find(word, hash, cuts)) {
          model.cut(word, cuts, *workspace_);
          workspace_->cache.keep(word, hash, cuts.data(), cuts.size());
        }
      } else {
        model.cut(word, cuts, *workspace_);
      }
      for (const Cut& cut : cuts) {
        made_.ids.push_back(cut.id);
        if (way_.with_spans) {
          made_.spans.push_back(parts.text.span(part.begin + cut.begin, part.begin + cut.end));
          if (begins_word(cut, &cut == cuts.data())) ++word_;
          made_.words.push_back(word_);
        }
        if (trims_) made_.spaces.push_back(t_.spaces_[static_cast<size_t>(cut.id)]);
      }
    }
  }

  // Pre-tokenizers cut words; without one the mark of a space does.
  [[nodiscard]] bool begins_word(const Cut& cut, bool first_of_part) const {
    return first_of_part || (t_.parts_.pre_tokenizers.empty() &&
                             std::string_view(t_.parts_.model->tokens().text(cut.id)).starts_with("\u2581"));
  }

  void put_added(const AddedToken& token, Span span, std::string_view text) {
    made_.ids.push_back(token.id);
    if (way_.with_spans) {
      made_.spans.push_back(span);
      made_.words.push_back(++word_);
    }
    if (trims_) made_.spaces.push_back(spaces_of(text));
  }

  const HuggingFaceTokenizer& t_;
  const AddedTokens& added_;
  Way way_;
  bool trims_;
  int32_t word_ = -1;
  std::unique_ptr<Workspace> workspace_;
  Encoded made_;
};

HuggingFaceTokenizer::HuggingFaceTokenizer(TokenizerParts parts)
    : parts_(std::move(parts)), added_(std::move(parts_.added_tokens), normalizers(false)) {
  const TokenTable& table = parts_.model->tokens();
  vocabulary_ = table.size();
  for (const AddedToken& token : added_.all()) vocabulary_ = std::max<int64_t>(vocabulary_, token.id + 1);
  for (const PreTokenizerPointer& part : parts_.pre_tokenizers)
    needs_origins_ = needs_origins_ || part->needs_origins();
  if (parts_.post_processor.trims.empty()) return;
  spaces_.resize(static_cast<size_t>(vocabulary_));
  for (int32_t id = 0; id < table.size(); ++id) spaces_[static_cast<size_t>(id)] = spaces_of(table.text(id));
}

std::vector<const Normalizer*> HuggingFaceTokenizer::normalizers(bool lowercase) const {
  std::vector<const Normalizer*> all;
  if (lowercase) all.push_back(lowercase_.get());
  if (parts_.normalizer) all.push_back(parts_.normalizer.get());
  return all;
}

const AddedTokens& HuggingFaceTokenizer::added_in(const Way& way) const {
  if (!way.lowercase) return added_;
  std::call_once(lower_made_, [this] { lower_added_ = AddedTokens(added_.all(), normalizers(true)); });
  return lower_added_;
}

Encoded HuggingFaceTokenizer::encoded(std::string_view text, const Way& way) const {
  require_utf8(text, "encode");
  check_size(text);
  return Encoding(*this, way).run(text);
}

std::vector<int32_t> HuggingFaceTokenizer::encode(std::string_view text) const { return encoded(text, {}).ids; }

Tokens HuggingFaceTokenizer::tokens(std::string_view text, const TokensOptions& options) const {
  const Way way{.parse_special = options.parse_special, .with_spans = true, .lowercase = options.lowercase};
  Encoded first = encoded(text, way);
  std::optional<Encoded> second;
  if (options.pair) second = encoded(*options.pair, way);
  Encoded* const pair = second ? &*second : nullptr;
  require(options.limit >= 0, "tokens", "a limit of 0 (none) or more tokens; found ", options.limit);
  int64_t left_out = 0;
  if (options.limit > 0) {
    const int64_t added = options.add_special ? parts_.post_processor.added(pair != nullptr) : 0;
    require(options.limit >= added, "tokens", "a limit of at least the ", added, " added tokens; found ",
            options.limit);
    left_out = truncate(first, pair, options.limit - added, parts_.truncation);
  }
  for (const auto& trim : parts_.post_processor.trims) {
    trim_spans(first, text, trim);
    if (pair != nullptr) trim_spans(*pair, *options.pair, trim);
  }
  Tokens tokens = assemble(parts_.post_processor, first, pair, options.add_special);
  tokens.left_out = left_out;
  return tokens;
}

std::optional<int32_t> HuggingFaceTokenizer::id_of(std::string_view token) const {
  if (const AddedToken* const added = added_.find(token)) return added->id;
  const int32_t id = parts_.model->tokens().find(token);
  if (id < 0) return std::nullopt;
  return id;
}

std::string HuggingFaceTokenizer::piece(int32_t id) const {
  require_id(id, vocabulary_, "piece");
  if (const AddedToken* const added = added_.find(id)) return added->content;
  return parts_.model->tokens().has(id) ? parts_.model->tokens().text(id) : std::string();
}

std::string HuggingFaceTokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    require_id(id, vocabulary_, "decode");
    const AddedToken* const added = added_.find(id);
    if (added != nullptr && added->special) continue;
    if (added != nullptr) {
      tokens.push_back(added_.pattern(*added));
    } else if (parts_.model->tokens().has(id)) {
      tokens.push_back(parts_.model->tokens().text(id));
    }
  }
  std::string text;
  if (parts_.decoders.empty()) {
    for (size_t i = 0; i < tokens.size(); ++i) (text += i == 0 ? "" : " ") += tokens[i];
    return text;
  }
  for (const DecoderPointer& decoder : parts_.decoders) decoder->apply(tokens);
  for (const std::string& token : tokens) text += token;
  return text;
}

void HuggingFaceTokenizer::save(const std::filesystem::path& folder, Side side) const {
  require(!parts_.files.empty(), "save_tokenizer", "a tokenizer that was read from files");
  remove_tokenizer_files(folder, side);
  for (const KeptFile& file : parts_.files) files::write_atomically(folder / file.name, file.bytes, "save_tokenizer");
}

}  // namespace heed::text::huggingface
