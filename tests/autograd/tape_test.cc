// The tape itself: graphs of every form, scopes, the life of memory, errors.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/message.h"
#include "heed/attention_variants.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/memory.h"

namespace heed {
namespace {

using testing::message_of;

Value leaf(std::initializer_list<float> values) {
  return Value(Tensor::from(values, {static_cast<int64_t>(values.size())}), true);
}

std::vector<float> numbers(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  return {dense.data<float>(), dense.data<float>() + dense.numel()};
}

using Numbers = std::vector<float>;

TEST(Tape, ValuesKnowWhetherTheyRequireGradients) {
  const Value x = leaf({1, 2}), c(Tensor::full({2}, 3));
  EXPECT_TRUE(x.requires_grad());
  EXPECT_FALSE(c.requires_grad());
  EXPECT_FALSE(Value().requires_grad());
  EXPECT_TRUE((x * c).requires_grad());
  EXPECT_FALSE((c * c).requires_grad());
  EXPECT_FALSE(x.grad().defined());
  sum(x * c).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{3, 3}));
  EXPECT_FALSE(c.grad().defined());
}

TEST(Tape, SeedMultipliesTheGradient) {
  const Value x = leaf({1, 2});
  sum(x * x).backward(0.5f);
  EXPECT_EQ(numbers(x.grad()), (Numbers{1, 2}));
}

// A diamond: both ways from x to y are taken, and each step runs once.
TEST(Tape, DiamondsRunEveryStepOnce) {
  const Value x = leaf({3, -2});
  int runs = 0;
  const Value middle = Value::record(ops::scale(x.data(), 2), {x}, [&](const Tensor& d) -> std::vector<Tensor> {
    ++runs;
    return {ops::scale(d, 2)};
  });
  const Value left = middle * middle, right = middle * 5.0f;
  sum(left + right + middle).backward();  // 4 x^2 + 10 x + 2 x
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(numbers(x.grad()), (Numbers{8 * 3 + 12, 8 * -2 + 12}));
}

// Residual sums hand one gradient to two values; none may write into what the other reads.
TEST(Tape, SharedGradientsAreNotWrittenTo) {
  const Value x = leaf({1, 2}), y = leaf({3, 4});
  const Value a = x * 1.0f, b = y * 1.0f;
  const Value s = a + b;          // both get d
  const Value t = s + a;          // a gets another one
  sum(t + b * 10.0f).backward();  // 2 x + 11 y
  EXPECT_EQ(numbers(x.grad()), (Numbers{2, 2}));
  EXPECT_EQ(numbers(y.grad()), (Numbers{11, 11}));
  // A leaf on either side of a sum gets memory of its own: each is written by its optimizer.
  const Value p = leaf({1, 2}), q = leaf({1, 2});
  sum(p + q).backward();
  EXPECT_NE(p.grad().raw(), q.grad().raw());
}

// 2^40 paths, 40 steps.
TEST(Tape, RepeatedDoublingIsLinearInSteps) {
  const Value x = leaf({1});
  Value y = x;
  for (int i = 0; i < 40; ++i) y = y + y;
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{1099511627776.0f}));
}

TEST(Tape, LongChainsNeitherRecurseForwardNorBack) {
  const Value x = leaf({1});
  Value y = x;
  for (int i = 0; i < 100'000; ++i) y = y + x;
  sum(y).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{100'001}));
  y = x;
  for (int i = 0; i < 100'000; ++i) y = y * 1.0f;
  y = {};  // dropped without backward()
  // The same chain through closures that hold values.
  y = x;
  for (int i = 0; i < 100'000; ++i) {
    y = Value::record(y.data(), {y}, [held = y](const Tensor& d) -> std::vector<Tensor> { return {d}; });
  }
  y = {};
}

TEST(Tape, BackwardFreesWhatItUsed) {
  const Value x(Tensor::full({1000}, 1), true);
  { sum(x * x).backward(); }
  const int64_t before = memory_stats().bytes_in_use;
  Value kept = x;
  for (int i = 0; i < 10; ++i) kept = gelu(kept);
  const Value loss = sum(kept);
  EXPECT_GE(memory_stats().bytes_in_use, before + 10 * 4000);
  loss.backward();
  // What is left: `kept`'s own data and the loss.
  EXPECT_LE(memory_stats().bytes_in_use, before + 2 * 4096 + 2 * 256);
}

TEST(Tape, DataThatNoGradientNeedsIsFreedInForward) {
  const Value x(Tensor::full({1000}, 1), true);
  const int64_t before = memory_stats().bytes_in_use;
  Value y = x;
  for (int i = 0; i < 10; ++i) y = y + x;  // a sum needs neither side for its gradient
  EXPECT_LE(memory_stats().bytes_in_use, before + 2 * 4096);
}

TEST(Tape, ASecondBackwardOfOneGraphIsRefused) {
  const Value x = leaf({1, 2});
  const Value trunk = x * x, first = sum(trunk), second = sum(trunk * 2.0f);
  first.backward();
  const Numbers gradient = numbers(x.grad());
  EXPECT_EQ(message_of([&] { first.backward(); }),
            "[backward] a graph that is whole; found a part that an earlier backward() has freed");
  EXPECT_NE(message_of([&] { second.backward(); }), "");
  EXPECT_EQ(numbers(x.grad()), gradient);  // refused before anything was added
}

TEST(Tape, AThrowingClosureEndsTheGraph) {
  const Value x = leaf({1, 2});
  const Value y = Value::record(x.data(), {x}, [](const Tensor&) -> std::vector<Tensor> { fail("test", "thrown"); });
  const Value loss = sum(y + x * 2.0f);
  EXPECT_EQ(message_of([&] { loss.backward(); }), "[test] thrown");
  EXPECT_NE(message_of([&] { loss.backward(); }), "");
  x.set_grad({});
  sum(x * 3.0f).backward();
  EXPECT_EQ(numbers(x.grad()), (Numbers{3, 3}));
}

TEST(Tape, ErrorsSayWhatWasExpected) {
  const Value x = leaf({1, 2}), c(Tensor::full({1}, 1));
  EXPECT_EQ(message_of([&] { x.backward(); }), "[backward] a value of one element; found shape (2)");
  EXPECT_EQ(message_of([&] { c.backward(); }),
            "[backward] a value that depends on one that requires a gradient; found none");
  EXPECT_NE(message_of([&] { (void)Value().data(); }), "");
  EXPECT_NE(message_of([&] { (void)x.item(); }), "");
  EXPECT_NE(message_of([&] { (void)Value(Tensor()); }), "");
  EXPECT_NE(message_of([&] { (void)Value(Tensor::zeros({2}, DType::i32), true); }), "");
  EXPECT_NE(message_of([&] { (x * x).set_data(Tensor::zeros({2})); }), "");
  EXPECT_NE(message_of([&] { x.set_data(Tensor::zeros({3})); }), "");
  EXPECT_NE(message_of([&] { x.set_grad(Tensor::zeros({3})); }), "");
  EXPECT_NE(message_of([&] { c.set_grad(Tensor::zeros({1})); }), "");
  EXPECT_NE(message_of([&] { (void)(x + leaf({1, 2, 3})); }), "");
  EXPECT_NE(message_of([&] { (void)dropout(x, 1.0f); }), "");
  EXPECT_NE(message_of([&] { (void)heads(Value(Tensor::zeros({1, 2, 6})), 2, 2, 4); }), "");
  EXPECT_NE(message_of([&] { (void)split(x, 0, std::vector<int64_t>{1, 2}); }), "");
  EXPECT_NE(message_of([&] { (void)concat({}, 0); }), "");
  const Value wrong_shape =
      Value::record(x.data(), {x}, [](const Tensor&) -> std::vector<Tensor> { return {Tensor::zeros({3})}; });
  EXPECT_EQ(message_of([&] { sum(wrong_shape).backward(); }),
            "[backward] an f32 gradient of the input's shape (2); found f32 (3)");
  const Value wrong_count = Value::record(x.data(), {x}, [](const Tensor&) -> std::vector<Tensor> { return {}; });
  EXPECT_EQ(message_of([&] { sum(wrong_count).backward(); }), "[backward] 1 gradients, one an input; found 0");
}

TEST(Attention, RefusesToReturnMoreThanAValue) {
  const Value x(Tensor::full({1, 1, 2, 4}, 1), true), weight(Tensor::full({4}, 1), true);
  const AttentionOptions::Want wants[] = {
      {.logsumexp = true}, {.weights = true}, {.taps = {.entropy = true}}, {.output = Tensor::empty({1, 1, 2, 4})}};
  for (const auto& want : wants) {
    const AttentionOptions options{.want = want};
    EXPECT_NE(message_of([&] { (void)attention(x, x, x, options); }).find("[attention] on Values, options that want"),
              std::string::npos);
    EXPECT_NE(message_of([&] { (void)attention_additive(x, x, x, weight, options); }).find("found want.logsumexp"),
              std::string::npos);
  }
  EXPECT_EQ(message_of([&] { (void)attention(x, x, x); }), "");
}

TEST(Tape, SetDataAndSetGradReachAllHandles) {
  const Value x = leaf({1, 2}), same = x;
  x.set_data(Tensor::from({5, 6}, {2}));
  EXPECT_EQ(numbers(same.data()), (Numbers{5, 6}));
  const Tensor memory = Tensor::from({10, 20}, {2});
  x.set_grad(memory);
  sum(same * 2.0f).backward();
  EXPECT_EQ(numbers(memory), (Numbers{12, 22}));  // added in place
  x.zero_grad();
  EXPECT_EQ(numbers(memory), (Numbers{0, 0}));
  x.set_grad({});
  EXPECT_FALSE(same.grad().defined());
}

TEST(NoGradScope, RecordsNothingAndKeepsMemoryFlat) {
  const Value w(Tensor::full({64, 64}, 0.01f), true);
  Value x(Tensor::full({8, 64}, 1));
  int64_t level = 0;
  {
    const NoGradScope outer;
    { const NoGradScope inner; }
    EXPECT_FALSE(grad_enabled());
    for (int i = 0; i < 20; ++i) {
      x = gelu(linear(x, w, {}, Activation::silu));
      if (i == 2) level = memory_stats().bytes_in_use;
    }
    EXPECT_EQ(memory_stats().bytes_in_use, level);
    EXPECT_FALSE(x.requires_grad());
    const auto witness = std::make_shared<int>(0);
    const Value recorded = Value::record(x.data(), {w}, [witness](const Tensor&) -> std::vector<Tensor> { return {}; });
    EXPECT_EQ(witness.use_count(), 1);  // the closure was dropped
  }
  EXPECT_TRUE(grad_enabled());
}

TEST(NoGradScope, IsOfItsThread) {
  const NoGradScope here;
  bool there = false;
  std::thread([&] { there = grad_enabled(); }).join();
  EXPECT_TRUE(there);
}

TEST(TrainingScope, DrawsTheSameNumbersForTheSameStep) {
  const auto keys = [](uint64_t seed, uint64_t step) {
    const TrainingScope scope(seed, step);
    std::vector<uint64_t> drawn;
    for (int i = 0; i < 5; ++i) drawn.push_back(TrainingScope::next_dropout_seed());
    return drawn;
  };
  EXPECT_EQ(keys(1, 2), keys(1, 2));
  std::vector<uint64_t> all;
  for (const auto& [seed, step] : {std::pair{1, 2}, {2, 1}, {1, 3}, {2, 2}}) {
    const auto drawn = keys(static_cast<uint64_t>(seed), static_cast<uint64_t>(step));
    all.insert(all.end(), drawn.begin(), drawn.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  // Random123's own test vector for Philox4x32-10 with key and counter 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  EXPECT_EQ(keys(0, 0)[0], 0x6627e8d5e169c58dull);
}

TEST(TrainingScope, NestsAndIsOfItsThread) {
  EXPECT_FALSE(TrainingScope::active());
  EXPECT_NE(message_of([] { (void)TrainingScope::next_dropout_seed(); }), "");
  const TrainingScope outer(1, 1);
  const uint64_t first = TrainingScope::next_dropout_seed();
  {
    const TrainingScope inner(1, 1);
    EXPECT_EQ(TrainingScope::next_dropout_seed(), first);
  }
  EXPECT_NE(TrainingScope::next_dropout_seed(), first);
  bool there = true;
  std::thread([&] { there = TrainingScope::active(); }).join();
  EXPECT_FALSE(there);
}

TEST(TrainingScope, DropoutIsTheIdentityOutside) {
  const Value x(Tensor::full({1000}, 1), true);
  EXPECT_EQ(dropout(x, 0.5f).data().raw(), x.data().raw());
  const TrainingScope scope(3, 4);
  const Numbers once = numbers(dropout(x, 0.5f).data()), twice = numbers(dropout(x, 0.5f).data());
  EXPECT_NE(once, twice);
  int kept = 0;
  for (const float value : once) {
    EXPECT_TRUE(value == 0 || value == 2);
    kept += value == 2;
  }
  EXPECT_NEAR(kept, 500, 80);  // five standard deviations
}

}  // namespace
}  // namespace heed
