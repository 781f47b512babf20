// Texts as vectors.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/encoding.h"
#include "pipelines/folder.h"
#include "pipelines/recording.h"

namespace heed {
namespace {

using pipelines::Ids;

// As in training: between the begin and the end id.
Ids encode_between(const Encoder& encoder, std::string_view text, int64_t place, const TextOptions& options,
                   const char* function) {
  const text::Tokenizer& tokenizer = encoder.tokenizer();
  Ids ids = pipelines::encode_text(tokenizer, text, place, encoder.model().config().max_length - 2, options, function);
  ids.insert(ids.begin(), tokenizer.special().begin);
  ids.push_back(tokenizer.special().end);
  return ids;
}

}  // namespace

Encoder Encoder::load(const std::filesystem::path& folder, WeightFormat weights) {
  constexpr const char* kName = "Encoder::load";
  Encoder result;
  result.model_ = pipelines::load_model<models::Bert>(folder, kName, models::Architecture::encoder_only, weights);
  const models::Config& config = result.model_->config();
  result.tokenizer_ =
      pipelines::load_tokenizer(folder, text::Side::source, kName, config.source_vocabulary, config.mask_id);
  return result;
}

Encoding Encoder::encode(std::string_view text, const EncoderOptions& options) const {
  const Ids ids = encode_between(*this, text, 0, options.text, "Encoder::encode");
  const NoGradScope no_grad;
  const Tensor states = model_->encode(pipelines::as_row(ids), pipelines::length_of(ids)).data();  // (1, L, E)
  return {.tokens = pipelines::pieces_of(*tokenizer_, ids), .states = states.select(0, 0).contiguous()};
}

Tensor Encoder::embed(std::span<const std::string> texts, const EncoderOptions& options) const {
  constexpr const char* kName = "Encoder::embed";
  require(options.batch_tokens >= 1, kName, "batches of 1 token or more; found ", options.batch_tokens);
  std::vector<Ids> all;
  for (const std::string& text : texts)
    all.push_back(encode_between(*this, text, static_cast<int64_t>(all.size()), options.text, kName));
  std::vector<size_t> order(all.size());  // by length: batches without much padding
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return all[a].size() > all[b].size(); });

  const int64_t width = model_->config().width;
  const Tensor result = Tensor::empty({static_cast<int64_t>(all.size()), width});  // (N, E)
  const NoGradScope no_grad;
  for (size_t begin = 0; begin < order.size();) {
    const size_t longest = all[order[begin]].size();
    const size_t fit = std::max<size_t>(1, static_cast<size_t>(options.batch_tokens) / longest);
    const size_t end = std::min(order.size(), begin + fit);
    std::vector<Ids> batch;
    for (size_t i = begin; i < end; ++i) batch.push_back(all[order[i]]);
    const text::Padded padded = text::pad(batch, static_cast<int32_t>(model_->config().padding_id));
    const Tensor rows = model_->embed(padded.ids, padded.lengths).data().contiguous();  // (B, E)
    for (size_t i = begin; i < end; ++i)
      std::memcpy(result.data<float>() + static_cast<int64_t>(order[i]) * width,
                  rows.data<float>() + static_cast<int64_t>(i - begin) * width,
                  static_cast<size_t>(width) * sizeof(float));
    begin = end;
  }
  return result;
}

inspect::Record Encoder::record(std::string_view text, const RecordOptions& options) const {
  constexpr const char* kName = "Encoder::record";
  require(!options.target, kName, "no target for an encoder-only model; found one");
  const Ids ids = encode_between(*this, text, 0, options.text, kName);
  require(ids.size() > 2, kName, "a text of at least one token; found an empty one");
  inspect::Record record;
  record.source = text;
  record.source_tokens = pipelines::pieces_of(*tokenizer_, ids);
  pipelines::announce_size(model_->config(), static_cast<int64_t>(ids.size()), 0, options);
  pipelines::observe(record, [&] { (void)model_->encode(pipelines::as_row(ids), pipelines::length_of(ids)); });
  return record;
}

}  // namespace heed
