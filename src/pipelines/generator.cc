// Continuing texts.
#include <algorithm>
#include <limits>

#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/encoding.h"
#include "pipelines/folder.h"
#include "pipelines/recording.h"
#include "pipelines/words.h"

namespace heed {
namespace {

using pipelines::Ids;

// The text of growing ids, piece by piece. Bytes of a character that is not whole yet wait for the rest of it.
class Stream {
 public:
  Stream(const text::Tokenizer& tokenizer, Ids ids) : tokenizer_(tokenizer), ids_(std::move(ids)) {
    shown_ = tokenizer_.decode(ids_).size();
  }
  std::string add(int32_t id) {
    ids_.push_back(id);
    std::string text = tokenizer_.decode(ids_);
    const std::string_view replacement = "\uFFFD";
    while (text.ends_with(replacement)) text.resize(text.size() - replacement.size());
    std::string fresh = take(text);
    if (std::ssize(ids_) >= longest_) forget();
    return fresh;
  }
  std::string rest() { return take(tokenizer_.decode(ids_)); }

 private:
  std::string take(const std::string& text) {
    if (text.size() <= shown_) return {};
    std::string fresh = text.substr(shown_);
    shown_ = text.size();
    return fresh;
  }
  // Decoding all tokens for each new one would take a time that grows with the square of their number. The last ones
  // are enough if they alone give the end of the text. If not, the first of them may be a part of a character.
  void forget() {
    const std::string all = tokenizer_.decode(ids_);
    for (std::ptrdiff_t kept = kKept; kept < kKept + 4; ++kept) {
      const Ids last(ids_.end() - kept, ids_.end());
      const std::string end = tokenizer_.decode(last);
      if (end.empty() || !all.ends_with(end) || all.size() - end.size() > shown_) continue;
      shown_ -= all.size() - end.size();
      ids_ = last;
      longest_ = 2 * kKept;
      return;
    }
    longest_ *= 2;
  }

  static constexpr std::ptrdiff_t kKept = 64;  // tokens

  const text::Tokenizer& tokenizer_;
  Ids ids_;
  std::ptrdiff_t longest_ = 2 * kKept;  // tokens, before most of them are forgotten
  size_t shown_ = 0;                    // bytes of what ids_ decode to
};

// The likeliest token after each position: logits (1, L, V).
Ids likeliest(const Tensor& logits) {
  Ids out;
  const Tensor rows = logits.contiguous();
  for (int64_t i = 0; i < rows.size(1); ++i) {
    const float* row = rows.data<float>() + i * rows.size(2);
    out.push_back(static_cast<int32_t>(std::max_element(row, row + rows.size(2)) - row));
  }
  return out;
}

}  // namespace

Generator Generator::load(const std::filesystem::path& folder, WeightFormat weights) {
  constexpr const char* kName = "Generator::load";
  Generator result;
  auto [model, tokenizers] =
      pipelines::load_model<models::Gpt>(folder, kName, models::Architecture::decoder_only, weights);
  result.model_ = std::move(model);
  result.tokenizer_ = std::move(tokenizers.target);
  return result;
}

Generation Generator::generate(std::string_view prompt, const GeneratorOptions& options) const {
  const auto end_id = static_cast<int32_t>(model_->config().end_id);
  Ids ids = pipelines::encode_text(*tokenizer_, prompt, 0, std::numeric_limits<int64_t>::max(), options.text,
                                   "Generator::generate");
  const int64_t window = model_->config().max_length, count = std::ssize(ids);
  if (count > window && options.text.on_warning)
    options.text.on_warning({.kind = TextWarning::Kind::window, .text = 0, .count = window, .total = count});
  if (ids.empty()) {  // nothing to go on from: what stands between two texts of the training
    if (tokenizer_->kind() == "characters") ids = tokenizer_->encode("\n");
    if (ids.empty()) ids.push_back(end_id);
  }
  generate::SamplingOptions sampling = options.sampling;
  if (!options.ignore_end && end_id >= 0) sampling.stop_ids.push_back(end_id);
  Stream stream(*tokenizer_, ids);
  const auto on_token = [&](int32_t id) { return options.on_text(stream.add(id)); };
  generate::Hypothesis made;
  if (options.on_text) {
    made = generate::sample_text(*model_, ids, sampling, on_token);
    const std::string rest = stream.rest();
    if (!rest.empty()) (void)options.on_text(rest);
  } else {
    made = generate::sample_text(*model_, ids, sampling);
  }
  return {.text = tokenizer_->decode(made.ids),
          .finished = made.finished,
          .tokens = pipelines::pieces_of(*tokenizer_, made.ids),
          .log_probs = std::move(made.log_probs)};
}

inspect::Record Generator::record(std::string_view text, const RecordOptions& options) const {
  constexpr const char* kName = "Generator::record";
  require(!options.target, kName, "no target for a decoder-only model; found one");
  const models::Config& config = model_->config();
  const Ids ids = pipelines::encode_text(*tokenizer_, text, 0, config.max_length, options.text, kName);
  require(!ids.empty(), kName, "a text of at least one token; found an empty one");
  inspect::Record record;
  record.source = text;
  record.target_tokens = pipelines::labels_of(*tokenizer_, ids);
  record.target_words = pipelines::words_of_first(*tokenizer_, text, ids.size());
  pipelines::announce_size(config, 0, static_cast<int64_t>(ids.size()), options);
  pipelines::observe(record, config, options, [&] {
    record.output_tokens = pipelines::labels_of(*tokenizer_, likeliest(model_->forward(pipelines::as_row(ids)).data()));
  });
  return record;
}

}  // namespace heed
