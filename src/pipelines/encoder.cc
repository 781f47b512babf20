// Texts as vectors.
#include <algorithm>
#include <map>

#include "heed/error.h"
#include "heed/io.h"
#include "pipelines/encoder_parts.h"
#include "pipelines/folder.h"
#include "pipelines/read_texts.h"
#include "pipelines/recording.h"
#include "pipelines/words.h"
#include "text/utf8.h"

namespace heed {
namespace {

using pipelines::Ids;
using pipelines::Sequence;

}  // namespace

Sequence Encoder::Parts::sequence_of(const text::Tokens& tokens) const {
  return {.ids = tokens.ids, .types = reader.model->config().token_types > 1 ? tokens.segments : Ids()};
}

std::string Encoder::Parts::prompt(const EncoderOptions& options, const char* function) const {
  if (options.prompt_text) {
    text::require_utf8(*options.prompt_text, function, pipelines::kPromptName);
    return *options.prompt_text;
  }
  const std::string& name = options.prompt.empty() ? settings.default_prompt : options.prompt;
  if (name.empty()) return "";
  std::map<std::string, std::string> known = settings.prompts;
  // sentence-transformers gives every model but a cross-encoder these two, empty.
  if (reader.model->config().head != models::Head::text_class) known.insert({{"query", ""}, {"document", ""}});
  const auto found = known.find(name);
  std::string names;
  for (const auto& [prompt, text] : known) names += (names.empty() ? "" : ", ") + prompt;
  require(found != known.end(), function, "a prompt of this model (", names.empty() ? "it has none" : names,
          "); found \"", name, "\"");
  return found->second;
}

Encoder Encoder::load(const std::filesystem::path& name, WeightFormat weights) {
  constexpr const char* kName = "Encoder::load";
  const std::filesystem::path folder = io::find_model_folder(name.string());
  const std::filesystem::path inner = pipelines::SentenceModules::encoder_folder(folder);
  Encoder result;
  auto [model, tokenizers] =
      pipelines::load_model<models::Bert>(inner, kName, models::Architecture::encoder_only, weights);
  result.model_ = std::move(model);
  result.tokenizer_ = std::move(tokenizers.source);
  const models::Config& config = result.model_->config();
  models::SentenceSettings settings = models::read_sentence_settings(folder, inner);
  pipelines::EncoderReader reader =
      pipelines::EncoderReader::of(result.model_, result.tokenizer_, inner, settings, kName);
  pipelines::SentenceModules modules = pipelines::SentenceModules::load(folder, config.width);
  result.parts_ = std::make_shared<const Parts>(Parts{.folder = folder,
                                                      .reader = std::move(reader),
                                                      .modules = std::move(modules),
                                                      .settings = std::move(settings),
                                                      .scores = models::read_scores(inner, config)});
  return result;
}

bool Encoder::lowercases() const { return parts_->reader.lowercases; }

int64_t Encoder::longest() const { return parts_->reader.longest; }

int64_t Encoder::embedding_size() const {
  const int64_t all = parts_->modules.size(), kept = parts_->settings.size;
  return kept > 0 ? std::min(kept, all) : all;
}

std::vector<std::string> Encoder::prompts() const {
  std::vector<std::string> names;
  for (const auto& [name, text] : parts_->settings.prompts) names.push_back(name);
  return names;
}

Encoding Encoder::encode(std::string_view text, const EncoderOptions& options) const {
  constexpr const char* kName = "Encoder::encode";
  pipelines::require_longest(options.longest, kName);
  const text::TokensOptions tokens{
      .limit = options.longest, .parse_special = options.parse_special, .lowercase = parts_->reader.lowercases};
  const Sequence sequence = parts_->sequence_of(parts_->reader.read(text, tokens, 0, options.text, kName));
  const Sequence* const only = &sequence;
  const pipelines::SequenceBatch batch = pipelines::batch_of({&only, 1}, model_->config().padding_id);
  const NoGradScope no_grad;
  const Tensor states = model_->encode(batch.ids, batch.lengths, batch.types).data();  // (1, L, E)
  return {.tokens = pipelines::pieces_of(*tokenizer_, sequence.ids), .states = states.select(0, 0).contiguous()};
}

Tensor Encoder::embed(std::span<const std::string> texts, const EncoderOptions& options) const {
  constexpr const char* kName = "Encoder::embed";
  const int64_t batch_tokens = pipelines::batch_tokens(options.batch_tokens, *model_, kName);
  pipelines::require_longest(options.longest, kName);
  const std::string prompt = parts_->prompt(options, kName);
  const text::TokensOptions tokens{
      .limit = options.longest, .parse_special = options.parse_special, .lowercase = parts_->reader.lowercases};
  const int64_t skipped =
      parts_->modules.pools_prompts() ? 0 : parts_->reader.length_of_prompt(prompt, tokens, options.text, kName);
  std::vector<Sequence> all;
  pipelines::read_texts(
      0, std::ssize(texts), options.text,
      [&](int64_t place, const TextOptions& text_options) {
        const std::string& text = texts[static_cast<size_t>(place)];
        if (!prompt.empty()) pipelines::require_utf8(text, place, text_options, kName);  // as places of the text
        return parts_->sequence_of(parts_->reader.read(prompt + text, tokens, place, text_options, kName));
      },
      options.progress, all);
  const Tensor vectors =
      pipelines::embed_sequences(*model_, parts_->modules, all, batch_tokens, options.progress, skipped);
  return vectors.slice(1, 0, embedding_size()).contiguous();
}

inspect::Record Encoder::record(std::string_view text, const RecordOptions& options) const {
  constexpr const char* kName = "Encoder::record";
  require(!options.target, kName, "no target for an encoder-only model; found one");
  const text::Tokens tokens = parts_->reader.show(text, options.text, kName);
  require(std::find(tokens.special.begin(), tokens.special.end(), 0) != tokens.special.end(), kName,
          "a text of at least one token; found an empty one");
  const Sequence sequence = parts_->sequence_of(tokens);
  const Sequence* const only = &sequence;
  const pipelines::SequenceBatch batch = pipelines::batch_of({&only, 1}, model_->config().padding_id);
  inspect::Record record;
  record.source = text;
  for (const int32_t id : sequence.ids)
    record.source_tokens.push_back(id == parts_->reader.mask_id ? parts_->reader.mask_token
                                                                : pipelines::label_of(*tokenizer_, id));
  record.source_words = pipelines::words_of(*tokenizer_, text, tokens);
  pipelines::announce_size(model_->config(), static_cast<int64_t>(sequence.ids.size()), 0, options);
  pipelines::observe(record, model_->config(), options,
                     [&] { (void)model_->encode(batch.ids, batch.lengths, batch.types); });
  return record;
}

}  // namespace heed
