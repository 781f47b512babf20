// Several processes train one model: threads as ranks. What they write has the bits of one process.
#include <atomic>
#include <map>
#include <thread>

#include "heed/autograd.h"
#include "heed/cpu.h"
#include "heed/distributed.h"
#include "heed/ops.h"
#include "ranks.h"
#include "toy.h"
#include "train/flat_parameters.h"
#include "train/parts.h"
#include "train/shards.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using distributed::Communicator;

Recipe sharded_recipe(const fs::path& folder, int64_t shards) {
  Recipe recipe = copy_recipe(folder);
  recipe.shards = shards;
  recipe.max_updates = 12;
  recipe.validate_every = 5;
  recipe.checkpoint_every = 3;
  recipe.compare_every = 2;
  recipe.clip_norm = 1.0;
  recipe.adam.weight_decay = 0.01f;
  return recipe;
}

class Parallel : public OneThread {
 protected:
  const TemporaryFolder folder_;
};

TEST_F(Parallel, AnyNumberOfProcessesGivesTheSameBits) {
  for (const int64_t shards : {2, 3, 5}) {
    const Recipe recipe = sharded_recipe(folder_.path(), shards);
    const fs::path alone = folder_ / ("alone" + std::to_string(shards));
    EXPECT_EQ(train(recipe, alone, false, {}), Outcome::finished);
    for (int ranks = 2; ranks <= shards; ++ranks) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(shards) + " shards");
      const fs::path together = folder_ / (std::to_string(shards) + "-" + std::to_string(ranks));
      EXPECT_EQ(train_on(ranks, recipe, together, false), Outcome::finished);
      expect_same(alone, together);
    }
  }
}

TEST_F(Parallel, WithEverythingThatDrawsOrAverages) {
  Recipe recipe = sharded_recipe(folder_.path(), 4);
  recipe.accumulate = 2;
  recipe.consistency = 2;
  recipe.consistency_from = 4;
  recipe.ema = 0.9;
  recipe.average_last = 2;
  recipe.valid_beam = 2;
  recipe.best_by = "bleu";
  EXPECT_EQ(train(recipe, folder_ / "alone", false, {}), Outcome::finished);
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    const fs::path together = folder_ / std::to_string(ranks);
    EXPECT_EQ(train_on(ranks, recipe, together, false), Outcome::finished);
    expect_same(folder_ / "alone", together);
  }
}

TEST_F(Parallel, ModelsOfSeveralMessages) {
  Recipe recipe = sharded_recipe(folder_.path(), 3);
  recipe.max_updates = 4;
  recipe.validate_every = 4;
  recipe.checkpoint_every = 2;
  recipe.model.width = 256;
  recipe.model.feed_forward = 2048;
  recipe.model.heads = 4;
  EXPECT_EQ(train(recipe, folder_ / "alone", false, {}), Outcome::finished);
  for (const int ranks : {2, 3}) {
    SCOPED_TRACE(ranks);
    EXPECT_EQ(train_on(ranks, recipe, folder_ / std::to_string(ranks), false), Outcome::finished);
    expect_same(folder_ / "alone", folder_ / std::to_string(ranks));
  }
}

TEST(PartsOfRanks, CoverTheRowOnce) {
  NamedParameters parameters;
  for (const int64_t count : {1500000, 7, 900000, 2100000}) {
    parameters.emplace_back("p" + std::to_string(count), Value(Tensor::zeros({count}), true));
  }
  const FlatParameters flat(parameters);
  for (const int ranks : {1, 2, 3, 4, 8, 40}) {
    const Parts parts(flat, ranks);
    int64_t at = 0;
    for (const Part& part : parts.all()) {
      ASSERT_EQ(part.begin, at);
      at = part.end;
    }
    EXPECT_EQ(at, flat.size());
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t local = 0;
      for (const Part& part : parts.of(rank)) {
        ASSERT_EQ(part.local, local);
        local += part.end - part.begin;
      }
      EXPECT_EQ(local, parts.size_of(rank));
      EXPECT_LE(local, flat.size() / ranks + 2 * flat.size() / static_cast<int64_t>(parts.all().size()));
    }
    if (ranks == 2) {
      EXPECT_EQ(parts.all().size(), 8u);
    }
  }
}

TEST_F(Parallel, LanguageModels) {
  for (const char* const task : {"language_model", "masked_language_model"}) {
    SCOPED_TRACE(task);
    Recipe recipe = sharded_recipe(folder_.path(), 3);
    recipe.task = task;
    recipe.train_target = recipe.valid_target = "";
    recipe.shared_vocabulary = false;
    recipe.model = models::preset("tiny", recipe.task == "language_model" ? models::Architecture::decoder_only
                                                                          : models::Architecture::encoder_only);
    recipe.model.decoder_layers = recipe.model.encoder_layers = 1;
    recipe.model.width = 32;
    recipe.model.feed_forward = 64;
    recipe.model.heads = 2;
    recipe.model.max_length = 32;
    recipe.context = 16;
    const fs::path alone = folder_ / (recipe.task + "1"), together = folder_ / (recipe.task + "2");
    EXPECT_EQ(train(recipe, alone, false, {}), Outcome::finished);
    EXPECT_EQ(train_on(2, recipe, together, false), Outcome::finished);
    expect_same(alone, together);
  }
}

TEST_F(Parallel, ACheckpointGoesOnWithAnyNumberOfProcesses) {
  Recipe recipe = sharded_recipe(folder_.path(), 5);
  recipe.keep_last = 20;
  EXPECT_EQ(train(recipe, folder_ / "whole", false, {}), Outcome::finished);
  // 3 ranks stop after update 4, 1 goes on to 6, 5 to 9, and 2 to the end.
  const std::pair<int, int64_t> parts[] = {{3, 4}, {1, 6}, {5, 9}, {2, 12}};
  bool resume = false;
  for (const auto& [ranks, until] : parts) {
    // Rank 1, where there is one, is asked; all stop together.
    std::atomic<bool> asked{false}, others{false};
    const auto callbacks = [&, last = until, whom = std::min(1, ranks - 1)](int rank) {
      Callbacks mine;
      mine.stop = rank == whom ? &asked : &others;
      if (rank == 0) mine.progress = [&asked, last](const Progress& p) { asked = p.update >= last && last < 12; };
      return mine;
    };
    recipe.log_every = 1;
    EXPECT_EQ(train_on(ranks, recipe, folder_ / "parts", resume, callbacks),
              until < 12 ? Outcome::interrupted : Outcome::finished);
    resume = true;
  }
  const auto whole = weights_in(folder_ / "whole"), in_parts = weights_in(folder_ / "parts");
  EXPECT_TRUE(whole.at("model.safetensors") == in_parts.at("model.safetensors"));
  EXPECT_TRUE(whole.at("checkpoints/step-00000012/optimizer.safetensors") ==
              in_parts.at("checkpoints/step-00000012/optimizer.safetensors"));
}

TEST_F(Parallel, InstructionSetsMayDiffer) {
  const std::vector<Isa> isas = available_isas();
  if (isas.size() < 2) GTEST_SKIP() << "one instruction set only";
  const Recipe recipe = sharded_recipe(folder_.path(), 2);
  const Isa before = active_isa();
  std::map<std::string, std::string> first;
  for (const Isa isa : isas) {
    set_isa(isa);
    const fs::path folder = folder_ / std::string(to_string(isa));
    EXPECT_EQ(train_on(2, recipe, folder, false), Outcome::finished);
    if (first.empty()) first = weights_in(folder);
    EXPECT_TRUE(first == weights_in(folder)) << to_string(isa);
  }
  set_isa(before);
}

TEST_F(Parallel, MoreProcessesThanShardsAreRefused) {
  const Recipe recipe = sharded_recipe(folder_.path(), 2);
  EXPECT_EQ(heed::testing::message_of([&] { (void)train_on(3, recipe, folder_ / "run", false); }),
            "[train] as many shards as processes, or more; found shards = 2 and 3 processes");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(Parallel, OtherRecipesAreNamed) {
  const std::string text = heed::testing::message_of([&] {
    distributed::run_in_process(3, [&](Communicator& ranks) {
      Recipe recipe = sharded_recipe(folder_.path(), 4);
      if (ranks.rank() == 1) recipe.seed = 7;
      (void)train(recipe, folder_ / "run", false, {}, ranks);
    });
  });
  EXPECT_EQ(text, "[distributed] the same recipe on all ranks; rank 1 (thread) has other than the rest");
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(Parallel, AFolderThatARankDoesNotSeeIsNamed) {
  const Recipe recipe = sharded_recipe(folder_.path(), 2);
  const std::string text = heed::testing::message_of([&] {
    distributed::run_in_process(2, [&](Communicator& ranks) {
      (void)train(recipe, folder_ / ("run" + std::to_string(ranks.rank())), false, {}, ranks);
    });
  });
  // Each rank names its own folder. Rank 0 may hear of rank 1's error before it has found its own.
  const auto named = [&](const char* run) {
    return "[distributed] \"" + (folder_ / run).string() +
           "\": a folder that all ranks share; rank 1 (thread) does not see what rank 0 writes there";
  };
  EXPECT_TRUE(text == named("run0") || text == named("run1")) << text;
}

TEST_F(Parallel, AnotherNumberOfShardsIsAnotherRecipe) {
  Recipe recipe = sharded_recipe(folder_.path(), 2);
  EXPECT_EQ(train_on(2, recipe, folder_ / "run", false), Outcome::finished);
  recipe.shards = 4;
  recipe.max_updates = 20;
  EXPECT_CONTAINS(heed::testing::message_of([&] { (void)train_on(2, recipe, folder_ / "run", true); }),
                  "the recipe that this run was begun with; found other values of shards (2 before, 4 now)");
}

// Ranks whose messages go through another Communicator; one message on its way to this rank is changed.
class Corrupted : public Communicator {
 public:
  Corrupted(Communicator& inner, distributed::Channel channel, int countdown)
      : Communicator(inner.rank(), inner.size()), inner_(inner), channel_(channel), countdown_(countdown) {}
  std::string engine() const override { return inner_.engine(); }
  void abort(int status) override { inner_.abort(status); }

 protected:
  class Through : public distributed::Transfer {
   public:
    Through(Communicator& inner, distributed::TransferPtr transfer, std::span<std::byte> changed)
        : inner_(inner), transfer_(std::move(transfer)), changed_(changed) {}
    bool poll() override {
      if (!inner_.done(*transfer_)) return false;
      if (!changed_.empty()) changed_[changed_.size() / 2] ^= std::byte{1};
      changed_ = {};
      return true;
    }

   private:
    Communicator& inner_;
    distributed::TransferPtr transfer_;
    std::span<std::byte> changed_;
  };
  distributed::TransferPtr begin_send(std::span<const std::byte> bytes, int to, int channel) override {
    return std::make_unique<Through>(inner_, inner_.start_send(bytes, to, distributed::Channel(channel)),
                                     std::span<std::byte>());
  }
  distributed::TransferPtr begin_receive(std::span<std::byte> bytes, int from, int channel) override {
    const bool changes = distributed::Channel(channel) == channel_ && !bytes.empty() && --countdown_ == 0;
    return std::make_unique<Through>(inner_, inner_.start_receive(bytes, from, distributed::Channel(channel)),
                                     changes ? bytes : std::span<std::byte>());
  }

 private:
  Communicator& inner_;
  distributed::Channel channel_;
  int countdown_;
};

TEST_F(Parallel, ARankWithOtherWeightsIsNamed) {
  Recipe recipe = sharded_recipe(folder_.path(), 3);
  recipe.compare_every = 4;
  recipe.validate_every = 12;
  recipe.checkpoint_every = 0;
  const std::string text = heed::testing::message_of([&] {
    distributed::run_in_process(3, [&](Communicator& ranks) {
      if (ranks.rank() != 2) return (void)train(recipe, folder_ / "run", false, {}, ranks);
      Corrupted changed(ranks, distributed::Channel::weights, 5);  // two a rank and update: in the third update
      (void)train(recipe, folder_ / "run", false, {}, changed);
    });
  });
  EXPECT_EQ(text,
            "[distributed] the same weights after update 3 on all ranks; rank 2 (thread) has other than the rest");
  EXPECT_FALSE(fs::exists(folder_ / "run" / "checkpoints" / "step-00000012"));
}

TEST_F(Parallel, NoCheckpointHasWeightsThatDiffer) {
  Recipe recipe = sharded_recipe(folder_.path(), 3);
  recipe.compare_every = 0;
  recipe.checkpoint_every = 4;
  const std::string text = heed::testing::message_of([&] {
    distributed::run_in_process(3, [&](Communicator& ranks) {
      if (ranks.rank() != 0) return (void)train(recipe, folder_ / "run", false, {}, ranks);
      Corrupted changed(ranks, distributed::Channel::weights, 7);  // in the fourth update
      (void)train(recipe, folder_ / "run", false, {}, changed);
    });
  });
  EXPECT_EQ(text, "[distributed] the same weights after update 4 on all ranks; rank 0 has other than the rest");
  EXPECT_FALSE(fs::exists(folder_ / "run" / "checkpoints" / "step-00000004"));
}

TEST(SumTrees, AddInOneOrderWhoeverAdds) {
  // Sums as texts show the order.
  const auto add = [](std::string& left, const std::string& right) { left = "(" + left + "+" + right + ")"; };
  const auto whole = [&](int64_t shards) {
    SumTree<std::string> tree(shards);
    for (int64_t s = 0; s < shards; ++s) tree.push({0, s}, std::to_string(s), add);
    EXPECT_EQ(tree.entries().size(), 1u);
    return tree.entries().front().value;
  };
  EXPECT_EQ(whole(1), "0");
  EXPECT_EQ(whole(4), "((0+1)+(2+3))");
  EXPECT_EQ(whole(5), "(((0+1)+(2+3))+4)");
  EXPECT_EQ(whole(7), "(((0+1)+(2+3))+((4+5)+6))");
  for (int64_t shards = 1; shards <= 17; ++shards) {
    for (int64_t ranks = 1; ranks <= shards; ++ranks) {
      SumTree<std::string> all(shards);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const ShardRange range = shards_of(rank, ranks, shards);
        SumTree<std::string> own(shards);
        size_t most = 0;
        for (int64_t s = range.begin; s < range.end; ++s) {
          const size_t before = own.entries().size() + 1;
          const int additions = own.additions({0, s});
          own.push({0, s}, std::to_string(s), add);
          EXPECT_EQ(own.entries().size(), before - static_cast<size_t>(additions));
          most = std::max(most, own.entries().size());
        }
        const std::vector<SumNode> nodes = nodes_of(range, shards);
        ASSERT_EQ(nodes.size(), own.entries().size());
        for (size_t i = 0; i < nodes.size(); ++i) {
          EXPECT_EQ(nodes[i], own.entries()[i].node);
          all.push(nodes[i], own.entries()[i].value, add);
        }
      }
      ASSERT_EQ(all.entries().size(), 1u) << shards << " " << ranks;
      EXPECT_EQ(all.entries().front().value, whole(shards)) << shards << " " << ranks;
    }
  }
}

TEST(SumTrees, KeepFewSums) {
  for (int64_t shards = 1; shards <= 64; ++shards) {
    SumTree<int> tree(shards);
    size_t most = 0;
    for (int64_t s = 0; s < shards; ++s) {
      most = std::max(most, tree.entries().size() + 1);
      tree.push({0, s}, 0, [](int, int) {});
    }
    size_t allowed = 1;
    while ((int64_t{1} << (allowed - 1)) < shards) ++allowed;
    EXPECT_LE(most, allowed) << shards;
  }
}

TEST(Rows, KeepTheNormWhereverTheyAreCut) {
  NamedParameters parameters;
  for (const int64_t count : {3, 40000, 16384, 17, 100000, 16385}) {
    Tensor data = Tensor::empty({count});
    for (int64_t i = 0; i < count; ++i) data.data<float>()[i] = static_cast<float>((i * 7919 + count) % 1009) / 97.0f;
    parameters.emplace_back("p" + std::to_string(count), Value(data, true));
  }
  std::vector<Tensor> tensors;
  for (const auto& [name, parameter] : parameters) tensors.push_back(parameter.data().clone());
  const double expected = ops::norm(tensors);
  const FlatParameters flat(parameters);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(
        std::memcmp(parameters[i].second.data().raw(), tensors[i].raw(), static_cast<size_t>(tensors[i].nbytes())), 0);
  }
  for (int64_t parts = 1; parts <= 12; ++parts) {
    const std::vector<int64_t> cuts = flat.cuts(parts);
    ASSERT_EQ(cuts.front(), 0);
    ASSERT_EQ(cuts.back(), flat.size());
    ASSERT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
    std::vector<double> of_parameter(tensors.size());
    for (size_t p = 0; p + 1 < cuts.size(); ++p) {
      for (const auto& slice : flat.slices(cuts[p], cuts[p + 1])) {
        for (const double block : ops::block_squares(flat.weights().slice(0, slice.begin, slice.end))) {
          of_parameter[slice.parameter] += block;
        }
      }
    }
    double total = 0;
    for (const double one : of_parameter) total += one;
    EXPECT_EQ(std::sqrt(total), expected) << parts;
  }
}

TEST(LeafGradients, AreReportedOnceAndWhole) {
  const Value a(Tensor::full({4, 4}, 0.5f), true), b(Tensor::full({4, 4}, 0.25f), true),
      unused(Tensor::full({2}, 1), true);
  std::vector<size_t> order;
  std::map<size_t, float> seen;
  const std::vector<Value> leaves = {a, b, unused};
  const auto loss = [&] { return sum(matmul(matmul(a, b), a) * a); };
  {
    const LeafGradientScope scope(leaves, [&](size_t i) {
      order.push_back(i);
      seen[i] = leaves[i].grad().data<float>()[5];
    });
    loss().backward();
  }
  EXPECT_EQ(order.size(), 2u);
  EXPECT_EQ(seen.count(2), 0u);
  EXPECT_EQ(seen.at(0), a.grad().data<float>()[5]);  // nothing was added later
  EXPECT_EQ(seen.at(1), b.grad().data<float>()[5]);
  order.clear();
  loss().backward();
  EXPECT_TRUE(order.empty());
}

}  // namespace
}  // namespace heed::train
