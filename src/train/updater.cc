// The two ways to update.
#include "train/updater.h"

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "distributed/agreement.h"
#include "heed/error.h"
#include "train/gradient_exchange.h"
#include "train/objective.h"
#include "train/sharded_adam.h"

namespace heed::train {

namespace {

constexpr const char* kAdvice =
    " (the weights are unchanged since the last update; a lower schedule.peak or clip_norm may help)";

void require_finite_loss(double loss, int64_t number) {
  require(std::isfinite(loss), "train", "a finite loss; found ", loss, " in update ", number, kAdvice);
}

bool is_paired(const Recipe& recipe, int64_t number) {
  return recipe.consistency > 0 && number > recipe.consistency_from;
}

// The loss of a batch, or of a shard of it, that is not empty. `stream` numbers the dropouts: nothing else draws from
// it.
Value loss_of(const models::Model& model, const Recipe& recipe, const Batch& batch, int64_t number, uint64_t stream) {
  const bool paired = is_paired(recipe, number);
  const TrainingScope training(recipe.seed, stream);
  const ops::MatmulPrecisionScope precision(ops::parse_precision(recipe.precision));
  return loss_sum(model, paired ? twice(batch) : batch, {recipe.label_smoothing, paired ? recipe.consistency : 0.0f});
}

int64_t tokens_of(const Recipe& recipe, const std::vector<Batch>& batches, int64_t number) {
  int64_t tokens = 0;
  for (const Batch& batch : batches) tokens += batch.tokens;
  return is_paired(recipe, number) ? 2 * tokens : tokens;
}

uint64_t stream_of_batch(const Recipe& recipe, int64_t number, size_t k) {
  return static_cast<uint64_t>(number * recipe.accumulate) + k;
}

class WholeUpdater : public Updater {
 public:
  WholeUpdater(const Recipe& recipe, const models::Model& model)
      : recipe_(recipe), model_(model), adam_(model.named_parameters(), recipe.adam) {}

  UpdateResult gradients(int64_t number, const std::vector<Batch>& batches, bool stop) override {
    UpdateResult result{.tokens = tokens_of(recipe_, batches, number), .stop = stop};
    for (size_t k = 0; k < batches.size(); ++k) {
      const Value loss = loss_of(model_, recipe_, batches[k], number, stream_of_batch(recipe_, number, k));
      result.loss_sum += static_cast<double>(loss.item());
      require_finite_loss(result.loss_sum, number);
      loss.backward();
    }
    result.gradient_norm = adam_.gradient_norm() / static_cast<double>(result.tokens);
    return result;
  }
  void step(float learning_rate, float scale) override { adam_.step(learning_rate, scale); }
  int64_t steps() const override { return adam_.steps(); }
  std::vector<std::pair<std::string, Tensor>> state() override { return adam_.state(); }
  void restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) override {
    adam_.restore(state, steps);
  }

 private:
  const Recipe recipe_;
  const models::Model& model_;
  Adam adam_;
};

class ShardedUpdater : public Updater {
 public:
  ShardedUpdater(const Recipe& recipe, const models::Model& model, distributed::Communicator& ranks)
      : recipe_(recipe),
        model_(model),
        ranks_(ranks),
        flat_(model.named_parameters()),
        exchange_(ranks, flat_, recipe.shards),
        adam_(ranks, flat_, exchange_.parts(), recipe.adam) {}

  UpdateResult gradients(int64_t number, const std::vector<Batch>& batches, bool stop) override {
    if (ranks_.size() > 1 && recipe_.compare_every > 0 && number % recipe_.compare_every == 0) {
      compare(number, batches);
    }
    exchange_.start();
    std::vector<double> losses;
    for (int64_t s = exchange_.own_shards().begin; s < exchange_.own_shards().end; ++s) {
      exchange_.start_shard(s);
      losses.push_back(backward_of_shard(number, batches, s));
      exchange_.finish_shard();
    }
    sum_ = exchange_.sum();
    return merge(number, batches, losses, stop);
  }
  void step(float learning_rate, float scale) override { adam_.step(sum_, learning_rate, scale); }
  int64_t steps() const override { return adam_.steps(); }
  std::vector<std::pair<std::string, Tensor>> state() override {
    compare_weights(steps());  // no checkpoint of weights that differ
    return adam_.gather_state();
  }
  void restore(const std::vector<std::pair<std::string, Tensor>>& state, int64_t steps) override {
    adam_.restore(state, steps);
  }

 private:
  // Adds to the gradients; returns the sum of the losses.
  double backward_of_shard(int64_t number, const std::vector<Batch>& batches, int64_t s) {
    double sum = 0;
    std::vector<std::pair<Batch, uint64_t>> parts;
    for (size_t k = 0; k < batches.size(); ++k) {
      Batch shard = shard_of(batches[k], s, recipe_.shards);
      const uint64_t stream = stream_of_batch(recipe_, number, k) * static_cast<uint64_t>(recipe_.shards);
      if (shard.tokens > 0) parts.emplace_back(std::move(shard), stream + static_cast<uint64_t>(s));
    }
    for (const auto& [shard, stream] : parts) {
      const Value loss = loss_of(model_, recipe_, shard, number, stream);
      sum += static_cast<double>(loss.item());
      if (&shard == &parts.back().first) {
        exchange_.last_backward([&loss = loss] { loss.backward(); });
      } else {
        loss.backward();
      }
    }
    return sum;
  }

  // What every rank must know of all: losses of shards, squares of blocks, and whether anybody wants to stop.
  UpdateResult merge(int64_t number, const std::vector<Batch>& batches, const std::vector<double>& losses, bool stop) {
    const std::vector<double> squares = adam_.own_squares(sum_);
    const auto most_losses = static_cast<size_t>((recipe_.shards + ranks_.size() - 1) / ranks_.size());
    const size_t each = 1 + most_losses + adam_.most_squares();
    std::vector<double> mine(each), all(each * static_cast<size_t>(ranks_.size()));
    mine[0] = stop ? 1.0 : 0.0;
    std::copy(losses.begin(), losses.end(), mine.begin() + 1);
    std::copy(squares.begin(), squares.end(), mine.begin() + 1 + static_cast<std::ptrdiff_t>(most_losses));
    ranks_.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));

    UpdateResult result{.tokens = tokens_of(recipe_, batches, number)};
    std::vector<double> loss_of_shard, square_of_block;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(each) * rank;
      result.stop = result.stop || *begin != 0;
      const int64_t count = shards_of(rank, ranks_.size(), recipe_.shards).count();
      loss_of_shard.insert(loss_of_shard.end(), begin + 1, begin + 1 + count);
      const auto first_square = begin + 1 + static_cast<std::ptrdiff_t>(most_losses);
      square_of_block.insert(square_of_block.end(), first_square,
                             first_square + static_cast<std::ptrdiff_t>(adam_.most_squares()));
    }
    result.loss_sum = tree_sum(loss_of_shard);
    require_finite_loss(result.loss_sum, number);
    result.gradient_norm = adam_.norm(square_of_block) / static_cast<double>(result.tokens);
    return result;
  }

  // All ranks compute the gradient of one shard, each time of another one. A rank with other weights, or one that
  // computes otherwise, has another gradient.
  void compare(int64_t number, const std::vector<Batch>& batches) {
    const int64_t s = number / recipe_.compare_every % recipe_.shards;
    const Tensor row = Tensor::zeros({flat_.size()});
    const NamedParameters& parameters = flat_.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].second.set_grad(flat_.view(row, i));
    double loss = 0;
    for (size_t k = 0; k < batches.size(); ++k) {
      const Batch shard = shard_of(batches[k], s, recipe_.shards);
      if (shard.tokens == 0) continue;
      const uint64_t stream = stream_of_batch(recipe_, number, k) * static_cast<uint64_t>(recipe_.shards);
      const Value value = loss_of(model_, recipe_, shard, number, stream + static_cast<uint64_t>(s));
      loss += static_cast<double>(value.item());
      value.backward();
    }
    for (const auto& [name, parameter] : parameters) parameter.set_grad({});
    compare_weights(number - 1);
    distributed::require_agreement(
        ranks_, "gradient of shard " + std::to_string(s) + " in update " + std::to_string(number), checksum(row));
  }

  void compare_weights(int64_t update) {
    if (ranks_.size() == 1) return;
    distributed::require_agreement(ranks_, "weights after update " + std::to_string(update), checksum(flat_.weights()));
  }

  static uint32_t checksum(const Tensor& numbers) {
    return files::crc32({static_cast<const char*>(numbers.raw()), static_cast<size_t>(numbers.nbytes())});
  }

  const Recipe recipe_;
  const models::Model& model_;
  distributed::Communicator& ranks_;
  FlatParameters flat_;
  GradientExchange exchange_;
  ShardedAdam adam_;
  OwnNumbers sum_;  // between gradients() and step()
};

}  // namespace

std::unique_ptr<Updater> make_updater(const Recipe& recipe, const models::Model& model,
                                      distributed::Communicator& ranks) {
  require(ranks.size() <= recipe.shards, "train",
          "as many shards as processes, or more; found shards = ", recipe.shards, " and ", ranks.size(), " processes");
  if (recipe.shards == 1) return std::make_unique<WholeUpdater>(recipe, model);
  return std::make_unique<ShardedUpdater>(recipe, model, ranks);
}

}  // namespace heed::train
