// Training: optimizers, schedules, the order of the data, the loop, checkpoints, BLEU.
//
// The same seed gives the same bits, for any number of threads and after any interruption.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/distributed.h"
#include "heed/error.h"
#include "heed/export.h"
#include "heed/generate.h"
#include "heed/models.h"
#include "heed/text.h"

HEED_EXPORT_BEGIN
namespace heed::train {

// Adam (Kingma and Ba 2015); with decoupled weight decay AdamW (Loshchilov and Hutter 2019). Only matrices
// decay.
struct AdamOptions {
  float beta1 = 0.9f;
  float beta2 = 0.98f;
  float epsilon = 1e-9f;
  float weight_decay = 0.0f;
};

class Adam {
 public:
  Adam(std::vector<std::pair<std::string, Value>> parameters, const AdamOptions& options);
  // The Euclidean norm of all gradients together, summed in a fixed order.
  [[nodiscard]] double gradient_norm() const;
  // One update with gradients multiplied by `gradient_scale`, then gradients are zeroed.
  void step(float learning_rate, float gradient_scale = 1.0f);
  [[nodiscard]] int64_t steps() const { return steps_; }
  // "first.<path>", "second.<path>": the two moments, for checkpoints.
  [[nodiscard]] std::vector<std::pair<std::string, Tensor>> state() const;
  void restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps);

 private:
  struct Slot {
    std::string name;
    Value parameter;
    Tensor first, second;
  };
  std::vector<Slot> slots_;
  AdamOptions options_;
  int64_t steps_ = 0;
};

enum class ScheduleKind { constant, inverse_sqrt, noam, cosine };
struct Schedule {
  ScheduleKind kind = ScheduleKind::inverse_sqrt;
  double peak = 5e-4;     // learning rate at the end of the warm-up (noam: the factor before E^-0.5)
  int64_t warmup = 4000;  // updates of linear growth from warmup_start
  double warmup_start = 0;
  int64_t total = 0;  // cosine: the update at which `floor` is reached
  double floor = 0;
  int64_t width = 0;                              // noam: E; a recipe's 0 is the model's
  [[nodiscard]] double at(int64_t update) const;  // update 1 is the first
};

// The settings of a training, read from TOML or JSON; each key is also an option of `heed train`. Keys are the members'
// names; adam, schedule and model are tables. [model] takes the keys of models::Config, except those that the task and
// the tokenizer decide, and changes the preset.
struct Recipe {
  // data
  // "translation", "language_model", "masked_language_model", "sequence_classification", "sequence_regression" or
  // "sentence_embedding"
  std::string task = "translation";
  // Text files. Language models have one. Classifiers too: lines of text <tab> label, or of text <tab> text <tab>
  // label; and regressions, with a number in place of the label.
  std::string train_source, train_target, valid_source, valid_target;
  std::string pairs;  // or one TSV of source <tab> target [<tab> anything]
  // Of a model of several languages that `from` names: those of the texts, as its vocabulary spells them ("fra_Latn",
  // "fr_XX", "fr").
  std::string source_language, target_language;
  double valid_fraction =
      0;  // held back for validation: of a language model's text the end, of other text by a hash of the first column
  std::string token_cache;  // a folder for the tokens of a text that is larger than memory; empty: they are in memory
  std::string tokenizer = "sentencepiece";  // "sentencepiece", "characters", "pieces"
  bool bpe = false;
  int64_t vocabulary = 8000;  // each side; or of both with shared_vocabulary
  bool shared_vocabulary = false;
  int64_t vocabulary_lines = 2'000'000;   // sentencepiece: of a longer text the seed draws so many to train on
  int64_t max_tokens_per_sentence = 256;  // longer ones are left out of training; classified texts are cut
  double subword_sampling = 0;          // alpha: each epoch draws segmentations anew, see text::SubwordSampler; 0: off
  int64_t subword_sampling_epochs = 0;  // epochs that draw; later ones read the most probable segmentation; 0: all
  // model
  std::string from;  // the folder of a model, or its name in the cache of Hugging Face's tools: training starts from
                     // its weights, configuration and tokenizers, and of [model] only dropout rates change; empty: anew
  std::string preset = "small";
  models::Config model = models::preset("small");  // the preset with the recipe's [model] keys applied
  std::string model_keys = "{}";  // the [model] keys as JSON; if there are any, they and the preset replace `model`
  // optimisation
  AdamOptions adam;
  Schedule schedule{.warmup = -1};
  std::string loss = "cross_entropy";  // or "squared_error": of scores, see train()
  float label_smoothing = 0.1f;
  float consistency = 0;          // R-Drop: every batch goes through the model twice, see CrossEntropyOptions; 0: off
  int64_t consistency_from = 0;   // R-Drop begins after so many updates
  int64_t consistency_until = 0;  // and ends after so many; 0: with the training
  float similarity_scale = 20;    // sentence_embedding: of cosines
  double clip_norm = 0;           // 0: off
  int64_t accumulate = 1;         // batches an update
  int64_t shards = 1;  // parts of each batch whose gradients are computed alone, so by as many processes at most
  int64_t context_parallel = 1;   // language models: parts of each sequence, for as many ranks, see train()
  int64_t compare_every = 50;     // updates between comparisons of the weights and a gradient among processes; 0: never
  std::string precision = "f32";  // or "bf16": of matrix products while training, see ops::MatmulPrecisionScope
  int64_t batch_tokens = 0;  // max(source, target) tokens a batch, padding included; 0: 4,096, or what suits the data
  int64_t batch_sentences = 0;  // or this many sentences (language model: windows of `context`); 0: by tokens
  int64_t context = 256;        // language models
  int64_t max_updates = 0;      // 0: as many as suit the data
  int64_t max_epochs = 0;       // 0: no limit
  uint64_t seed = 1;
  // validation and checkpoints
  int64_t validate_every = -1;  // updates; 0: each epoch; -1: each epoch, where that is not too often or too seldom
  int64_t valid_beam = 0;       // 0: no BLEU while training
  std::string valid_tokenize = "13a";
  std::string best_by = "loss";  // or "bleu", "accuracy", "pearson" or "spearman"
  int64_t patience = 0;          // validations without a better one before stopping; 0: never
  int64_t keep_last = 2;         // checkpoints, beside the best one: the second serves if the first is damaged
  int64_t checkpoint_every = 0;  // updates; 0: with each validation
  int64_t average_last = 0;      // at the end, the model is the mean of the last n checkpoints; 0: the best one
  double ema = 0;                // decay of a moving average of the weights, which is validated and saved; 0: off
  int64_t log_every = 50;        // updates
};
// .toml or .json. Unknown keys and wrong types are errors that name the file, the line (TOML) and the key. Relative
// paths are taken from `data_root`, or from the recipe's own folder where that is empty. `change` may set more keys
// before validate(): a key of the file may need one that is not there.
[[nodiscard]] Recipe read_recipe(const std::filesystem::path& file, const std::filesystem::path& data_root = {},
                                 const std::function<void(Recipe&)>& change = {});
void set_option(Recipe& recipe, std::string_view key, std::string_view value);  // "schedule.peak", "0.005"
[[nodiscard]] std::string to_json(const Recipe& recipe);
// Throws Error, naming the key, for values that are out of range or do not fit together. train() does so first.
void validate(const Recipe& recipe);

// Every key, for help texts.
struct RecipeField {
  std::string key;           // "schedule.peak"
  std::string default_text;  // "0.0005"
  std::string help;
  std::string type;     // "text", "number", "integer" or "true|false"
  std::string allowed;  // "more than 0", "f32 or bf16"; empty: any text or number
};
[[nodiscard]] std::vector<RecipeField> recipe_fields();

struct Progress {
  int64_t update = 0, epoch = 0, max_updates = 0;
  // Mean a target token since the last report, smoothing included. Where no update was made since (a validation that
  // follows a report), it is that of the last report of this run, and so is tokens_per_second; 0 where there was none.
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;  // target tokens
  double seconds = 0;            // since the start of training, earlier runs included
  // Several processes, since the last report: the share of the time that this one waited for others, and the bytes that
  // it sent them in each update.
  double waiting = 0;
  double bytes_an_update = 0;
  // Set in the report of a validation; loss without smoothing, nats a token, or a text that has a class.
  std::optional<double> valid_loss, valid_bleu, valid_accuracy;
  std::optional<double> valid_pearson, valid_spearman;  // of scores
  bool best = false;
};

// train() was asked to stop before the first update, while it made tokens of the text.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& text) : Error(text) {}
};

enum class Outcome { finished, stopped_early, interrupted };

struct Callbacks {
  std::function<void(const Progress&)> progress = {};
  std::function<void(std::string_view)> message = {};
  const std::atomic<bool>* stop = nullptr;  // set by a signal handler: save at the end of this update and return
};

// Trains and writes into `folder`: config.json, model.safetensors (best or averaged), the tokenizer, recipe.json,
// log.jsonl, heldout.tsv (the lines of `pairs` that were held back) and checkpoints/. With `resume` it continues the
// training of that folder, and ends with the same bits as a run that was never interrupted. Throws Error where `resume`
// finds no training, where a new training finds one, and where another process trains in the folder. A NaN or infinite
// loss or gradient is an Error before the weights are touched. A new run that fails before its first checkpoint removes
// what it wrote.
//
// A classifier starts from an encoder (recipe.from). A head that tells all labels of the training text stays; otherwise
// it gets a new one for them, as transformers' ForSequenceClassification has it. What is said of tokens is said of
// texts then: losses are nats a text.
//
// sequence_regression: the head has one number. With loss = "cross_entropy" it is the logit of a score from 0 to 1, and
// the loss their binary cross entropy (CrossEncoder of sentence-transformers); with "squared_error" it is the score,
// and the loss the square of the difference (transformers' regression). A head with one number stays, any other is new.
//
// sentence_embedding: pairs of texts that belong together. The loss of a pair is the cross entropy of its own second
// text among those of all pairs of the batch, or of the shard where the recipe has several; the logits are cosines of
// pooled states times similarity_scale. With label_smoothing = 0 (the default is 0.1) this is
// MultipleNegativesRankingLoss of sentence-transformers. Its modules.json is followed and copied, and its Dense modules
// are trained too. With loss = "squared_error" each pair has a score, and the loss is the square of what its cosine
// differs from that (CosineSimilarityLoss).
//
// With recipe.from, a model of others (models::Model::origin()) stays in the layout of its folder: checkpoints and the
// final model are folders that transformers and models::load() read, with weights in f32.
//
// Checkpoints are checkpoints/step-00001234: config.json, model.safetensors (a folder that models::load() reads),
// modules.safetensors (of Dense modules), optimizer.safetensors and state.json, written aside, synced, verified and
// renamed.
//
// log.jsonl has one JSON object a line, each with "type" and "update":
//   "start": task, parameters, training_batches;  "train": epoch, loss, learning_rate, gradient_norm,
//   tokens_per_second, seconds;  "valid": epoch, loss, perplexity (of classifiers accuracy), bleu (where computed),
//   best, seconds;  "end": outcome, and loss, perplexity or accuracy, and bleu of the final model. Scores have pearson
//   and spearman in place of perplexity.
//
// The source side of a translation model ends with the end id: give generate::translate() the tokenizer's ids and
// `end`.
//
// Where all ranks of `ranks` call it, they train one model together: each computes the gradients of some of the
// recipe's shards. The model, the log's losses and every checkpoint have the bits of one process with the same recipe,
// and any number of ranks up to recipe.shards can go on from any checkpoint. With recipe.context_parallel = C, groups
// of C ranks share the sequences of a shard, each a part of every sequence, where the number of ranks is a multiple of
// C; so up to C times recipe.shards ranks. Otherwise, or with context_ranks = 1, each rank computes all C parts of its
// shards side by side: the same bits. All ranks must see `folder`; rank 0 writes it, and only its callbacks are called
// (but every rank's `stop` stops all). Throws PeerError where a rank is lost, and Error on all ranks where recipes,
// texts, weights or gradients differ.
[[nodiscard]] Outcome train(const Recipe& recipe, const std::filesystem::path& folder, bool resume,
                            const Callbacks& callbacks);
[[nodiscard]] Outcome train(const Recipe& recipe, const std::filesystem::path& folder, bool resume,
                            const Callbacks& callbacks, distributed::Communicator& ranks, int context_ranks = 0);

struct AverageOptions {
  DType dtype = DType::f32;  // of the weights written: f16 or bf16 take half the size and are computed with in f32
  bool overwrite = false;    // whether `output` may hold something already
};
// The mean of several models' weights, those of Dense modules included; all must have the same parameters.
// Configuration, tokenizer and modules.json with its folders come from the first folder (or, for a checkpoint, from the
// run it belongs to). Throws Error where `output` is one of the folders.
void average_models(std::span<const std::filesystem::path> folders, const std::filesystem::path& output,
                    const AverageOptions& options = {});

// Loss and perplexity of a model on text. Every target token counts, the end token included; nothing is smoothed or
// dropped.
struct Evaluation {
  double loss = 0;        // nats a token
  double perplexity = 0;  // e^loss
  int64_t tokens = 0;
  int64_t sentences = 0;                // or windows of a language model
  int64_t left_out = 0;                 // sentences that are empty or longer than the model's max_length
  std::optional<double> accuracy = {};  // classifiers: the share of texts whose likeliest class is right; loss a text
  // Of models that score texts: how their scores go with those of the text, by value and by rank; 0 where either are
  // all equal, NaN where one is not finite. Loss a text.
  std::optional<double> pearson = {}, spearman = {};
};
struct EvaluateOptions {
  int64_t batch_tokens = 4096;
  int64_t context = 0;  // language models: the stream is cut into windows of this length; 0: the model's max_length
  uint64_t seed = 1;    // masked language models: which tokens are masked
  std::string source_language = {}, target_language = {};  // of models of several languages, as in Recipe
  // Ranks that share the work: all of them call the function, with the same model and text, and get the same bits as
  // one alone.
  distributed::Communicator* ranks = nullptr;
};
// Translation: ids without begin and end, sources[i] and targets[i] are a pair.
[[nodiscard]] Evaluation evaluate(const models::Transformer& model, std::span<const text::Ids> sources,
                                  std::span<const text::Ids> targets, const EvaluateOptions& options = {});
// The same with what the tokenizers of the model's folder put around a text: for models that others trained.
[[nodiscard]] Evaluation evaluate(const models::Transformer& model, const text::Tokenizer& source,
                                  const text::Tokenizer& target, std::span<const text::Ids> sources,
                                  std::span<const text::Ids> targets, const EvaluateOptions& options = {});
// A language model on one long stream; windows do not overlap, every token but the first is predicted once.
[[nodiscard]] Evaluation evaluate(const models::Gpt& model, std::span<const int32_t> stream,
                                  const EvaluateOptions& options = {});
// A masked language model on sentences, ids without begin and end.
[[nodiscard]] Evaluation evaluate(const models::Bert& model, std::span<const text::Ids> sentences,
                                  const EvaluateOptions& options = {});
// Any model with its folder, on text files (plain or gzip), through the folder's tokenizer. `target` is empty for
// language models. The tokenizer of a decoder-only model is its target side, that of an encoder-only one its source
// side. The text of a classifier has lines of text <tab> label, or of text <tab> text <tab> label; that of a model
// with one label has scores there.
[[nodiscard]] Evaluation evaluate(const models::Model& model, const std::filesystem::path& folder,
                                  const std::filesystem::path& source, const std::filesystem::path& target,
                                  const EvaluateOptions& options = {});

// Lines as the stream that language models are trained on: characters keep the line ends as a token of their own; other
// tokenizers get the end id after each line.
[[nodiscard]] text::Ids stream_of(std::span<const std::string> lines, const text::Tokenizer& tokenizer);

// Lines of source <tab> target [<tab> anything]. Lines with the same source are one entry with several references.
struct Pairs {
  std::vector<std::string> sources;
  std::vector<std::vector<std::string>> targets;  // of each source
};
[[nodiscard]] Pairs read_pairs(const std::filesystem::path& tsv);

// BLEU exactly as sacreBLEU 2 computes it: corpus level, order 4, "exp" smoothing. Post 2018.
struct BleuOptions {
  std::string tokenize = "13a";  // "13a", "zh", "char", "none"
  bool lowercase = false;
};
struct Bleu {
  double score = 0;  // 0 .. 100
  double precisions[4] = {};
  double brevity_penalty = 0;
  int64_t system_length = 0;
  int64_t reference_length = 0;
};
// references[r][i] is the r-th reference of sentence i; an empty string stands for "no such reference".
[[nodiscard]] Bleu bleu(std::span<const std::string> system, std::span<const std::vector<std::string>> references,
                        const BleuOptions& options = {});
[[nodiscard]] std::string to_string(const Bleu& bleu);  // "BLEU = 41.02 71.0/47.5/34.3/24.5 (BP = 0.999 ...)"

}  // namespace heed::train
HEED_EXPORT_END
