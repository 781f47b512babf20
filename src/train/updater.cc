// The two ways to update.
#include "train/updater.h"

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "distributed/agreement.h"
#include "heed/error.h"
#include "train/gradient_exchange.h"
#include "train/objective.h"
#include "train/sequence_parts.h"
#include "train/sharded_adam.h"
#include "train/tracks.h"

namespace heed::train {

namespace {

void require_finite_loss(double loss, const Recipe& recipe, int64_t number) {
  require(std::isfinite(loss), "train", "a finite loss; found ", loss, " in update ", number,
          advice_for_infinities(recipe));
}

bool is_paired(const Recipe& recipe, int64_t number) {
  const bool ended = recipe.consistency_until > 0 && number > recipe.consistency_until;
  return recipe.consistency > 0 && number > recipe.consistency_from && !ended;
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
      require_finite_loss(result.loss_sum, recipe_, number);
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
  ShardedUpdater(const Recipe& recipe, const models::Model& model, distributed::Communicator& ranks, const Grid& grid)
      : recipe_(recipe),
        ranks_(ranks),
        grid_(grid),
        flat_(model.named_parameters()),
        tracks_(model, recipe, flat_, ranks, grid),
        exchange_(ranks, flat_, grid_, tracks_.parameters()),
        adam_(ranks, flat_, exchange_.parts(), recipe.adam) {}

  UpdateResult gradients(int64_t number, const std::vector<Batch>& batches, bool stop) override {
    if (ranks_.size() > 1 && recipe_.compare_every > 0 && number % recipe_.compare_every == 0) {
      compare(number, batches);
    }
    exchange_.start();
    const ShardRange shards = grid_.shards_of(ranks_.rank());
    std::vector<std::vector<double>> losses(tracks_.count());  // of each track's leaves
    for (int64_t s = shards.begin; s < shards.end; ++s) {
      exchange_.start_shard(s);
      const std::vector<double> of_tracks =
          backward_of_shard(number, batches, s, [&](const auto& run) { exchange_.last_backward(run); });
      for (size_t t = 0; t < losses.size(); ++t) losses[t].push_back(of_tracks[t]);
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
  // Adds to the gradients of each track; returns the sums of their losses. last(run) runs the last backward pass.
  template <class Last>
  std::vector<double> backward_of_shard(int64_t number, const std::vector<Batch>& batches, int64_t s,
                                        const Last& last) {
    std::vector<std::pair<Batch, uint64_t>> shards;
    for (size_t k = 0; k < batches.size(); ++k) {
      Batch shard = shard_of(batches[k], s, recipe_.shards);
      const uint64_t stream = stream_of_batch(recipe_, number, k) * static_cast<uint64_t>(recipe_.shards);
      if (shard.tokens > 0) shards.emplace_back(std::move(shard), stream + static_cast<uint64_t>(s));
    }
    std::vector<double> sums(tracks_.count());
    tracks_.run([&](size_t track, const models::Model& model, distributed::Communicator* row) {
      for (const auto& [shard, stream] : shards) {
        const auto run = [&, &shard = shard, stream = stream](const Batch& batch) {
          const Value loss = loss_of(model, recipe_, batch, number, stream);
          sums[track] += static_cast<double>(loss.item());
          if (&shard == &shards.back().first) {
            last([&loss] { loss.backward(); });
          } else {
            loss.backward();
          }
        };
        if (row == nullptr) {
          run(shard);
        } else {
          const SequencePartScope part(*row, layout_of_parts(shard, grid_.parts()));
          run(part_of(shard, part.layout(), part.part()));
        }
      }
    });
    return sums;
  }

  // What every rank must know of all: losses of leaves, squares of blocks, and whether anybody wants to stop.
  UpdateResult merge(int64_t number, const std::vector<Batch>& batches, const std::vector<std::vector<double>>& losses,
                     bool stop) {
    const std::vector<double> squares = adam_.own_squares(sum_);
    const auto most_losses = static_cast<size_t>((recipe_.shards + grid_.rows() - 1) / grid_.rows()) * tracks_.count();
    const size_t each = 1 + most_losses + adam_.most_squares();
    std::vector<double> mine(each), all(each * static_cast<size_t>(ranks_.size()));
    mine[0] = stop ? 1.0 : 0.0;
    auto to = mine.begin() + 1;
    for (const auto& of_track : losses) to = std::copy(of_track.begin(), of_track.end(), to);
    std::copy(squares.begin(), squares.end(), mine.begin() + 1 + static_cast<std::ptrdiff_t>(most_losses));
    ranks_.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));

    UpdateResult result{.tokens = tokens_of(recipe_, batches, number)};
    std::vector<double> loss_of_leaf(static_cast<size_t>(grid_.leaves())), square_of_block;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(each) * rank;
      result.stop = result.stop || *begin != 0;
      auto loss = begin + 1;
      for (const ShardRange& range : grid_.leaves_of(rank)) {
        for (int64_t leaf = range.begin; leaf < range.end; ++leaf) loss_of_leaf[static_cast<size_t>(leaf)] = *loss++;
      }
      const auto first_square = begin + 1 + static_cast<std::ptrdiff_t>(most_losses);
      square_of_block.insert(square_of_block.end(), first_square,
                             first_square + static_cast<std::ptrdiff_t>(adam_.most_squares()));
    }
    result.loss_sum = tree_sum(loss_of_leaf);
    require_finite_loss(result.loss_sum, recipe_, number);
    result.gradient_norm = adam_.norm(square_of_block) / static_cast<double>(result.tokens);
    return result;
  }

  // All ranks compute the gradient of one shard, each time of another one. A rank with other weights, or one that
  // computes otherwise, has another gradient. Ranks that share sequences compare theirs with those of other rows.
  void compare(int64_t number, const std::vector<Batch>& batches) {
    compare_weights(number - 1);
    if (grid_.rows() == 1) return;  // no other rank computes these parts
    const int64_t s = number / recipe_.compare_every % recipe_.shards;
    std::vector<Tensor> rows;
    for (const NamedParameters& parameters : tracks_.parameters()) {
      const Tensor& row = rows.emplace_back(Tensor::zeros({flat_.size()}));
      for (size_t i = 0; i < parameters.size(); ++i) parameters[i].second.set_grad(flat_.view(row, i));
    }
    (void)backward_of_shard(number, batches, s, [](const auto& run) { run(); });
    for (const NamedParameters& parameters : tracks_.parameters()) {
      for (const auto& [name, parameter] : parameters) parameter.set_grad({});
    }
    uint64_t sum = 0;
    for (const Tensor& row : rows) sum = sum * 0x100000001b3 + checksum(row);
    distributed::require_agreement(ranks_,
                                   "gradient of shard " + std::to_string(s) + " in update " + std::to_string(number),
                                   sum, grid_.parts_of(ranks_.rank()).front());
  }

  void compare_weights(int64_t update) {
    if (ranks_.size() == 1) return;
    distributed::require_agreement(ranks_, "weights after update " + std::to_string(update), checksum(flat_.weights()));
  }

  static uint32_t checksum(const Tensor& numbers) {
    return files::crc32({static_cast<const char*>(numbers.raw()), static_cast<size_t>(numbers.nbytes())});
  }

  const Recipe recipe_;
  distributed::Communicator& ranks_;
  const Grid grid_;
  FlatParameters flat_;
  Tracks tracks_;
  GradientExchange exchange_;
  ShardedAdam adam_;
  OwnNumbers sum_;  // between gradients() and step()
};

}  // namespace

std::string advice_for_infinities(const Recipe& recipe) {
  return recipe.clip_norm > 0 ? " (a lower schedule.peak or clip_norm may help)"
                              : " (a lower schedule.peak may help, or clip_norm = 1)";
}

std::unique_ptr<Updater> make_updater(const Recipe& recipe, const models::Model& model,
                                      distributed::Communicator& ranks, const Grid& grid) {
  if (grid.leaves() == 1) return std::make_unique<WholeUpdater>(recipe, model);
  return std::make_unique<ShardedUpdater>(recipe, model, ranks, grid);
}

}  // namespace heed::train
