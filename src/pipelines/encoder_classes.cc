// Texts and tokens as classes, and words that are missing.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/error.h"
#include "models/families/classifier.h"
#include "pipelines/encoder_parts.h"
#include "pipelines/read_texts.h"

namespace heed {
namespace {

using models::Scores;
using pipelines::Sequence;

// The probabilities of logits: in double precision, in the order of the classes.
std::vector<double> softmax_of(std::span<const float> logits) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  std::vector<double> result;
  for (const float logit : logits) result.push_back(std::exp(static_cast<double>(logit) - largest));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& value : result) value /= sum;
  return result;
}

std::vector<float> scores_of(std::span<const float> logits, Scores kind) {
  std::vector<float> result(logits.begin(), logits.end());
  if (kind == Scores::probabilities) {
    const std::vector<double> shares = softmax_of(logits);
    std::transform(shares.begin(), shares.end(), result.begin(), [](double x) { return static_cast<float>(x); });
  } else if (kind == Scores::independent) {
    for (float& value : result) value = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(value))));
  }
  return result;
}

std::span<const float> row_of(const Tensor& rows, int64_t row) {
  const int64_t width = rows.size(rows.rank() - 1);
  return {rows.data<float>() + row * width, static_cast<size_t>(width)};
}

size_t likeliest(std::span<const float> scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

}  // namespace

void Encoder::Parts::require_head(models::Head head, const char* function) const {
  const models::Model& model = *reader.model;
  require(model.config().head == head && !models::finds_answers(model), function, folder.string(), ": ",
          models::words_for(head), "; found ", models::words_for_head(model));
}

void Encoder::Parts::require_answers(const char* function) const {
  require(models::finds_answers(*reader.model), function, folder.string(), ": ", models::kFindsAnswers, "; found ",
          models::words_for_head(*reader.model));
}

void Encoder::require_head(models::Head head) const { parts_->require_head(head, "Encoder::require_head"); }

void Encoder::require_answers() const { parts_->require_answers("Encoder::require_answers"); }

Tensor Encoder::class_logits(std::span<const TextPair> texts, const EncoderOptions& options) const {
  constexpr const char* kName = "Encoder::classify";
  parts_->require_head(models::Head::text_class, kName);
  const int64_t batch_tokens = pipelines::batch_tokens(options.batch_tokens, *model_, kName);
  pipelines::require_longest(options.longest, kName);
  const std::string prompt = parts_->prompt(options, kName);
  std::vector<Sequence> all;
  pipelines::read_texts(
      0, std::ssize(texts), options.text,
      [&](int64_t place, const TextOptions& text_options) {
        const TextPair& text = texts[static_cast<size_t>(place)];
        text::TokensOptions tokens{
            .limit = options.longest, .parse_special = options.parse_special, .lowercase = parts_->reader.lowercases};
        if (text.pair) tokens.pair = *text.pair;
        if (!prompt.empty()) pipelines::require_utf8(text.text, place, text_options, kName);  // as places of the text
        Sequence sequence =
            parts_->sequence_of(parts_->reader.read(prompt + text.text, tokens, place, text_options, kName));
        require(!sequence.ids.empty(), kName, pipelines::name_of_text(text_options, place),
                ": a text of at least one token; found an empty one");
        return sequence;
      },
      options.progress, all);
  const auto classes = static_cast<int64_t>(labels().size());
  return pipelines::rows_of(
      all, batch_tokens, model_->config().padding_id, classes,
      [&](const pipelines::SequenceBatch& batch) {
        return model_->forward(batch.ids, batch.lengths, batch.types).data();
      },
      options.progress);
}

std::vector<Classification> Encoder::classify(std::span<const TextPair> texts, const EncoderOptions& options) const {
  const Tensor logits = class_logits(texts, options);
  std::vector<Classification> result;
  for (int64_t i = 0; i < logits.size(0); ++i) {
    std::vector<float> scores = scores_of(row_of(logits, i), parts_->scores);
    const size_t best = likeliest(scores);
    const float score = scores[best];
    result.push_back({.label = labels()[best], .score = score, .scores = std::move(scores)});
  }
  return result;
}

std::vector<Classification> Encoder::classify(std::span<const std::string> texts, const EncoderOptions& options) const {
  std::vector<TextPair> alone;
  for (const std::string& text : texts) alone.push_back({.text = text});
  return classify(alone, options);
}

std::vector<TokenClass> Encoder::classify_tokens(std::string_view text, const EncoderOptions& options) const {
  constexpr const char* kName = "Encoder::classify_tokens";
  parts_->require_head(models::Head::token_class, kName);
  const text::Tokens tokens =
      parts_->reader.read(text, {.parse_special = options.parse_special}, 0, options.text, kName);
  if (tokens.ids.empty()) return {};
  const Sequence sequence = parts_->sequence_of(tokens);
  const Sequence* const only = &sequence;
  const pipelines::SequenceBatch batch = pipelines::batch_of({&only, 1}, model_->config().padding_id);
  const NoGradScope no_grad;
  const Tensor logits = model_->forward(batch.ids, batch.lengths, batch.types).data().contiguous();  // (1, L, labels)
  pipelines::require_numbers({logits.data<float>(), static_cast<size_t>(logits.numel())});
  std::vector<TokenClass> result;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.special[i] != 0) continue;
    const std::vector<float> scores = scores_of(row_of(logits, static_cast<int64_t>(i)), Scores::probabilities);
    const size_t best = likeliest(scores);
    result.push_back({.token = tokenizer_->piece(tokens.ids[i]),
                      .span = tokens.spans[i],
                      .label = labels()[best],
                      .score = scores[best]});
  }
  return result;
}

const std::string& Encoder::mask_token() const { return parts_->reader.mask_token; }

namespace {

std::vector<Filling> best_tokens(std::span<const float> logits, int64_t count, const text::Tokenizer& tokenizer) {
  const std::vector<double> shares = softmax_of(logits);
  // Rows without a token, which fill up a table, are never told; their shares are the model's own mistake.
  std::vector<int32_t> order(static_cast<size_t>(std::min<int64_t>(tokenizer.vocabulary(), std::ssize(logits))));
  std::iota(order.begin(), order.end(), 0);
  const auto told = std::min<std::ptrdiff_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + told, order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<Filling> result;
  for (std::ptrdiff_t i = 0; i < told; ++i) {
    const int32_t id = order[static_cast<size_t>(i)];
    std::string token = tokenizer.decode({&id, 1});
    if (token.empty()) token = tokenizer.piece(id);  // a special one
    result.push_back({.id = id, .token = token, .probability = static_cast<float>(shares[static_cast<size_t>(id)])});
  }
  return result;
}

}  // namespace

std::vector<std::vector<Filling>> Encoder::fill(std::string_view text, const FillOptions& options) const {
  constexpr const char* kName = "Encoder::fill";
  parts_->require_head(models::Head::masked_token, kName);
  const int32_t mask = parts_->reader.mask_id;
  require(mask >= 0, kName, parts_->folder.string(), ": a tokenizer with [MASK] or <mask>; found neither");
  require(options.count >= 1, kName, "1 or more tokens for each place; found ", options.count);
  const text::Tokens tokens = parts_->reader.read_with_masks(text, options.text, kName);
  std::vector<int64_t> places;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.ids[i] == mask) places.push_back(static_cast<int64_t>(i));
  }
  require(!places.empty(), kName, pipelines::name_of_text(options.text, 0), ": a text with ", parts_->reader.mask_token,
          " where a word is missing; found none");
  const Sequence sequence = parts_->sequence_of(tokens);
  const Sequence* const only = &sequence;
  const pipelines::SequenceBatch batch = pipelines::batch_of({&only, 1}, model_->config().padding_id);
  const NoGradScope no_grad;
  const Tensor states = model_->encode(batch.ids, batch.lengths, batch.types).data();  // (1, L, E)
  std::vector<std::vector<Filling>> result;
  for (const int64_t place : places) {
    const Value state(states.slice(1, place, place + 1).contiguous());
    const Tensor logits = model_->head_logits(state).data().contiguous();  // (1, 1, V)
    pipelines::require_numbers(row_of(logits, 0));
    result.push_back(best_tokens(row_of(logits, 0), options.count, *tokenizer_));
  }
  return result;
}

}  // namespace heed
