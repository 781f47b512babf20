// Training: optimizers, schedules, the order of the data, the loop, checkpoints, BLEU.
//
// Same seed, same bits: whatever the number of threads, and after any interruption.
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
#include <vector>

#include "heed/generate.h"
#include "heed/models.h"
#include "heed/text.h"

namespace heed::train {

// Adam (Kingma and Ba 2015); with decoupled weight decay AdamW (Loshchilov and Hutter 2019). Decay only touches matrices.
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
  double peak = 5e-4;        // learning rate at the end of the warm-up (noam: the factor before E^-0.5)
  int64_t warmup = 4000;     // updates of linear growth from warmup_start
  double warmup_start = 0;
  int64_t total = 0;         // cosine: the update at which `floor` is reached
  double floor = 0;
  int64_t width = 512;       // noam: E
  [[nodiscard]] double at(int64_t update) const;  // update 1 is the first
};

// Everything `heed train` can be told; read from TOML or JSON, every key also an option of the command.
struct Recipe {
  // data
  std::string task = "translation";   // "translation", "language_model" or "masked_language_model"
  std::string train_source, train_target, valid_source, valid_target;  // text files; one file for language models
  std::string pairs;                  // or one TSV of source <tab> target [<tab> ...]
  double valid_fraction = 0;          // of `pairs` or of a language model's text, held back from the end (text) or by hash (pairs)
  std::string tokenizer = "sentencepiece";  // "sentencepiece", "characters", "pieces"
  bool bpe = false;
  int64_t vocabulary = 8000;          // each side; or of both with shared_vocabulary
  bool shared_vocabulary = false;
  int64_t max_tokens_per_sentence = 256;  // longer ones are left out of training
  // model
  std::string preset = "small";
  models::Config model;               // the preset with the recipe's [model] keys applied
  // optimisation
  AdamOptions adam;
  Schedule schedule;
  float label_smoothing = 0.1f;
  double clip_norm = 0;               // 0: off
  int64_t accumulate = 1;             // batches an update
  int64_t batch_tokens = 4096;        // max(source, target) tokens a batch, padding included
  int64_t batch_sentences = 0;        // or this many sentences (language model: windows of `context`); 0: by tokens
  int64_t context = 256;              // language models
  int64_t max_updates = 100000;
  int64_t max_epochs = 0;             // 0: no limit
  uint64_t seed = 1;
  // validation and checkpoints
  int64_t validate_every = 0;         // updates; 0: each epoch
  int64_t valid_beam = 0;             // 0: no BLEU while training
  std::string valid_tokenize = "13a";
  std::string best_by = "loss";       // or "bleu"
  int64_t patience = 0;               // validations without a better one before stopping; 0: never
  int64_t keep_last = 5;
  int64_t checkpoint_every = 0;       // updates; 0: with each validation
  int64_t average_last = 0;           // at the end, the model is the mean of the last n checkpoints; 0: the best one
  double ema = 0;                     // decay of an exponential moving average that is validated and saved; 0: off
  int64_t log_every = 50;             // updates
};
[[nodiscard]] Recipe read_recipe(const std::filesystem::path& file);      // .toml or .json
void set_option(Recipe& recipe, std::string_view key, std::string_view value);  // "schedule.peak", "0.005"
[[nodiscard]] std::string to_json(const Recipe& recipe);

struct Progress {
  int64_t update = 0, epoch = 0, max_updates = 0;
  double loss = 0;               // mean a target token since the last report, smoothing included
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;  // target tokens
  double seconds = 0;            // since the start of training, earlier runs included
  std::optional<double> valid_loss, valid_bleu;  // set in the report of a validation; loss without smoothing, nats a token
  bool best = false;
};

enum class Outcome { finished, stopped_early, interrupted };

struct Callbacks {
  std::function<void(const Progress&)> progress;
  std::function<void(std::string_view)> message;
  const std::atomic<bool>* stop = nullptr;  // set by a signal handler: save at the end of this update and return
};

// Trains into `folder`: config.json, model.safetensors (best or averaged), the tokenizer, recipe.json, log.jsonl and
// checkpoints/. Continues there if a checkpoint exists and `resume`; without it, a folder in use is an error. A NaN loss stops with an Error.
[[nodiscard]] Outcome train(const Recipe& recipe, const std::filesystem::path& folder, bool resume,
                            const Callbacks& callbacks);

// The mean of several models' weights; all must have the same parameters.
void average_models(std::span<const std::filesystem::path> folders, const std::filesystem::path& output);

// Loss (nats a token) and perplexity of a model on parallel or plain text.
struct Evaluation {
  double loss = 0;
  double perplexity = 0;
  int64_t tokens = 0;
};

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
