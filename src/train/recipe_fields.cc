// The table of a recipe's keys.
#include "train/recipe_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "heed/error.h"

namespace heed::train {

namespace {

#define HEED_FIELD(member) #member, [](Recipe & recipe) -> FieldPointer { return &recipe.member; }

constexpr FieldEntry kFields[] = {
    {HEED_FIELD(task), FieldUse::fixed, "translation, language_model or masked_language_model"},
    {HEED_FIELD(train_source), FieldUse::path, "training text, plain or gzip; the only one of a language model"},
    {HEED_FIELD(train_target), FieldUse::path, "its translation, line by line"},
    {HEED_FIELD(valid_source), FieldUse::path, "validation text"},
    {HEED_FIELD(valid_target), FieldUse::path, "its translation, line by line"},
    {HEED_FIELD(pairs), FieldUse::path, "instead: lines of source <tab> target [<tab> anything]"},
    {HEED_FIELD(valid_fraction), FieldUse::fixed, "share of the training text that is held back for validation"},
    {HEED_FIELD(tokenizer), FieldUse::fixed, "sentencepiece, characters, or pieces (text already cut at spaces)"},
    {HEED_FIELD(bpe), FieldUse::fixed, "sentencepiece: byte pairs instead of a unigram model"},
    {HEED_FIELD(vocabulary), FieldUse::fixed, "sentencepiece: tokens of each side, or of both where shared"},
    {HEED_FIELD(shared_vocabulary), FieldUse::fixed, "one vocabulary for source and target"},
    {HEED_FIELD(max_tokens_per_sentence), FieldUse::fixed, "longer sentences are left out of training"},
    {HEED_FIELD(preset), FieldUse::fixed, "tiny, small, base or big; [model] keys change it"},
    {HEED_FIELD(adam.beta1), FieldUse::fixed, "decay of the first moment"},
    {HEED_FIELD(adam.beta2), FieldUse::fixed, "decay of the second moment"},
    {HEED_FIELD(adam.epsilon), FieldUse::fixed, "added to the root of the second moment"},
    {HEED_FIELD(adam.weight_decay), FieldUse::fixed, "decoupled decay of matrices (AdamW)"},
    {HEED_FIELD(schedule.kind), FieldUse::fixed, "constant, inverse_sqrt, noam or cosine"},
    {HEED_FIELD(schedule.peak), FieldUse::fixed, "learning rate at the end of the warm-up; noam: the factor"},
    {HEED_FIELD(schedule.warmup), FieldUse::fixed, "updates of linear growth"},
    {HEED_FIELD(schedule.warmup_start), FieldUse::fixed, "learning rate at the beginning of the warm-up"},
    {HEED_FIELD(schedule.total), FieldUse::fixed, "cosine: the update that reaches the floor; 0: max_updates"},
    {HEED_FIELD(schedule.floor), FieldUse::fixed, "cosine: the last learning rate"},
    {HEED_FIELD(schedule.width), FieldUse::fixed, "noam: model width; 0: that of the model"},
    {HEED_FIELD(label_smoothing), FieldUse::fixed, "share of the target spread over the vocabulary"},
    {HEED_FIELD(consistency), FieldUse::fixed,
     "R-Drop: each batch twice, and this weight on how far the two answers differ; 0: off"},
    {HEED_FIELD(consistency_from), FieldUse::fixed, "updates before consistency begins"},
    {HEED_FIELD(clip_norm), FieldUse::fixed, "largest norm of the gradient; 0: off"},
    {HEED_FIELD(accumulate), FieldUse::fixed, "batches an update"},
    {HEED_FIELD(precision), FieldUse::fixed, "f32 or bf16: of matrix products while training, where the processor can"},
    {HEED_FIELD(batch_tokens), FieldUse::fixed, "tokens a batch on its longer side, padding included"},
    {HEED_FIELD(batch_sentences), FieldUse::fixed, "sentences a batch at most (language model: windows); 0: by tokens"},
    {HEED_FIELD(context), FieldUse::fixed, "language model: tokens a window"},
    {HEED_FIELD(max_updates), FieldUse::free, "updates after which training ends"},
    {HEED_FIELD(max_epochs), FieldUse::free, "passes over the data after which training ends; 0: no limit"},
    {HEED_FIELD(seed), FieldUse::fixed, "of the initial weights, the order of the data and dropout"},
    {HEED_FIELD(validate_every), FieldUse::fixed, "updates between validations; 0: each epoch"},
    {HEED_FIELD(valid_beam), FieldUse::free, "beam for BLEU at each validation; 0: no BLEU"},
    {HEED_FIELD(valid_tokenize), FieldUse::free, "how BLEU cuts words: 13a, zh, char or none"},
    {HEED_FIELD(best_by), FieldUse::fixed, "loss or bleu: what the best checkpoint is best by"},
    {HEED_FIELD(patience), FieldUse::free, "validations without a better one before stopping; 0: never"},
    {HEED_FIELD(keep_last), FieldUse::free, "checkpoints to keep, beside the best one; at least average_last are kept"},
    {HEED_FIELD(checkpoint_every), FieldUse::fixed, "updates between further checkpoints; 0: with validations only"},
    {HEED_FIELD(average_last), FieldUse::free, "the model is the mean of the last n checkpoints; 0: the best one"},
    {HEED_FIELD(ema), FieldUse::fixed, "decay of a moving average that is validated and saved; 0: off"},
    {HEED_FIELD(log_every), FieldUse::free, "updates between reports"},
};
#undef HEED_FIELD

constexpr std::array<std::string_view, 8> kDecidedModelKeys = {
    "architecture", "source_vocabulary", "target_vocabulary", "padding_id", "begin_id", "end_id", "unknown_id",
    "mask_id"};

template <class T>
std::string digits(T value) {
  char buffer[64];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

}  // namespace

std::span<const FieldEntry> field_table() { return kFields; }

const FieldEntry* find_field(std::string_view key) {
  const auto* found = std::ranges::find(kFields, key, &FieldEntry::key);
  return found == std::end(kFields) ? nullptr : found;
}

std::string_view to_string(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::constant: return "constant";
    case ScheduleKind::inverse_sqrt: return "inverse_sqrt";
    case ScheduleKind::noam: return "noam";
    case ScheduleKind::cosine: return "cosine";
  }
  fail("to_string", "a schedule; found number ", static_cast<int>(kind));
}

std::string field_text(const FieldPointer& field) {
  return std::visit(
      [](auto* value) -> std::string {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return *value;
        } else if constexpr (std::is_same_v<T, bool>) {
          return *value ? "true" : "false";
        } else if constexpr (std::is_same_v<T, ScheduleKind>) {
          return std::string(to_string(*value));
        } else {
          return digits(*value);
        }
      },
      field);
}

std::string_view field_type(const FieldPointer& field) {
  return std::visit(
      [](auto* value) -> std::string_view {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, ScheduleKind>) return "text";
        if constexpr (std::is_same_v<T, bool>) return "true|false";
        if constexpr (std::is_floating_point_v<T>) return "number";
        return "integer";
      },
      field);
}

bool is_decided_model_key(std::string_view key) {
  return std::ranges::find(kDecidedModelKeys, key) != kDecidedModelKeys.end();
}

models::Architecture architecture_of(std::string_view task) {
  if (task == "translation") return models::Architecture::encoder_decoder;
  if (task == "language_model") return models::Architecture::decoder_only;
  require(task == "masked_language_model", "recipe",
          "task: translation, language_model or masked_language_model; found \"", task, "\"");
  return models::Architecture::encoder_only;
}

models::Config model_from_keys(const Recipe& recipe, const std::string& where) {
  auto config = nlohmann::json::parse(models::to_json(models::preset(recipe.preset, architecture_of(recipe.task))));
  config.update(nlohmann::json::parse(recipe.model_keys));
  config["source_vocabulary"] = config["target_vocabulary"] = 8;  // known once there are tokenizers
  models::Config model = models::config_from_json(config.dump(), where);
  model.source_vocabulary = model.target_vocabulary = 0;
  return model;
}

models::Config model_of(const Recipe& recipe) {
  return recipe.model_keys == "{}" ? recipe.model : model_from_keys(recipe, "recipe");
}

}  // namespace heed::train
