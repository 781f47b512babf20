// The table of a recipe's keys.
#include "train/recipe_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "heed/error.h"

namespace heed::train {

namespace {

constexpr std::string_view kTasks =
    "translation, language_model, masked_language_model, sequence_classification, sequence_regression, "
    "sentence_embedding";

constexpr Allowed words(std::string_view list) { return {.words = list}; }
constexpr Allowed at_least(double low) { return {.low = low}; }
constexpr Allowed between(double low, double high) { return {.low = low, .high = high}; }
constexpr Allowed kAnything = {};
constexpr Allowed kPositive = {.low = 0, .above_low = true};
constexpr Allowed kBelowOne = {.low = 0, .high = 1, .below_high = true};

#define HEED_FIELD(member) #member, [](Recipe & recipe) -> FieldPointer { return &recipe.member; }

constexpr FieldEntry kFields[] = {
    {HEED_FIELD(task), FieldUse::fixed, words(kTasks),
     "What the model learns: to translate (encoder and decoder), to continue text (decoder only), to fill in hidden "
     "tokens (encoder only), to tell classes of texts, to score texts, or to give texts that belong together similar "
     "vectors (these three with an encoder, given by from)."},
    {HEED_FIELD(train_source), FieldUse::path, kAnything,
     "Training text, one sentence a line, plain or gzip. The only text of a language model. sequence_classification: "
     "lines of text <tab> label, or of text <tab> second text <tab> label; sequence_regression: a number in place of "
     "the label."},
    {HEED_FIELD(train_target), FieldUse::path, kAnything, "The translation of train_source, line by line."},
    {HEED_FIELD(valid_source), FieldUse::path, kAnything, "Validation text, in the form of train_source."},
    {HEED_FIELD(valid_target), FieldUse::path, kAnything, "The translation of valid_source, line by line."},
    {HEED_FIELD(pairs), FieldUse::path, kAnything,
     "In place of train_source and train_target: lines of source <tab> target [<tab> anything]. sentence_embedding: "
     "lines of two texts that belong together; with loss = \"squared_error\", of two texts and a score."},
    {HEED_FIELD(source_language), FieldUse::fixed, kAnything,
     "translation from a model of several languages (M2M100, NLLB, mBART): the language of train_source, as the "
     "model's vocabulary spells it: fra_Latn, fr_XX, fr."},
    {HEED_FIELD(target_language), FieldUse::fixed, kAnything, "The same of train_target."},
    {HEED_FIELD(valid_fraction), FieldUse::fixed, kBelowOne,
     "Share of the training text that is held back for validation: of pairs and of classified texts by a hash of the "
     "first text, of other text its end."},
    {HEED_FIELD(token_cache), FieldUse::path, kAnything,
     "A folder for the tokens of the training text, which are then read from there and need not fit into memory. It is "
     "filled once, and used again by later runs on this text. The batches are the same. Empty: tokens are in memory."},
    {HEED_FIELD(tokenizer), FieldUse::fixed, words("sentencepiece, characters, pieces"),
     "How text becomes tokens: subwords trained on the text, single characters, or text that is already cut at "
     "spaces."},
    {HEED_FIELD(bpe), FieldUse::fixed, kAnything, "sentencepiece: byte pair encoding in place of a unigram model."},
    {HEED_FIELD(vocabulary), FieldUse::fixed, kPositive,
     "sentencepiece: tokens of each side, or of both where the vocabulary is shared. Where the text does not allow "
     "that many or that few, the nearest number that it allows."},
    {HEED_FIELD(shared_vocabulary), FieldUse::fixed, kAnything, "One vocabulary for source and target."},
    {HEED_FIELD(vocabulary_lines), FieldUse::fixed, between(1, 2'000'000),
     "sentencepiece: lines that the vocabulary is trained on. Of a longer text the seed draws so many. Training takes "
     "about 30 times their size in memory."},
    {HEED_FIELD(max_tokens_per_sentence), FieldUse::fixed, kPositive,
     "Longer sentences are left out of training. Texts that have a class or a vector are cut to so many "
     "tokens, with those around them."},
    {HEED_FIELD(subword_sampling), FieldUse::fixed, between(0, 100),
     "Subword regularisation: each epoch draws segmentations anew with p^alpha; this is alpha, and a smaller one cuts "
     "more freely. For translation with unigram models. 0: off."},
    {HEED_FIELD(subword_sampling_epochs), FieldUse::fixed, at_least(0),
     "Epochs that draw segmentations. Later epochs read the most probable one, as translation does. 0: all."},
    {HEED_FIELD(from), FieldUse::path, kAnything,
     "The folder of a model, heed's own or Hugging Face's, or its name in the cache of Hugging Face's tools: training "
     "starts from its weights, its configuration and its tokenizers. Of the model's keys only dropout rates may "
     "differ. "
     "Empty: from a new model."},
    {HEED_FIELD(preset), FieldUse::fixed, words("tiny, small, base, big"),
     "Sizes of the model; the model.* keys change them."},
    {HEED_FIELD(adam.beta1), FieldUse::fixed, kBelowOne, "Decay of the first moment (Adam)."},
    {HEED_FIELD(adam.beta2), FieldUse::fixed, kBelowOne, "Decay of the second moment (Adam)."},
    {HEED_FIELD(adam.epsilon), FieldUse::fixed, kPositive, "Added to the root of the second moment (Adam)."},
    {HEED_FIELD(adam.weight_decay), FieldUse::fixed, between(0, 1e6), "Decoupled decay of matrices (AdamW)."},
    {HEED_FIELD(schedule.kind), FieldUse::fixed, words("constant, inverse_sqrt, noam, cosine"),
     "How the learning rate falls after the warm-up."},
    {HEED_FIELD(schedule.peak), FieldUse::fixed, kPositive,
     "Learning rate at the end of the warm-up; noam: the factor."},
    {HEED_FIELD(schedule.warmup), FieldUse::fixed, at_least(-1),
     "Updates in which the learning rate grows linearly. -1: a tenth of max_updates, at most 4,000."},
    {HEED_FIELD(schedule.warmup_start), FieldUse::fixed, between(0, 1e6),
     "Learning rate at the beginning of the warm-up."},
    {HEED_FIELD(schedule.total), FieldUse::fixed, at_least(0),
     "cosine: the update that reaches the floor. 0: max_updates."},
    {HEED_FIELD(schedule.floor), FieldUse::fixed, between(0, 1e6), "cosine: the last learning rate."},
    {HEED_FIELD(schedule.width), FieldUse::fixed, at_least(0), "noam: width of the model. 0: that of this model."},
    {HEED_FIELD(loss), FieldUse::fixed, words("cross_entropy, squared_error"),
     "squared_error: of scores; for sentence_embedding, of the difference between the cosine of two texts and their "
     "score. cross_entropy: of tokens, classes and pairs; sequence_regression: of scores from 0 to 1, which are "
     "probabilities then."},
    {HEED_FIELD(label_smoothing), FieldUse::fixed, kBelowOne,
     "Share of the target that is spread over the vocabulary, or over the classes. Scores are not smoothed."},
    {HEED_FIELD(consistency), FieldUse::fixed, between(0, 1e6),
     "R-Drop: each batch goes through the model twice, and this is the weight on how far the two answers differ. 0: "
     "off."},
    {HEED_FIELD(consistency_from), FieldUse::fixed, at_least(0), "Updates before consistency begins."},
    {HEED_FIELD(consistency_until), FieldUse::fixed, at_least(0),
     "The last update with consistency. Some updates without it at the end make translations longer. 0: all have it."},
    {HEED_FIELD(similarity_scale), FieldUse::fixed, kPositive,
     "sentence_embedding: cosines are multiplied by it before the softmax over the batch."},
    {HEED_FIELD(clip_norm), FieldUse::fixed, between(0, 1e30), "Largest norm of the gradient. 0: no limit."},
    {HEED_FIELD(accumulate), FieldUse::fixed, kPositive, "Batches an update."},
    {HEED_FIELD(shards), FieldUse::fixed, between(1, 1 << 20),
     "Parts of each batch whose gradients are computed one by one and added in a fixed order, so that up to this many "
     "processes (mpirun) can share the work and get the same bits."},
    {HEED_FIELD(context_parallel), FieldUse::fixed, between(1, 1 << 10),
     "language_model: cut each sequence into this many parts, so that as many processes can share a sequence that is "
     "too "
     "long for one. The gradients of the parts are added like those of shards."},
    {HEED_FIELD(compare_every), FieldUse::free, at_least(0),
     "Several processes: updates between comparisons of their weights and of a gradient that all compute. 0: never."},
    {HEED_FIELD(precision), FieldUse::fixed, words("f32, bf16"),
     "Number format of matrix products while training: bf16 where the processor multiplies it, f32 elsewhere."},
    {HEED_FIELD(batch_tokens), FieldUse::fixed, at_least(0),
     "Tokens a batch on its longer side, padding included. 0: a twentieth of the text, at least 512 and at most "
     "4,096."},
    {HEED_FIELD(batch_sentences), FieldUse::fixed, at_least(0),
     "Sentences a batch at most (language model: windows). 0: as many as batch_tokens allows."},
    {HEED_FIELD(context), FieldUse::fixed, kPositive, "language_model: tokens a window."},
    {HEED_FIELD(max_updates), FieldUse::free, at_least(0),
     "Updates after which training ends. 0: those of 60 epochs, at least 1,000 and at most 100,000; or of max_epochs, "
     "where that is given."},
    {HEED_FIELD(max_epochs), FieldUse::free, at_least(0),
     "Passes over the data after which training ends. 0: no limit."},
    {HEED_FIELD(seed), FieldUse::fixed, at_least(0),
     "Seed of the initial weights, the order of the data, dropout and subword sampling."},
    {HEED_FIELD(validate_every), FieldUse::fixed, at_least(-1),
     "Updates between validations, each with a checkpoint. 0: each epoch. -1: each epoch, but at least 100 and at most "
     "1,000 updates."},
    {HEED_FIELD(valid_beam), FieldUse::free, at_least(0), "Beam for BLEU at each validation. 0: no BLEU."},
    {HEED_FIELD(valid_tokenize), FieldUse::free, words("13a, zh, char, none"), "How BLEU cuts words."},
    {HEED_FIELD(best_by), FieldUse::fixed, words("loss, bleu, accuracy, pearson, spearman"),
     "What the best checkpoint is best by."},
    {HEED_FIELD(patience), FieldUse::free, at_least(0),
     "Validations without a better one before training stops. 0: it does not stop."},
    {HEED_FIELD(keep_last), FieldUse::free, kPositive,
     "Checkpoints to keep, beside the best one; at least average_last are kept."},
    {HEED_FIELD(checkpoint_every), FieldUse::fixed, at_least(0),
     "Updates between further checkpoints. 0: with validations only."},
    {HEED_FIELD(average_last), FieldUse::free, at_least(0),
     "The model is the mean of the last so many checkpoints. 0: it is the best one."},
    {HEED_FIELD(ema), FieldUse::fixed, kBelowOne,
     "Decay of a moving average of the weights, which is what is validated and saved. 0: off."},
    {HEED_FIELD(log_every), FieldUse::free, kPositive, "Updates between reports."},
};
#undef HEED_FIELD

constexpr Allowed kSize = {.low = 1, .high = 1 << 20};
constexpr Allowed kLayers = {.low = 0, .high = 4096};

constexpr ModelKey kModelKeys[] = {
    {"encoder_layers", kLayers, "Layers of the encoder."},
    {"decoder_layers", kLayers, "Layers of the decoder."},
    {"width", kSize, "Numbers in each token's state (E, also hidden_size or d_model)."},
    {"feed_forward", between(1, 1 << 24), "Numbers inside each feed-forward part (F, also intermediate_size)."},
    {"heads", between(1, 4096), "Attention heads a layer (H)."},
    {"key_value_heads", kLayers, "Heads of keys and values, which groups of query heads share. 0: as many as heads."},
    {"head_size", kLayers, "Size of a head's queries and keys (D, also head_dim). 0: width / heads."},
    {"value_size", kLayers, "Size of a head's values. 0: head_size."},
    {"activation", words("none, relu, gelu, gelu_tanh, silu"), "Function inside the feed-forward part."},
    {"norm_placement", words("post, pre"),
     "Normalisation after each part, as in the paper, or before it. Deep models want pre."},
    {"norm", words("layer_norm, rms_norm"), "Kind of normalisation."},
    {"norm_epsilon", kPositive, "Added to the variance in a normalisation."},
    {"final_norm", kAnything, "A normalisation after each stack of layers. With pre, set it to true."},
    {"bias", kAnything, "Biases in linear layers and normalisations."},
    {"positions", words("sinusoidal, learned, alibi, none"), "How the model knows the order of tokens."},
    {"position_layout", words("interleaved, halves"), "Sines and cosines side by side, or in two halves."},
    {"first_position", between(0, 1 << 30), "Number of the first position."},
    {"max_length", between(1, 1 << 30), "Longest sequence, in tokens."},
    {"scale_embedding", kAnything, "Embeddings are multiplied by the root of width."},
    {"share_embeddings", kAnything, "One table of embeddings for source and target. Needs shared_vocabulary."},
    {"tie_output", kAnything, "The output layer uses the table of target embeddings."},
    {"output_bias", kAnything, "A bias in the output layer."},
    {"dropout", kBelowOne, "Share of states that are set to 0 while training."},
    {"attention_dropout", kBelowOne, "Share of attention weights that are set to 0 while training."},
    {"activation_dropout", kBelowOne, "Share of feed-forward activations that are set to 0 while training."},
};

constexpr std::array<std::string_view, 8> kDecidedModelKeys = {
    "architecture", "source_vocabulary", "target_vocabulary", "padding_id", "begin_id", "end_id", "unknown_id",
    "mask_id"};

constexpr std::pair<std::string_view, ScheduleKind> kScheduleKinds[] = {{"constant", ScheduleKind::constant},
                                                                        {"inverse_sqrt", ScheduleKind::inverse_sqrt},
                                                                        {"noam", ScheduleKind::noam},
                                                                        {"cosine", ScheduleKind::cosine}};

template <class T>
std::string digits(T value) {
  char buffer[64];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

// As people write it: 1000000 and not 1e+06.
std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? digits(static_cast<int64_t>(value)) : digits(value);
}

}  // namespace

bool Allowed::holds(double value) const {
  return (above_low ? value > low : value >= low) && (below_high ? value < high : value <= high);
}

bool Allowed::holds(std::string_view word) const {
  for (std::string_view rest = words; !rest.empty();) {
    const size_t comma = rest.find(", ");
    if (rest.substr(0, comma) == word) return true;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 2);
  }
  return words.empty();
}

std::string Allowed::text() const {
  if (!words.empty()) {
    std::string list(words);
    if (const size_t last = list.rfind(", "); last != std::string::npos) list.replace(last, 2, " or ");
    return list;
  }
  const bool limited = std::isfinite(high);
  if (!std::isfinite(low)) return limited ? "at most " + number_text(high) : "";
  if (above_low) return "more than " + number_text(low) + (limited ? " and at most " + number_text(high) : "");
  if (below_high) return number_text(low) + " or more and below " + number_text(high);
  return limited ? "from " + number_text(low) + " to " + number_text(high) : number_text(low) + " or more";
}

std::span<const FieldEntry> field_table() { return kFields; }

std::span<const ModelKey> model_keys() { return kModelKeys; }

const FieldEntry* find_field(std::string_view key) {
  const auto* found = std::ranges::find(kFields, key, &FieldEntry::key);
  return found == std::end(kFields) ? nullptr : found;
}

std::string_view to_string(ScheduleKind kind) {
  for (const auto& [word, value] : kScheduleKinds) {
    if (value == kind) return word;
  }
  fail("to_string", "a schedule; found number ", static_cast<int>(kind));
}

ScheduleKind schedule_kind(std::string_view word) {
  for (const auto& [known, value] : kScheduleKinds) {
    if (known == word) return value;
  }
  fail("recipe", "schedule.kind: constant, inverse_sqrt, noam or cosine; found \"", word, "\"");
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

io::Json value_at(const io::Json& recipe, std::string_view key) {
  if (!recipe.is_object()) return nullptr;
  const size_t dot = key.find('.');
  if (dot == std::string_view::npos) return recipe.value(std::string(key), io::Json());
  return value_at(recipe.value(std::string(key.substr(0, dot)), io::Json::object()), key.substr(dot + 1));
}

bool is_decided_model_key(std::string_view key) {
  return std::ranges::find(kDecidedModelKeys, key) != kDecidedModelKeys.end();
}

models::Architecture architecture_of(std::string_view task) {
  if (task == "translation") return models::Architecture::encoder_decoder;
  if (task == "language_model") return models::Architecture::decoder_only;
  require(words(kTasks).holds(task), "recipe", "task: ", words(kTasks).text(), "; found \"", task, "\"");
  return models::Architecture::encoder_only;
}

bool starts_from_encoder(const Recipe& recipe) {
  return is_classification(recipe) || recipe.task == "sequence_regression" || recipe.task == "sentence_embedding";
}

bool has_scores(const Recipe& recipe) {
  return recipe.task == "sequence_regression" ||
         (recipe.task == "sentence_embedding" && recipe.loss == "squared_error");
}

bool is_classification(const Recipe& recipe) { return recipe.task == "sequence_classification"; }

models::Config model_from_keys(const Recipe& recipe, const std::string& where) {
  io::Json config = io::parse_json(models::to_json(models::preset(recipe.preset, architecture_of(recipe.task)))).value;
  config.update(io::parse_json(recipe.model_keys).value);
  config["source_vocabulary"] = config["target_vocabulary"] = 8;  // known once there are tokenizers
  models::Config model = models::config_from_json(io::json_text(config), where);
  model.source_vocabulary = model.target_vocabulary = 0;
  return model;
}

models::Config model_of(const Recipe& recipe) {
  return recipe.model_keys == "{}" ? recipe.model : model_from_keys(recipe, "recipe");
}

}  // namespace heed::train
