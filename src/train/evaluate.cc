// Loss and perplexity of a model on text.
#include <algorithm>
#include <cmath>

#include "formats/json.h"
#include "generate/tokenizer_kind.h"
#include "heed/error.h"
#include "heed/train.h"
#include "models/families/classifier.h"
#include "models/families/weights.h"
#include "train/corpus.h"
#include "train/objective.h"
#include "train/start.h"

namespace heed::train {

namespace {

Evaluation evaluation_of(const models::Model& model, DataSet& data, int64_t left_out, const EvaluateOptions& options) {
  const MeanLoss mean = options.ranks != nullptr ? mean_loss(model, data, *options.ranks) : mean_loss(model, data);
  Evaluation result{.loss = mean.loss,
                    .perplexity = std::exp(mean.loss),
                    .tokens = mean.tokens,
                    .sentences = mean.sentences,
                    .left_out = left_out,
                    .accuracy = mean.accuracy};
  if (mean.correlation) {
    result.pearson = mean.correlation->pearson;
    result.spearman = mean.correlation->spearman;
  }
  return result;
}

Evaluation evaluate_pairs(const models::Transformer& model, std::span<const text::Ids> sources,
                          std::span<const text::Ids> targets, const Frames& frames, const EvaluateOptions& options) {
  require(sources.size() == targets.size(), "evaluate", "as many targets as sources; found ", targets.size(), " and ",
          sources.size());
  const int64_t around = std::max(frames.source.size(), frames.target.size());
  const int64_t longest = model.config().max_length - around;
  std::vector<Ids> kept_sources, kept_targets;
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto longer = static_cast<int64_t>(std::max(sources[i].size(), targets[i].size()));
    if (sources[i].empty() || targets[i].empty() || longer > longest) continue;
    kept_sources.push_back(sources[i]);
    kept_targets.push_back(targets[i]);
  }
  const auto left_out = static_cast<int64_t>(sources.size() - kept_sources.size());
  require(!kept_sources.empty(), "evaluate", "pairs of 1 to ", longest, " tokens a side; found none of ",
          sources.size());
  const auto data = parallel_data(std::move(kept_sources), std::move(kept_targets), frames.source, frames.target,
                                  {.tokens = options.batch_tokens, .seed = 0});
  return evaluation_of(model, *data, left_out, options);
}

Evaluation evaluate_masked(const models::Bert& model, std::span<const text::Ids> sentences, const Frames& frames,
                           int64_t vocabulary, const EvaluateOptions& options) {
  require(frames.mask_id >= 0, "evaluate", "a model trained with a mask id; found none");
  const int64_t longest = model.config().max_length - frames.source.size();
  std::vector<Ids> kept;
  for (const Ids& ids : sentences) {
    if (!ids.empty() && static_cast<int64_t>(ids.size()) <= longest) kept.push_back(ids);
  }
  const auto left_out = static_cast<int64_t>(sentences.size() - kept.size());
  require(!kept.empty(), "evaluate", "sentences of 1 to ", longest, " tokens; found none of ", sentences.size());
  const auto data = masked_data(std::move(kept), frames.source,
                                {.mask_id = frames.mask_id, .vocabulary = vocabulary, .first = frames.first_drawn},
                                {.tokens = options.batch_tokens, .seed = options.seed});
  return evaluation_of(model, *data, left_out, options);
}

Evaluation evaluate_classes(const models::Bert& model, const text::Tokenizer& tokenizer,
                            const std::filesystem::path& folder, const std::filesystem::path& source,
                            const EvaluateOptions& options) {
  const ClassifiedTexts texts =
      classified_texts(read_examples(source), model, tokenizer, reading_of(model, folder, "evaluate"),
                       [&](int64_t) -> BatchLimits { return {.tokens = options.batch_tokens, .seed = 0}; });
  return evaluation_of(model, *texts.data, 0, options);
}

}  // namespace

Evaluation evaluate(const models::Transformer& model, std::span<const text::Ids> sources,
                    std::span<const text::Ids> targets, const EvaluateOptions& options) {
  require(model.origin() == nullptr, "evaluate",
          "the tokenizers of a model that others trained, which know what stands around a text; found none");
  const text::SpecialIds special = special_of(model.config());
  return evaluate_pairs(model, sources, targets, {.source = source_frame(special), .target = target_frame(special)},
                        options);
}

Evaluation evaluate(const models::Transformer& model, const text::Tokenizer& source, const text::Tokenizer& target,
                    std::span<const text::Ids> sources, std::span<const text::Ids> targets,
                    const EvaluateOptions& options) {
  const Languages languages{.source = options.source_language, .target = options.target_language};
  return evaluate_pairs(model, sources, targets, frames_of(model, source, &target, languages), options);
}

Evaluation evaluate(const models::Gpt& model, std::span<const int32_t> stream, const EvaluateOptions& options) {
  const int64_t context = options.context > 0 ? options.context : model.config().max_length;
  require(context <= model.config().max_length || model.config().positions == models::Positions::none, "evaluate",
          "a context of at most the model's max_length, ", model.config().max_length, "; found ", context);
  const auto data =
      stream_data(Ids(stream.begin(), stream.end()), Windows::consecutive, context,
                  static_cast<int32_t>(model.config().padding_id), {.tokens = std::max(options.batch_tokens, context)});
  return evaluation_of(model, *data, 0, options);
}

Evaluation evaluate(const models::Bert& model, std::span<const text::Ids> sentences, const EvaluateOptions& options) {
  const models::Config& config = model.config();
  return evaluate_masked(
      model, sentences,
      {.source = masked_frame(special_of(config)), .target = {}, .mask_id = static_cast<int32_t>(config.mask_id)},
      config.mask_id, options);
}

Evaluation evaluate(const models::Model& model, const std::filesystem::path& folder,
                    const std::filesystem::path& source, const std::filesystem::path& target,
                    const EvaluateOptions& options) {
  const auto lines = text::read_lines(source);
  if (const auto* transformer = dynamic_cast<const models::Transformer*>(&model)) {
    const auto target_lines = text::read_lines(target);
    require(lines.size() == target_lines.size(), "evaluate", target.string(), ": as many lines as ", source.string(),
            ", ", lines.size(), "; found ", target_lines.size());
    const auto source_tokenizer = text::Tokenizer::load(folder, text::Side::source);
    const auto target_tokenizer = text::Tokenizer::load(folder, text::Side::target);
    for (const auto& tokenizer : {source_tokenizer, target_tokenizer})
      generate::require_kind_of_tokenizer(*tokenizer, model, folder.string(), "evaluate");
    const auto sources = encode_all(*source_tokenizer, lines);
    const auto targets = encode_all(*target_tokenizer, target_lines);
    return evaluate(*transformer, *source_tokenizer, *target_tokenizer, sources, targets, options);
  }
  require(target.empty(), "evaluate", "one text for a language model; found two");
  if (const auto* gpt = dynamic_cast<const models::Gpt*>(&model)) {
    return evaluate(*gpt, stream_of(lines, *text::Tokenizer::load(folder, text::Side::target)), options);
  }
  const auto* bert = dynamic_cast<const models::Bert*>(&model);
  require(bert != nullptr, "evaluate", "a Transformer, Gpt or Bert; found another kind of model");
  const auto tokenizer = text::Tokenizer::load(folder, text::Side::source);
  generate::require_kind_of_tokenizer(*tokenizer, model, folder.string(), "evaluate");
  const models::Head head = model.config().head;
  if (head == models::Head::text_class) {
    if (!models::tells_one_class(model) && !models::gives_score(model)) {
      fail("evaluate", folder.string(),
           ": a model that tells one class of each text, or gives one score; found \"problem_type\" \"",
           models::problem_type(model.config().scores), "\" and ", model.config().labels.size(), " labels");
    }
    return evaluate_classes(*bert, *tokenizer, folder, source, options);
  }
  require(head == models::Head::masked_token, "evaluate", folder.string(),
          ": a model that guesses masked tokens or tells classes of texts; found ", models::words_for_head(model));
  const auto sentences = encode_all(*tokenizer, lines);
  if (model.origin() == nullptr) return evaluate(*bert, sentences, options);
  const int64_t vocabulary = std::min(tokenizer->vocabulary(), model.config().source_vocabulary);
  const Frames frames = frames_of(model, *tokenizer, nullptr);
  require(frames.mask_id >= 0, "evaluate", folder.string(),
          ": a tokenizer with [MASK] or <mask>, and a row of the model for it; found none");
  return evaluate_masked(*bert, sentences, frames, vocabulary, options);
}

}  // namespace heed::train
