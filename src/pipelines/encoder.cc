// Texts as vectors.
#include <algorithm>

#include "heed/error.h"
#include "heed/io.h"
#include "pipelines/encoder_parts.h"
#include "pipelines/folder.h"
#include "pipelines/recording.h"
#include "pipelines/words.h"
#include "text/huggingface/normalizers.h"
#include "text/tokenizers.h"

namespace heed {
namespace {

using pipelines::Ids;
using pipelines::Sequence;

// What stands in front of each text.
std::string prompt_text(const pipelines::SentenceSettings& settings, const std::string& asked, const char* function) {
  const std::string& name = asked.empty() ? settings.default_prompt : asked;
  if (name.empty()) return "";
  const auto found = settings.prompts.find(name);
  std::string known;
  for (const auto& [prompt, text] : settings.prompts) known += (known.empty() ? "" : ", ") + prompt;
  require(found != settings.prompts.end(), function, "a prompt of this model (", known.empty() ? "it has none" : known,
          "); found \"", name, "\"");
  return found->second;
}

// As sentence-transformers does where sentence_bert_config.json says "do_lower_case".
std::string lowercase(const std::string& text) {
  text::huggingface::AlignedText lower(text, 0, false);
  text::huggingface::lowercase_normalizer()->apply(lower);
  return lower.text();
}

void require_longest(int64_t longest, const char* function) {
  require(longest == 0 || longest >= 3, function, "a limit of 3 tokens or more; found ", longest);
}

struct MaskToken {
  int32_t id = -1;
  std::string text;
};

MaskToken mask_token_of(const models::Config& config, const text::Tokenizer& tokenizer, bool by_others) {
  if (config.head != models::Head::masked_token) return {};
  if (!by_others) return {.id = static_cast<int32_t>(config.mask_id), .text = config.mask_id < 0 ? "" : "[MASK]"};
  for (const char* const token : {"[MASK]", "<mask>"}) {
    if (const auto id = tokenizer.id_of(token)) return {.id = *id, .text = token};
  }
  return {};
}

}  // namespace

text::Tokens Encoder::Parts::read(std::string_view text, const text::TokensOptions& tokens, int64_t place,
                                  const TextOptions& options, const char* function) const {
  text::TokensOptions own = tokens;
  own.limit = tokens.limit > 0 ? std::min(tokens.limit, longest) : longest;
  if (model->origin() != nullptr) return pipelines::encode_around(*tokenizer, text, own, place, options, function);
  require(!tokens.pair, function, "one text; found a pair, which models of heed's own training do not read");
  pipelines::require_utf8(text, place, options, function);
  text::Tokens all = tokenizer->tokens(text, {.add_special = false});
  text::Tokens result;
  result.ids = pipelines::cut_or_refuse(all.ids, *tokenizer, text, place, own.limit - 2, options, function);
  result.spans = std::move(all.spans);
  result.words = std::move(all.words);
  const size_t left_out = all.ids.size() - result.ids.size();
  pipelines::leave_out(result.spans, left_out, *tokenizer);
  pipelines::leave_out(result.words, left_out, *tokenizer);
  return text::with_begin_and_end(std::move(result), tokenizer->special(), {});
}

Sequence Encoder::Parts::sequence_of(const text::Tokens& tokens) const {
  return {.ids = tokens.ids, .types = model->config().token_types > 1 ? tokens.segments : Ids()};
}

Encoder Encoder::load(const std::filesystem::path& name, WeightFormat weights) {
  constexpr const char* kName = "Encoder::load";
  const std::filesystem::path folder = io::find_model_folder(name.string());
  const std::filesystem::path inner = pipelines::SentenceModules::encoder_folder(folder);
  Encoder result;
  result.model_ = pipelines::load_model<models::Bert>(inner, kName, models::Architecture::encoder_only, weights);
  const models::Config& config = result.model_->config();
  result.tokenizer_ = pipelines::load_tokenizer(inner, text::Side::source, kName, *result.model_);
  const bool by_others = result.model_->origin() != nullptr;
  pipelines::SentenceSettings settings = pipelines::read_sentence_settings(folder, inner);
  const int64_t longest = settings.longest > 0 ? std::min(settings.longest, config.max_length)
                          : by_others          ? pipelines::longest_text(inner, config.max_length, kName)
                                               : config.max_length;
  require_longest(longest, kName);
  MaskToken mask = mask_token_of(config, *result.tokenizer_, by_others);
  result.parts_ = std::make_shared<const Parts>(Parts{.folder = folder,
                                                      .model = result.model_,
                                                      .tokenizer = result.tokenizer_,
                                                      .modules = pipelines::SentenceModules::load(folder, config.width),
                                                      .settings = std::move(settings),
                                                      .scores = pipelines::read_scores(inner, config),
                                                      .longest = longest,
                                                      .mask_id = mask.id,
                                                      .mask_token = std::move(mask.text)});
  return result;
}

int64_t Encoder::longest() const { return parts_->longest; }

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
  require_longest(options.longest, kName);
  if (parts_->settings.lowercase) pipelines::require_utf8(text, 0, options.text, kName);
  const std::string lower = parts_->settings.lowercase ? lowercase(std::string(text)) : std::string();
  const std::string_view read = parts_->settings.lowercase ? lower : text;
  const Sequence sequence = parts_->sequence_of(parts_->read(read, {.limit = options.longest}, 0, options.text, kName));
  const Sequence* const only = &sequence;
  const pipelines::SequenceBatch batch = pipelines::batch_of({&only, 1}, model_->config().padding_id);
  const NoGradScope no_grad;
  const Tensor states = model_->encode(batch.ids, batch.lengths, batch.types).data();  // (1, L, E)
  return {.tokens = pipelines::pieces_of(*tokenizer_, sequence.ids), .states = states.select(0, 0).contiguous()};
}

Tensor Encoder::embed(std::span<const std::string> texts, const EncoderOptions& options) const {
  constexpr const char* kName = "Encoder::embed";
  require(options.batch_tokens >= 1, kName, "batches of 1 token or more; found ", options.batch_tokens);
  require_longest(options.longest, kName);
  const std::string prompt =
      options.prompt_text ? *options.prompt_text : prompt_text(parts_->settings, options.prompt, kName);
  require(prompt.empty() || parts_->modules.pools_prompts(), kName,
          "a model whose vectors are made of the prompt's tokens too; found \"include_prompt\": false");
  std::vector<Sequence> all;
  for (const std::string& text : texts) {
    const bool changes = !prompt.empty() || parts_->settings.lowercase;
    const auto place = static_cast<int64_t>(all.size());
    pipelines::look_up(place, options.progress);
    if (changes) pipelines::require_utf8(text, place, options.text, kName);
    const std::string changed = !changes ? "" : parts_->settings.lowercase ? lowercase(prompt + text) : prompt + text;
    all.push_back(parts_->sequence_of(
        parts_->read(changes ? changed : text, {.limit = options.longest}, place, options.text, kName)));
  }
  const Tensor vectors =
      pipelines::embed_sequences(*model_, parts_->modules, all, options.batch_tokens, options.progress);
  return vectors.slice(1, 0, embedding_size()).contiguous();
}

inspect::Record Encoder::record(std::string_view text, const RecordOptions& options) const {
  constexpr const char* kName = "Encoder::record";
  require(!options.target, kName, "no target for an encoder-only model; found one");
  const std::string& mask = parts_->mask_token;
  const bool masked = !mask.empty() && text.find(mask) != std::string_view::npos;
  const text::Tokens tokens =
      masked ? parts_->read_with_masks(text, options.text, kName) : parts_->read(text, {}, 0, options.text, kName);
  require(std::find(tokens.special.begin(), tokens.special.end(), 0) != tokens.special.end(), kName,
          "a text of at least one token; found an empty one");
  const Sequence sequence = parts_->sequence_of(tokens);
  const Sequence* const only = &sequence;
  const pipelines::SequenceBatch batch = pipelines::batch_of({&only, 1}, model_->config().padding_id);
  inspect::Record record;
  record.source = text;
  for (const int32_t id : sequence.ids)
    record.source_tokens.push_back(id == parts_->mask_id ? mask : tokenizer_->piece(id));
  record.source_words = pipelines::words_of(*tokenizer_, text, tokens);
  pipelines::announce_size(model_->config(), static_cast<int64_t>(sequence.ids.size()), 0, options);
  pipelines::observe(record, [&] { (void)model_->encode(batch.ids, batch.lengths, batch.types); });
  return record;
}

}  // namespace heed
