// A whole training in small: embedding, attention, norms, a feed-forward layer; it learns, its memory stands still, and
// its bits do not depend on the number of threads.
#include <gtest/gtest.h>

#include <random>

#include "heed/autograd.h"
#include "heed/cpu.h"
#include "heed/memory.h"

namespace heed {
namespace {

constexpr int64_t kLength = 6, kWidth = 32, kHeads = 4, kInner = 64, kVocabulary = 10;

// One post-norm layer with a fused projection, as small as a Transformer can be.
struct TinyModel {
  std::mt19937 random{7};
  std::vector<Value> parameters;
  Value tokens = uniform({kVocabulary, kWidth}, 1.0f), positions = uniform({kLength, kWidth}, 1.0f);
  Value qkv = uniform({3 * kWidth, kWidth}, 0.2f), qkv_bias = constant(3 * kWidth, 0);
  Value out = uniform({kWidth, kWidth}, 0.2f);
  Value gain1 = constant(kWidth, 1), bias1 = constant(kWidth, 0), gain2 = constant(kWidth, 1),
        bias2 = constant(kWidth, 0);
  Value inner = uniform({kInner, kWidth}, 0.2f), inner_bias = constant(kInner, 0),
        outer = uniform({kWidth, kInner}, 0.2f);

  Value uniform(const Shape& shape, float bound) {
    Tensor tensor = Tensor::empty(shape);
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      tensor.data<float>()[i] = bound * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
    }
    return parameters.emplace_back(tensor, true);
  }
  Value constant(int64_t size, float value) { return parameters.emplace_back(Tensor::full({size}, value), true); }

  Value logits(const Tensor& ids) const {
    const float rate = 0.05f;
    const Value x = embedding(ids, tokens) + positions;
    const Value p = linear(x, qkv, qkv_bias);
    const int64_t d = kWidth / kHeads;
    AttentionOptions options;
    options.dropout.rate = rate;
    const Value a = merge_heads(
        attention(heads(p, kHeads, d), heads(p, kHeads, d, kWidth), heads(p, kHeads, d, 2 * kWidth), options));
    const Value h = dropout_add_layer_norm(linear(a, out), x, rate, gain1, bias1);
    const Value f = linear(linear(h, inner, inner_bias, Activation::gelu), outer);
    return linear(dropout_add_layer_norm(f, h, rate, gain2, bias2), tokens);  // tied
  }
};

// The task: the sequence, reversed.
void fill_batch(std::mt19937& random, const Tensor& ids, const Tensor& targets) {
  for (int64_t b = 0; b < ids.size(0); ++b) {
    for (int64_t i = 0; i < kLength; ++i) {
      const int32_t id = static_cast<int32_t>(random() % kVocabulary);
      ids.data<int32_t>()[b * kLength + i] = id;
      targets.data<int32_t>()[b * kLength + kLength - 1 - i] = id;
    }
  }
}

struct Outcome {
  std::vector<float> losses;
  int64_t allocations_early = 0, allocations_late = 0;
  int64_t bytes_early = 0, bytes_late = 0;
};

Outcome train(int steps, int64_t batch) {
  const TinyModel model;
  std::vector<std::pair<Tensor, Tensor>> moments;
  for (const Value& p : model.parameters) moments.emplace_back(Tensor::zeros(p.shape()), Tensor::zeros(p.shape()));
  std::mt19937 random(3);
  const Tensor ids = Tensor::empty({batch, kLength}, DType::i32), targets = Tensor::empty({batch, kLength}, DType::i32);
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    if (step == 3) {
      outcome.allocations_early = memory_stats().system_allocations;
      outcome.bytes_early = memory_stats().bytes_in_use;
    }
    const TrainingScope scope(11, static_cast<uint64_t>(step));
    fill_batch(random, ids, targets);
    const Value loss = cross_entropy(model.logits(ids), targets);
    loss.backward();
    outcome.losses.push_back(loss.item());
    for (size_t i = 0; i < moments.size(); ++i) {
      ops::adam_step(model.parameters[i].data(), model.parameters[i].grad(), moments[i].first, moments[i].second,
                     {.learning_rate = 3e-3f, .step = step + 1});
    }
  }
  outcome.allocations_late = memory_stats().system_allocations;
  outcome.bytes_late = memory_stats().bytes_in_use;
  return outcome;
}

float mean_of_last(const std::vector<float>& losses, size_t count) {
  float total = 0;
  for (size_t i = losses.size() - count; i < losses.size(); ++i) total += losses[i];
  return total / static_cast<float>(count);
}

TEST(Training, LearnsToReverse) {
  const Outcome outcome = train(300, 8);
  EXPECT_GT(outcome.losses.front(), 2.0f);  // log 10 = 2.3
  EXPECT_LT(mean_of_last(outcome.losses, 10), 0.5f);
}

// On one thread: how many scratch buffers several have at the same time, and so when the last is made, is up to them.
TEST(Training, AsksNothingOfTheSystemAfterTheFirstSteps) {
  const int before = num_threads();
  set_num_threads(1);
  release_cached_memory();
  const Outcome outcome = train(20, 8);
  set_num_threads(before);
  EXPECT_GT(outcome.allocations_early, 0);
  EXPECT_EQ(outcome.allocations_late, outcome.allocations_early);
  EXPECT_EQ(outcome.bytes_late, outcome.bytes_early);
}

TEST(Training, HasTheSameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  set_num_threads(1);
  const Outcome one = train(8, 100);  // large enough for its loops to be shared
  set_num_threads(3);
  const Outcome three = train(8, 100);
  set_num_threads(before);
  EXPECT_EQ(one.losses, three.losses);
}

TEST(Training, HasTheSameBitsOnEveryInstructionSet) {
  const Isa before = active_isa();
  const Outcome expected = train(5, 8);
  for (const Isa isa : available_isas()) {
    set_isa(isa);
    EXPECT_EQ(active_isa(), isa);
    EXPECT_EQ(train(5, 8).losses, expected.losses) << to_string(isa);
  }
  set_isa(before);
}

}  // namespace
}  // namespace heed
