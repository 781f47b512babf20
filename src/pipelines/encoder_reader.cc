#include "pipelines/encoder_reader.h"

#include <algorithm>

#include "generate/tokenizer_kind.h"
#include "heed/error.h"
#include "pipelines/encoding.h"
#include "pipelines/folder.h"
#include "text/tokenizers.h"

namespace heed::pipelines {
namespace {

// The tokens of pieces of one text, one piece behind the other.
class Joined {
 public:
  // One that stands around the pieces.
  void add_around(const text::Tokens& from, size_t i, int64_t shift) { take(from, i, shift); }
  // A piece without what stands around it.
  void add_piece(const text::Tokens& piece, int64_t shift) {
    for (size_t i = 1; i + 1 < piece.ids.size(); ++i) {
      take(piece, i, shift);
      if (piece.words[i] >= 0) tokens_.words.back() += words_;
    }
    words_ = std::max(words_, tokens_.words.back() + 1);
  }
  void add_mask(int32_t id, text::Span span) {
    tokens_.ids.push_back(id);
    tokens_.segments.push_back(0);
    tokens_.spans.push_back(span);
    tokens_.words.push_back(words_++);
    tokens_.special.push_back(0);
  }
  [[nodiscard]] text::Tokens take_all() { return std::move(tokens_); }

 private:
  void take(const text::Tokens& from, size_t i, int64_t shift) {
    tokens_.ids.push_back(from.ids[i]);
    tokens_.segments.push_back(from.segments[i]);
    tokens_.spans.push_back({from.spans[i].begin + shift, from.spans[i].end + shift});
    tokens_.words.push_back(from.words[i]);
    tokens_.special.push_back(from.special[i]);
  }

  text::Tokens tokens_;
  int32_t words_ = 0;  // so far
};

}  // namespace

void require_longest(int64_t longest, const char* function) {
  require(longest == 0 || longest >= 3, function, "a limit of 3 tokens or more; found ", longest);
}

EncoderReader EncoderReader::of(std::shared_ptr<const models::Bert> model,
                                std::shared_ptr<const text::Tokenizer> tokenizer, const std::filesystem::path& folder,
                                const models::SentenceSettings& settings, const char* function) {
  const models::Config& config = model->config();
  const bool by_others = model->origin() != nullptr;
  const int64_t longest = models::longest_text(settings, folder, config, by_others, function);
  require_longest(longest, function);
  generate::MaskToken mask = generate::mask_token_of(*model, *tokenizer);
  return {.model = std::move(model),
          .tokenizer = std::move(tokenizer),
          .longest = longest,
          .positions = config.max_length,
          .lowercases = settings.lowercase,
          .mask_id = mask.id,
          .mask_token = std::move(mask.text),
          .mask_is_token = mask.is_token};
}

text::Tokens EncoderReader::read(std::string_view text, const text::TokensOptions& tokens, int64_t place,
                                 const TextOptions& options, const char* function) const {
  text::TokensOptions own = tokens;
  own.limit = tokens.limit > 0 ? std::min(tokens.limit, positions) : longest;
  if (model->origin() != nullptr || text::is_of_others(*tokenizer)) {
    text::Tokens result = encode_around(*tokenizer, text, own, place, options, function);
    require_rows(result.ids, model->config().source_vocabulary, *tokenizer, place, options, function);
    return result;
  }
  require(!tokens.pair, function, "one text; found a pair, which this model's tokenizer has no form for");
  require(!tokens.parse_special, function,
          "special tokens as text, because the tokenizers of heed's own models cannot find them; found parse_special");
  require_utf8(text, place, options, function);
  text::Tokens all = tokenizer->tokens(text, {.add_special = false, .lowercase = tokens.lowercase});
  text::Tokens result;
  result.ids = cut_or_refuse(all.ids, *tokenizer, text, place, own.limit - 2, options, function);
  result.spans = std::move(all.spans);
  result.words = std::move(all.words);
  const size_t left_out = all.ids.size() - result.ids.size();
  leave_out(result.spans, left_out, *tokenizer);
  leave_out(result.words, left_out, *tokenizer);
  return text::with_begin_and_end(std::move(result), tokenizer->special(), {});
}

int64_t EncoderReader::length_of_prompt(const std::string& prompt, const text::TokensOptions& tokens,
                                        const TextOptions& options, const char* function) const {
  if (prompt.empty()) return 0;
  TextOptions cut = options;
  cut.too_long = TooLong::cut;  // what is done with longer texts, and said about them, they will show
  cut.on_warning = nullptr;
  cut.name = [](int64_t) { return std::string(kPromptName); };
  const text::Tokens alone = read(prompt, tokens, 0, cut, function);
  const bool ends_special = !alone.ids.empty() && alone.special.back() != 0;
  return std::ssize(alone.ids) - (ends_special ? 1 : 0);
}

text::Tokens EncoderReader::read_with_masks(std::string_view text, const TextOptions& options,
                                            const char* function) const {
  if (mask_is_token) return read(text, {.parse_special = true}, 0, options, function);
  // The tokenizers of heed's own models have no token for the mask, which training adds behind theirs: what stands
  // between two masks is read by itself.
  const text::Tokens around = read("", {}, 0, options, function);
  require(around.ids.size() == 2, function, "a tokenizer that puts a token before a text and one behind it; found ",
          around.ids.size(), " around an empty one");
  Joined joined;
  joined.add_around(around, 0, 0);
  for (size_t begin = 0;;) {
    const size_t mask = std::min(text.find(mask_token, begin), text.size());
    joined.add_piece(read(text.substr(begin, mask - begin), {}, 0, options, function), static_cast<int64_t>(begin));
    if (mask == text.size()) break;
    begin = mask + mask_token.size();
    joined.add_mask(mask_id, {static_cast<int64_t>(mask), static_cast<int64_t>(begin)});
  }
  joined.add_around(around, around.ids.size() - 1, static_cast<int64_t>(text.size()));
  text::Tokens result = joined.take_all();
  require(std::ssize(result.ids) <= longest, function, name_of_text(options, 0), ": at most the ", longest,
          " tokens that the model reads; found ", result.ids.size());
  return result;
}

text::Tokens EncoderReader::show(std::string_view text, const TextOptions& options, const char* function) const {
  if (!mask_token.empty() && text.find(mask_token) != std::string_view::npos)
    return read_with_masks(text, options, function);
  return read(text, {.lowercase = lowercases}, 0, options, function);
}

}  // namespace heed::pipelines
