// The training loop: update, report, validate, save; and what is done at the end.
#include <cmath>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/files.h"
#include "base/numbers.h"
#include "distributed/agreement.h"
#include "heed/error.h"
#include "heed/train.h"
#include "models/weights.h"
#include "train/average.h"
#include "train/checkpoint.h"
#include "train/corpus.h"
#include "train/defaults.h"
#include "train/ema.h"
#include "train/grid.h"
#include "train/log.h"
#include "train/recipe_fields.h"
#include "train/resume.h"
#include "train/run_folder.h"
#include "train/start.h"
#include "train/updater.h"
#include "train/validation.h"
#include "train/warnings.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;
using io::Json;

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return with_commas(count) + " " + (count == 1 ? one : many);
}

class Trainer {
 public:
  Trainer(const Recipe& recipe, const fs::path& folder, std::optional<LoadedCheckpoint> loaded, CheckpointStore& store,
          const Callbacks& callbacks, distributed::Communicator& ranks, const Grid& grid);
  Outcome run();

 private:
  void load_from(const LoadedCheckpoint* loaded);
  void load_text(bool continued);
  void write_beginning(bool continued);
  void announce();
  void restore(const LoadedCheckpoint& loaded);
  void update();
  [[nodiscard]] Progress progress_now() const;
  void report();
  // At the end of an epoch, or at the update to validate at. False: it was asked to stop before the validation ended.
  [[nodiscard]] bool boundary();
  Outcome interrupted(bool saved);
  void save_checkpoint(bool scheduled);
  void write_checkpoint(const std::vector<std::pair<std::string, Tensor>>& moments);
  void finish(Outcome outcome);
  [[nodiscard]] bool at_boundary() const;
  [[nodiscard]] bool out_of_patience() const {
    return recipe_.patience > 0 && state_.without_better >= recipe_.patience;
  }
  [[nodiscard]] bool out_of_updates() const {
    return state_.update >= recipe_.max_updates || (recipe_.max_epochs > 0 && state_.epoch >= recipe_.max_epochs);
  }
  [[nodiscard]] bool is_better(double value) const {
    return !state_.best || (recipe_.best_by == "loss" ? value < *state_.best : value > *state_.best);
  }
  [[nodiscard]] int64_t kept() const { return std::max(recipe_.keep_last, recipe_.average_last); }
  [[nodiscard]] double seconds() const { return earlier_seconds_ + seconds_since(started_); }
  [[nodiscard]] int64_t checkpoint_bytes() const;
  // Of several processes only rank 0 speaks and writes.
  [[nodiscard]] bool leads() const { return ranks_.rank() == 0; }
  void message(const std::string& text) const {
    if (leads() && callbacks_.message) callbacks_.message(text);
  }
  void show(const Progress& progress) const {
    if (leads() && callbacks_.progress) callbacks_.progress(progress);
  }
  void log(const Json& line) {
    if (log_) log_->write(line);
  }
  void save_model() {
    if (!leads()) return;
    const AverageScope averaged(*average_);
    train::save_model(*model_, folder_);
  }
  [[nodiscard]] bool asked_to_stop() const { return callbacks_.stop != nullptr && callbacks_.stop->load(); }

  Recipe recipe_;
  fs::path folder_;
  CheckpointStore& store_;
  const Callbacks& callbacks_;
  distributed::Communicator& ranks_;
  Clock::time_point started_ = Clock::now();
  double earlier_seconds_ = 0;

  std::optional<Start> start_;  // of recipe.from
  Corpus corpus_;
  std::unique_ptr<models::Model> model_;
  NamedParameters parameters_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<MovingAverage> average_;
  std::unique_ptr<Log> log_;  // of rank 0
  TrainingState state_;

  bool epoch_ended_ = false;
  bool stop_ = false;         // a process was asked to stop
  double learning_rate_ = 0;  // of the last update, for the report
  double gradient_norm_ = 0;
  int64_t rate_tokens_ = 0;  // since the last report of this run, for tokens/s
  double rate_seconds_ = 0;
  double rate_waited_ = 0;
  int64_t rate_bytes_ = 0, rate_updates_ = 0;
  double last_loss_ = 0, last_rate_ = 0;  // of the last report of this run
};

Trainer::Trainer(const Recipe& recipe, const fs::path& folder, std::optional<LoadedCheckpoint> loaded,
                 CheckpointStore& store, const Callbacks& callbacks, distributed::Communicator& ranks, const Grid& grid)
    : recipe_(recipe), folder_(folder), store_(store), callbacks_(callbacks), ranks_(ranks) {
  const bool continued = loaded.has_value();
  if (continued) require_same_start(recipe, loaded->state.recipe);
  if (recipe.from.empty()) {
    recipe_.model = model_of(recipe);
  } else {
    load_from(continued ? &*loaded : nullptr);
  }
  if (continued) recipe_ = with_recorded(recipe_, loaded->state.recipe);
  load_text(continued);
  const int64_t batches = corpus_.train->batches(0);
  const CompleteRecipe all =
      complete(recipe_, {.updates_an_epoch = (batches + recipe_.accumulate - 1) / recipe_.accumulate,
                         .batch_tokens = corpus_.batch_tokens});
  recipe_ = all.recipe;
  if (!all.found.empty()) message("chosen for this text: " + all.found);
  if (start_) {
    model_ = std::move(start_->model);
  } else {
    models::Config config = recipe_.model;
    fill_vocabulary(config, corpus_);
    model_ = models::create(config, recipe_.seed);
  }
  parameters_ = model_->named_parameters();
  updater_ = make_updater(recipe_, *model_, ranks_, grid);
  if (continued) restore(*loaded);
  average_ = std::make_unique<MovingAverage>(parameters_, recipe_.ema);
  if (continued && average_->active()) {
    // The checkpoint's model is the average. The weights that are trained are in the optimizer's file.
    copy_into(parameters_, loaded->optimizer, "weights.", loaded->folder.string());
  }
  loaded.reset();

  state_.data_checksum = corpus_.checksum;
  state_.recipe = to_json(recipe_);
  if (leads()) write_beginning(continued);
  announce();
}

// A run that goes on has its model in the checkpoint, and its tokenizers in its own folder.
void Trainer::load_from(const LoadedCheckpoint* loaded) {
  const fs::path from = loaded != nullptr ? loaded->folder : start_folder(recipe_);
  start_ = load_start(recipe_, from, loaded != nullptr ? folder_ : from);
  distributed::require_agreement(ranks_, "model to start from",
                                 distributed::hash_of(models::checksum(tensors_in_file(*start_->model))));
  if (loaded == nullptr) message("training starts from the model in " + files::quoted(from));
  if (!start_->note.empty()) message(start_->note);
}

// Rank 0 makes the tokenizers; the others read what it has written. Of a token cache all make their parts together.
void Trainer::load_text(bool continued) {
  const bool together = !recipe_.token_cache.empty();
  const auto load = [&](bool tokenizers_are_there) {
    corpus_ = load_corpus(
        recipe_, folder_, tokenizers_are_there, [this](std::string_view text) { message(std::string(text)); },
        {.start = start_ ? &*start_ : nullptr, .ranks = together ? &ranks_ : nullptr, .stop = callbacks_.stop});
  };
  if (leads() || together) load(continued);
  if (leads() && !continued && start_) copy_beside_model(recipe_, *start_, folder_);
  if (leads() && !continued && !start_) {
    if (corpus_.source) corpus_.source->save(folder_, text::Side::source);
    if (corpus_.target) corpus_.target->save(folder_, text::Side::target);
  }
  // Reading a long text, and training its vocabulary, may take longer than a rank is waited for elsewhere.
  const distributed::LongerTimeout patience(ranks_, distributed::LongerTimeout::kNoLimit);
  ranks_.barrier();
  if (!leads() && !together) load(true);
  distributed::require_agreement(ranks_, "training and validation text", corpus_.checksum);
}

void Trainer::write_beginning(bool continued) {
  if (!continued) {
    files::write_atomically(folder_ / "config.json", config_text(*model_), "train");
    if (!corpus_.held_back.empty()) {
      std::string lines;
      for (const std::string& line : corpus_.held_back) lines += line + "\n";
      files::write_atomically(folder_ / "heldout.tsv", lines, "train");
    }
  }
  files::write_atomically(folder_ / "recipe.json", to_json(recipe_), "train");
  log_ = std::make_unique<Log>(folder_ / "log.jsonl", continued ? state_.update : -1);

  // Room for the last n checkpoints, the best one, the one being written and the model, minus those on disk already.
  const auto there = static_cast<int64_t>(store_.updates().size());
  require_space(folder_, std::max<int64_t>(2, kept() + 3 - there), checkpoint_bytes());
  log({{"type", "start"},
       {"update", state_.update},
       {"task", recipe_.task},
       {"parameters", model_->parameter_count()},
       {"training_batches", corpus_.train->batches(state_.epoch)}});
}

void Trainer::announce() {
  if (recipe_.precision == "bf16" && !multiplies_bf16()) message(why_not_bf16());
  constexpr int64_t kMegabyte = 1000 * 1000;
  message(counted(model_->parameter_count(), "parameter", "parameters") + ", " +
          counted(corpus_.train->batches(state_.epoch), "batch", "batches") + " an epoch, checkpoints of " +
          with_commas((checkpoint_bytes() + kMegabyte - 1) / kMegabyte) + " MB");
  require(corpus_.valid || recipe_.patience == 0, "train",
          "patience: 0 where no text is held back for validation (valid_fraction or valid_source); found ",
          recipe_.patience);
  require(corpus_.valid || recipe_.best_by == "loss", "train",
          "best_by: loss where no text is held back for validation (valid_fraction or valid_source); found ",
          recipe_.best_by);
  for (const std::string& warning : warnings_of(recipe_, corpus_)) message("warning: " + warning);
  if (!corpus_.valid) message("no validation: no text is held back (valid_fraction or valid_source)");
}

int64_t Trainer::checkpoint_bytes() const {
  const int64_t copies = recipe_.ema > 0 ? 4 : 3;  // weights, two moments, and the average
  constexpr int64_t kHeaders = 1 << 20;
  return copies * model_->parameter_count() * static_cast<int64_t>(sizeof(float)) + kHeaders;
}

void Trainer::restore(const LoadedCheckpoint& loaded) {
  const std::string where = loaded.folder.string();
  const bool is_new = recipe_.from.empty();  // else the keys of [model] say which dropout rates change
  require_same_recipe(recipe_, loaded.state.recipe, is_new ? config_text(*model_) : recipe_.model_keys,
                      is_new ? files::read_all(loaded.folder / "config.json", 1 << 20, "train")
                             : io::json_text(value_at(io::parse_json(loaded.state.recipe).value, "model")));
  require(loaded.state.data_checksum == corpus_.checksum, "train", where,
          ": the training and validation text that this run was begun with; found other text");
  copy_into(parameters_, own_tensors(*model_, loaded.model, where), "", where);
  updater_->restore({loaded.optimizer.begin(), loaded.optimizer.end()}, loaded.state.adam_steps);
  state_ = loaded.state;
  earlier_seconds_ = state_.seconds;
  message("continuing after update " + std::to_string(state_.update));
}

void Trainer::update() {
  const auto start = Clock::now();
  const double waited = ranks_.seconds_waited();
  const int64_t sent = ranks_.bytes_sent();
  const int64_t number = state_.update + 1;
  const int64_t batches = corpus_.train->batches(state_.epoch);
  std::vector<Batch> data;
  for (int64_t k = 0; k < recipe_.accumulate && state_.position < batches; ++k) {
    data.push_back(corpus_.train->batch(state_.epoch, state_.position++));
  }
  const UpdateResult result = updater_->gradients(number, data, asked_to_stop());
  // Gradients are those of the sum of the losses. The update uses the mean over all its target tokens.
  gradient_norm_ = result.gradient_norm;
  require(std::isfinite(gradient_norm_), "train", "a finite gradient; its norm is ", gradient_norm_, " in update ",
          number, advice_for_infinities(recipe_));
  double scale = 1.0 / static_cast<double>(result.tokens);
  if (recipe_.clip_norm > 0 && gradient_norm_ > recipe_.clip_norm) scale *= recipe_.clip_norm / gradient_norm_;
  learning_rate_ = recipe_.schedule.at(number);
  updater_->step(static_cast<float>(learning_rate_), static_cast<float>(scale));
  average_->update(number);
  stop_ = result.stop;

  state_.update = number;
  state_.adam_steps = updater_->steps();
  state_.loss_sum += result.loss_sum;
  state_.loss_tokens += result.tokens;
  rate_tokens_ += result.tokens;
  rate_seconds_ += seconds_since(start);
  rate_waited_ += ranks_.seconds_waited() - waited;
  rate_bytes_ += ranks_.bytes_sent() - sent;
  ++rate_updates_;
  epoch_ended_ = state_.position >= batches;
  if (epoch_ended_) {
    state_.position = 0;
    ++state_.epoch;
  }
}

// What a report and a validation both say.
Progress Trainer::progress_now() const {
  return {
      .update = state_.update,
      .epoch = state_.epoch,
      .max_updates = recipe_.max_updates,
      .loss = state_.loss_tokens > 0 ? state_.loss_sum / static_cast<double>(state_.loss_tokens) : last_loss_,
      .learning_rate = learning_rate_,
      .gradient_norm = gradient_norm_,
      .tokens_per_second = rate_seconds_ > 0 ? static_cast<double>(rate_tokens_) / rate_seconds_ : last_rate_,
      .seconds = seconds(),
      .valid_loss = std::nullopt,
      .valid_bleu = std::nullopt,
      .valid_accuracy = std::nullopt,
      .valid_pearson = std::nullopt,
      .valid_spearman = std::nullopt,
  };
}

void Trainer::report() {
  Progress progress = progress_now();
  if (rate_seconds_ > 0) progress.waiting = rate_waited_ / rate_seconds_;
  if (rate_updates_ > 0) {
    progress.bytes_an_update = static_cast<double>(rate_bytes_) / static_cast<double>(rate_updates_);
  }
  log({{"type", "train"},
       {"update", progress.update},
       {"epoch", progress.epoch},
       {"loss", progress.loss},
       {"learning_rate", progress.learning_rate},
       {"gradient_norm", progress.gradient_norm},
       {"tokens_per_second", progress.tokens_per_second},
       {"seconds", progress.seconds}});
  show(progress);
  last_loss_ = progress.loss;
  last_rate_ = progress.tokens_per_second;
  state_.loss_sum = 0;
  state_.loss_tokens = 0;
  rate_tokens_ = 0;
  rate_seconds_ = 0;
  rate_waited_ = 0;
  rate_bytes_ = rate_updates_ = 0;
}

bool Trainer::at_boundary() const {
  if (out_of_updates()) return true;
  return recipe_.validate_every > 0 ? state_.update % recipe_.validate_every == 0 : epoch_ended_;
}

bool Trainer::boundary() {
  bool best = true;
  if (corpus_.valid) {
    Validation valid;
    try {
      const AverageScope averaged(*average_);
      // Several processes would have to stop together.
      const auto stop = ranks_.size() == 1 ? std::function<bool()>([this] { return asked_to_stop(); }) : nullptr;
      valid = validate_model(*model_, corpus_, recipe_, ranks_, stop);
    } catch (const ValidationStopped&) {
      state_.validated = false;  // it is done again when the training goes on
      return false;
    }
    const double value = valid.by(recipe_.best_by);
    require(std::isfinite(value), "train", "a finite validation ", recipe_.best_by, "; found ", value, " after update ",
            state_.update);
    best = is_better(value);
    state_.without_better = best ? 0 : state_.without_better + 1;
    if (best) state_.best = value;
    Json line = {{"type", "valid"}, {"update", state_.update}, {"epoch", state_.epoch}};
    valid.write(line);
    line["best"] = best;
    line["seconds"] = seconds();
    log(line);
    Progress progress = progress_now();
    valid.write(progress);
    progress.best = best;
    show(progress);
  }
  if (best) state_.best_update = state_.update;
  save_checkpoint(true);
  if (best) save_model();
  return true;
}

Outcome Trainer::interrupted(bool saved) {
  if (!saved) save_checkpoint(false);
  if (state_.best_update < 0) save_model();  // no validation has chosen a model yet: save the present one
  return Outcome::interrupted;
}

void Trainer::save_checkpoint(bool scheduled) {
  state_.scheduled = scheduled;
  state_.seconds = seconds();
  const auto moments = updater_->state();
  // Writing a large checkpoint may take longer than a rank is waited for elsewhere.
  constexpr double kSlowest = 10e6;  // bytes a second
  const distributed::LongerTimeout patience(ranks_, static_cast<double>(checkpoint_bytes()) / kSlowest);
  if (leads()) write_checkpoint(moments);
  ranks_.barrier();
}

void Trainer::write_checkpoint(const std::vector<std::pair<std::string, Tensor>>& moments) {
  io::Tensors optimizer;
  for (const auto& [name, tensor] : moments) optimizer.emplace(name, tensor);
  if (average_->active()) {
    for (const auto& [name, parameter] : parameters_) optimizer.emplace("weights." + name, parameter.data());
  }
  {
    const AverageScope averaged(*average_);
    store_.save(state_, config_text(*model_), tensors_in_file(*model_), optimizer, file_format(*model_));
  }
  store_.rotate(kept(), state_.best_update);
}

void Trainer::finish(Outcome outcome) {
  if (recipe_.average_last > 0) {
    std::vector<fs::path> files;
    for (const fs::path& checkpoint : store_.last_scheduled(recipe_.average_last)) {
      files.push_back(checkpoint / "model.safetensors");
    }
    copy_into(parameters_, own_tensors(*model_, mean_of(files), folder_.string()), "", folder_.string());
    message(files.size() == 1 ? "the model is the last checkpoint"
                              : "the model is the mean of the last " + std::to_string(files.size()) + " checkpoints");
  } else {
    const std::string where = store_.path_of(state_.best_update).string();
    copy_into(parameters_, own_tensors(*model_, store_.load_model(state_.best_update), where), "", where);
    message("the model is that of update " + std::to_string(state_.best_update));
  }
  if (leads()) train::save_model(*model_, folder_);
  Json line = {{"type", "end"},
               {"update", state_.update},
               {"outcome", outcome == Outcome::finished ? "finished" : "stopped_early"}};
  if (corpus_.valid) {
    const Validation valid = validate_model(*model_, corpus_, recipe_, ranks_);
    valid.write(line);
    message(valid.text());
  }
  line["seconds"] = seconds();
  log(line);
}

Outcome Trainer::run() {
  if (!std::exchange(state_.validated, true) && !boundary()) return interrupted(false);
  while (!out_of_updates() && !out_of_patience()) {
    update();
    bool saved = false;
    if (state_.update % recipe_.log_every == 0 || out_of_updates()) report();
    if (at_boundary()) {
      if (!boundary()) return interrupted(false);
      saved = true;
    } else if (recipe_.checkpoint_every > 0 && state_.update % recipe_.checkpoint_every == 0) {
      save_checkpoint(true);
      saved = true;
    }
    // Several processes stop together, after the update in which they heard of it.
    if ((ranks_.size() > 1 ? stop_ : asked_to_stop()) && !out_of_updates() && !out_of_patience())
      return interrupted(saved);
  }
  const Outcome outcome = out_of_updates() ? Outcome::finished : Outcome::stopped_early;
  finish(outcome);
  return outcome;
}

// Everything that only the leading process does to the folder.
Outcome lead(const Recipe& recipe, const fs::path& folder, bool resume, const Callbacks& callbacks,
             distributed::Communicator& ranks, const Grid& grid) {
  const RunFolder made(folder);
  try {
    const FolderLock lock(folder);
    const std::string mark = ranks.size() > 1 ? mark_of_this_run() : "";  // one process leaves no mark
    lock.write(mark);
    CheckpointStore store(folder, [&](std::string_view text) {
      if (callbacks.message) callbacks.message(text);
    });
    if (resume) {
      remove_half_written(folder);
    } else {
      require_unused(folder, !store.empty(), modules_to_write(recipe));
    }
    distributed::require_one_folder(ranks, folder / ".lock", mark);
    auto loaded = resume ? store.load_newest() : std::nullopt;
    int64_t update = loaded ? loaded->state.update : -1;
    ranks.broadcast(std::as_writable_bytes(std::span(&update, 1)), 0);
    if (resume && !loaded) require_only_begun(folder, callbacks.message);
    Trainer trainer(recipe, folder, std::move(loaded), store, callbacks, ranks, grid);
    return trainer.run();
  } catch (const distributed::PeerError& error) {
    // A rank that was killed leaves the folder as this process would: the run can be resumed.
    if (!resume && error.announced()) made.take_back();
    throw;
  } catch (...) {
    if (!resume) made.take_back();
    throw;
  }
}

// Older versions began trainings whose recipes name texts that nothing reads, and these go on.
void require_targets_are_read(const Recipe& recipe) {
  const bool are_read = recipe.task == "translation" || recipe.task == "sentence_embedding";
  for (const auto& [key, file] :
       {std::pair("train_target", &recipe.train_target), std::pair("valid_target", &recipe.valid_target)}) {
    require(are_read || file->empty(), "train", key, ": for translation and sentence_embedding; found task ",
            recipe.task);
  }
}

Outcome follow(const Recipe& recipe, const fs::path& folder, const Callbacks& callbacks,
               distributed::Communicator& ranks, const Grid& grid) {
  distributed::require_one_folder(ranks, folder / ".lock", "");
  CheckpointStore store = CheckpointStore::of_other_process(folder);
  int64_t update = -1;
  ranks.broadcast(std::as_writable_bytes(std::span(&update, 1)), 0);
  std::optional<LoadedCheckpoint> loaded;
  if (update >= 0) loaded = store.load(update);
  Trainer trainer(recipe, folder, std::move(loaded), store, callbacks, ranks, grid);
  return trainer.run();
}

}  // namespace

Outcome train(const Recipe& recipe, const fs::path& folder, bool resume, const Callbacks& callbacks,
              distributed::Communicator& ranks, int context_ranks) {
  if (resume) require_begun(folder);  // before what a recipe that is not there would be blamed for
  validate(recipe);
  if (!resume) require_targets_are_read(recipe);
  const Grid grid(recipe, ranks.size(), context_ranks);
  distributed::require_agreement(ranks, "version of heed", distributed::hash_of(HEED_VERSION));
  distributed::require_agreement(ranks, "recipe", distributed::hash_of(to_json(recipe)));
  if (recipe.precision == "bf16") {
    distributed::require_agreement(ranks, "way to multiply bf16", multiplies_bf16() ? 1 : 0);
  }
  return ranks.rank() == 0 ? lead(recipe, folder, resume, callbacks, ranks, grid)
                           : follow(recipe, folder, callbacks, ranks, grid);
}

Outcome train(const Recipe& recipe, const fs::path& folder, bool resume, const Callbacks& callbacks) {
  return train(recipe, folder, resume, callbacks, *distributed::single());
}

}  // namespace heed::train
