// The gradient of every function of heed/autograd.h against finite differences, from one table.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>

#include "oracle/gradient_check.h"

namespace heed {
namespace {

using oracle::sample;
using Inputs = std::vector<Value>;

struct Case {
  std::string function;  // its name in autograd.h
  std::string what;
  oracle::Function run;
  std::vector<Tensor> inputs;
};

Tensor ids(std::initializer_list<int32_t> values, const Shape& shape) {
  return Tensor::from(std::span<const int32_t>(values.begin(), values.size()), shape);
}

// The columns of one matrix that is made of all inputs: what a fused projection does.
Value fused_attention(const Value& x, int64_t h, int64_t d, int64_t dv) {
  return merge_heads(attention(heads(x, h, d), heads(x, h, d, h * d), heads(x, h, dv, 2 * h * d)));
}

std::vector<Case> cases() {
  const Tensor x = sample({2, 3, 5}, 1), y = sample({2, 3, 5}, 2), row = sample({5}, 3), rows = sample({3, 5}, 4);
  const Tensor away = sample({2, 3, 5}, 5, 0.25);  // from the kink of relu
  const Tensor gain = sample({5}, 6, 0.25), wide = sample({2, 7, 12}, 7);
  const Tensor q = sample({2, 4, 3, 6}, 8), k = sample({2, 2, 5, 6}, 9), v = sample({2, 2, 5, 4}, 10);
  const Tensor targets = ids({0, 4, 2, 1, 3, 2}, {2, 3});
  const Tensor pairs = ids({0, 4, 2, 0, 4, 2}, {2, 3});  // the same targets in both halves
  // Pre-activations away from 0: |bias| 4 against sums of 5 products of at most 0.5.
  const Tensor small = Value(sample({2, 3, 5}, 11)).data(), sides = Tensor::from({4, -4, 4, -4}, {4});
  AttentionOptions causal, dropped;
  causal.causal = Causal::bottom_right();
  dropped.dropout.rate = 0.4f;
  std::vector<Case> list = {
      {"operator+", "equal shapes", [](const Inputs& in) { return in[0] + in[1]; }, {x, y}},
      {"operator+", "suffix of one axis", [](const Inputs& in) { return in[0] + in[1]; }, {x, row}},
      {"operator+", "suffix of two axes", [](const Inputs& in) { return in[0] + in[1]; }, {x, rows}},
      {"operator+", "one number", [](const Inputs& in) { return in[0] + sum(in[1]); }, {x, row}},
      {"operator+", "itself", [](const Inputs& in) { return in[0] + in[0]; }, {x}},
      {"operator-", "equal shapes", [](const Inputs& in) { return in[0] - in[1]; }, {x, y}},
      {"operator-", "suffix", [](const Inputs& in) { return in[0] - in[1]; }, {x, rows}},
      {"operator*", "equal shapes", [](const Inputs& in) { return in[0] * in[1]; }, {x, y}},
      {"operator*", "suffix", [](const Inputs& in) { return in[0] * in[1]; }, {x, row}},
      {"operator*", "itself", [](const Inputs& in) { return in[0] * in[0]; }, {x}},
      {"operator*", "a factor", [](const Inputs& in) { return in[0] * -2.5f; }, {x}},
      {"relu", "", [](const Inputs& in) { return relu(in[0]); }, {away}},
      {"gelu", "", [](const Inputs& in) { return gelu(in[0] * 3.0f); }, {x}},
      {"gelu_tanh", "", [](const Inputs& in) { return gelu_tanh(in[0] * 3.0f); }, {x}},
      {"silu", "", [](const Inputs& in) { return silu(in[0] * 3.0f); }, {x}},
      {"tanh", "", [](const Inputs& in) { return tanh(in[0] * 3.0f); }, {x}},
      {"sum", "", [](const Inputs& in) { return sum(in[0]); }, {x}},
      {"mean", "", [](const Inputs& in) { return mean(in[0] * in[0]); }, {x}},
      {"matmul", "matrices", [](const Inputs& in) { return matmul(in[0], in[1]); }, {rows, sample({5, 4}, 12)}},
      {"matmul", "shared matrix", [](const Inputs& in) { return matmul(in[0], in[1]); }, {x, sample({5, 4}, 12)}},
      {"matmul", "batches", [](const Inputs& in) { return matmul(in[0], in[1]); }, {x, sample({2, 5, 4}, 13)}},
      {"matmul",
       "summed twice",
       [](const Inputs& in) { return matmul(in[0], in[1]) + matmul(in[0] * 2.0f, in[1]); },
       {rows, sample({5, 4}, 12)}},
      {"linear", "no bias", [](const Inputs& in) { return linear(in[0], in[1]); }, {x, sample({4, 5}, 14)}},
      {"linear",
       "bias",
       [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
       {x, sample({4, 5}, 14), sample({4}, 15)}},
      {"embedding",
       "",
       [](const Inputs& in) {
         return embedding(ids({2, 0, 2, 1, 3, 3}, {2, 3}), in[0], {.scale = 1.5f});
       },
       {sample({4, 5}, 16)}},
      {"embedding",
       "padding",
       [](const Inputs& in) {
         return embedding(ids({2, 0, 2, 1, 3, 3}, {2, 3}), in[0], {.padding_id = 3});
       },
       {sample({4, 5}, 16)}},
      {"layer_norm",
       "",
       [](const Inputs& in) { return layer_norm(in[0], in[1], in[2]); },
       {wide, sample({12}, 17), sample({12}, 18)}},
      {"layer_norm",
       "no bias",
       [](const Inputs& in) { return layer_norm(in[0], in[1], {}); },
       {wide, sample({12}, 17)}},
      {"rms_norm", "", [](const Inputs& in) { return rms_norm(in[0], in[1]); }, {wide, sample({12}, 17)}},
      {"rotary_embedding",
       "halves",
       [](const Inputs& in) {
         const ops::RotaryTables tables = ops::rotary_tables(3, 4, 2);
         return rotary_embedding(in[0], tables.cos, tables.sin);
       },
       {q}},
      {"rotary_embedding",
       "interleaved",
       [](const Inputs& in) {
         const ops::RotaryTables tables = ops::rotary_tables(3, 6, 2);
         return rotary_embedding(in[0], tables.cos, tables.sin, true);
       },
       {q}},
      {"softmax", "", [](const Inputs& in) { return softmax(in[0]); }, {x}},
      {"log_softmax", "", [](const Inputs& in) { return log_softmax(in[0]); }, {x}},
      {"dropout", "off", [](const Inputs& in) { return dropout(in[0], 0.5f); }, {x}},
      {"dropout",
       "on",
       [](const Inputs& in) {
         const TrainingScope on(1, 2);
         return dropout(in[0], 0.5f);
       },
       {x}},
      {"dropout_add", "off", [](const Inputs& in) { return dropout_add(in[0], in[1], 0.5f); }, {x, y}},
      {"dropout_add",
       "on",
       [](const Inputs& in) {
         const TrainingScope on(1, 2);
         return dropout_add(in[0], in[1], 0.5f);
       },
       {x, y}},
      {"dropout_add_layer_norm",
       "off",
       [](const Inputs& in) { return dropout_add_layer_norm(in[0], in[1], 0.5f, in[2], in[3]); },
       {wide, sample({2, 7, 12}, 20), sample({12}, 17), sample({12}, 18)}},
      {"dropout_add_layer_norm",
       "on",
       [](const Inputs& in) {
         const TrainingScope on(1, 2);
         return dropout_add_layer_norm(in[0], in[1], 0.5f, in[2], in[3]);
       },
       {wide, sample({2, 7, 12}, 20), sample({12}, 17), sample({12}, 18)}},
      {"cross_entropy", "mean", [targets](const Inputs& in) { return cross_entropy(in[0], targets); }, {x}},
      {"cross_entropy",
       "sum, smoothed, ignored",
       [targets](const Inputs& in) {
         return cross_entropy(in[0], targets, {.ignored_id = 2, .label_smoothing = 0.1f, .sum = true}) * 0.5f;
       },
       {x}},
      {"linear_cross_entropy",
       "consistency of pairs",
       [pairs](const Inputs& in) {
         return linear_cross_entropy(in[0], in[1], in[2], pairs, {.ignored_id = 2, .consistency = 1.5f}) * 0.5f;
       },
       {x, sample({6, 5}, 21), sample({6}, 22)}},
      {"linear_cross_entropy",
       "mean",
       [targets](const Inputs& in) { return linear_cross_entropy(in[0], in[1], in[2], targets) * 0.5f; },
       {x, sample({6, 5}, 21), sample({6}, 22)}},
      {"linear_cross_entropy",
       "sum, smoothed, ignored, the weight used twice",
       [targets](const Inputs& in) {
         const CrossEntropyOptions options{.ignored_id = 2, .label_smoothing = 0.1f, .sum = true};
         return linear_cross_entropy(in[0], in[1], {}, targets, options) + sum(in[1] * in[1]);
       },
       {x, sample({6, 5}, 21)}},
      {"attention",
       "grouped heads, causal",
       [causal](const Inputs& in) { return attention(in[0], in[1], in[2], causal); },
       {q, k, v}},
      {"attention",
       "dropout",
       [dropped](const Inputs& in) {
         const TrainingScope on(1, 2);
         return attention(in[0], in[1], in[2], dropped);
       },
       {q, k, v}},
      {"attention_additive",
       "one weight for all heads, causal",
       [causal](const Inputs& in) { return attention_additive(in[0], in[1], in[2], in[3], causal); },
       {q, k, v, sample({q.size(3)}, 31)}},
      {"attention_additive",
       "a weight a head, dropout",
       [dropped](const Inputs& in) {
         const TrainingScope on(1, 2);
         return attention_additive(in[0], in[1], in[2], in[3], dropped);
       },
       {q, k, v, sample({q.size(1), q.size(3)}, 32)}},
      {"attention", "one value thrice", [](const Inputs& in) { return attention(in[0], in[0], in[0]); }, {q}},
      {"reshape",
       "",
       [](const Inputs& in) {
         return reshape(in[0], {5, -1});
       },
       {x}},
      {"reshape",
       "of a strided view",
       [](const Inputs& in) {
         return reshape(heads(in[0], 3, 4), {7, 24});
       },
       {wide}},
      {"transpose", "", [](const Inputs& in) { return transpose(in[0], 0, -1); }, {x}},
      {"transpose",
       "gradients on strides",
       [](const Inputs& in) { return transpose(layer_norm(gelu(transpose(in[0], 0, 2)), in[1], {}), 1, 2); },
       {sample({5, 3, 2}, 21), sample({5}, 22, 0.5)}},
      {"slice", "last axis", [](const Inputs& in) { return slice(in[0], -1, 1, 4); }, {x}},
      {"slice", "first axis", [](const Inputs& in) { return slice(in[0], 0, 1, 2); }, {x}},
      {"slice",
       "gaps, overlaps and both axes",
       [](const Inputs& in) {
         const Value z = in[0] * 2.0f;
         return slice(z, 2, 0, 2) + slice(z, 2, 3, 5) * 3.0f + slice(z, 2, 2, 4) + sum(slice(z, 1, 1, 2)) +
                slice(z, 2, 0, 2);
       },
       {x}},
      {"concat",
       "",
       [](const Inputs& in) {
         const Value p[] = {in[0], in[1], in[0]};
         return concat(p, 1);
       },
       {x, y}},
      {"concat",
       "first axis",
       [](const Inputs& in) {
         const Value p[] = {in[0] * 2.0f, in[1]};
         return concat(p, 0);
       },
       {x, y}},
      {"concat",
       "gradients written to",
       [](const Inputs& in) {
         const Value a = in[0] * 2.0f, p[] = {a, in[1] * 3.0f, a};
         return concat(p, 2) + mean(a * a);
       },
       {x, y}},
      {"split",
       "",
       [](const Inputs& in) {
         const int64_t sizes[] = {2, 1, 2};
         const std::vector<Value> parts = split(in[0], 2, sizes);
         return parts[0] * parts[2] + sum(parts[1] * parts[1]);
       },
       {x}},
      {"split",
       "a part unused",
       [](const Inputs& in) {
         const int64_t sizes[] = {2, 1, 2};
         return split(in[0] * 2.0f, 2, sizes)[2];
       },
       {x}},
      {"heads", "a view", [](const Inputs& in) { return heads(in[0], 2, 3, 6); }, {wide}},
      {"heads", "a copy", [](const Inputs& in) { return heads(in[0] * 2.0f, 2, 3, 1); }, {wide}},
      {"heads", "fused projection", [](const Inputs& in) { return fused_attention(in[0] * 1.0f, 2, 2, 2); }, {wide}},
      {"heads",
       "fused projection, wide values",
       [](const Inputs& in) { return fused_attention(in[0] * 1.0f, 2, 1, 4); },
       {wide}},
      {"heads",
       "fused projection with a gap",
       [](const Inputs& in) { return fused_attention(in[0] * 1.0f, 1, 3, 3); },
       {wide}},
      {"merge_heads", "", [](const Inputs& in) { return merge_heads(in[0]); }, {q}},
      {"record",
       "",
       [](const Inputs& in) {  // a^2 b
         const Value &a = in[0], &b = in[1];
         return Value::record(ops::mul(ops::mul(a.data(), a.data()), b.data()), {a, b},
                              [x = a.data(), y = b.data()](const Tensor& d) -> std::vector<Tensor> {
                                return {ops::scale(ops::mul(ops::mul(d, x), y), 2), ops::mul(ops::mul(d, x), x)};
                              });
       },
       {x, y}},
  };
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    list.push_back({"linear",
                    std::string(to_string(activation)),
                    [activation](const Inputs& in) { return linear(in[0] * 0.5f, in[1], in[2], activation); },
                    {small, sample({4, 5}, 14), sides}});
  }
  return list;
}

TEST(Gradients, AreThoseOfFiniteDifferences) {
  for (const Case& c : cases()) {
    oracle::expect_gradients(c.function + " (" + c.what + ")", c.run, c.inputs);
    if (HasFatalFailure()) return;
  }
}

// A sample of the checker's own: it must see an error of 1 %.
TEST(Gradients, TheCheckerSeesWrongOnes) {
  const oracle::Function wrong = [](const Inputs& in) {
    return Value::record(
        ops::mul(in[0].data(), in[0].data()), {in[0]},
        [x = in[0].data()](const Tensor& d) -> std::vector<Tensor> { return {ops::scale(ops::mul(d, x), 2.02f)}; });
  };
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    oracle::expect_gradients("wrong", wrong, {sample({3, 4}, 1)});
  }
  EXPECT_GT(failures.size(), 0);
}

// What a function hands back must not depend on whether its own gradient came contiguous.
TEST(Gradients, AreTheSameForStridedOnes) {
  for (const Case& c : cases()) {
    const auto gradients = [&](bool strided) {
      std::vector<Value> leaves;
      for (const Tensor& input : c.inputs) leaves.emplace_back(input, true);
      const Value output = c.run(leaves);
      const Tensor projector = sample(output.shape(), 99);
      if (strided && projector.rank() > 1) {
        sum(transpose(output, 0, -1) * Value(projector.transpose(0, -1).contiguous())).backward();
      } else {
        sum(output * Value(projector)).backward();
      }
      return leaves;
    };
    const std::vector<Value> expected = gradients(false), found = gradients(true);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(expected[i].grad().is_contiguous() && found[i].grad().is_contiguous());
      EXPECT_EQ(0, std::memcmp(expected[i].grad().raw(), found[i].grad().raw(),
                               static_cast<size_t>(expected[i].grad().nbytes())))
          << c.function << " (" << c.what << "), input " << i;
    }
  }
}

// Twice the same graph, built twice: twice the gradient, in the same memory; zero_grad() begins anew.
TEST(Gradients, AddUpUntilZeroed) {
  for (const Case& c : cases()) {
    std::vector<Value> leaves;
    for (const Tensor& input : c.inputs) leaves.emplace_back(input, true);
    const auto pass = [&] {
      const Value output = c.run(leaves);
      sum(output * Value(sample(output.shape(), 98))).backward();
    };
    pass();
    std::vector<Tensor> once;
    std::vector<const void*> memory;
    for (const Value& leaf : leaves) {
      once.push_back(leaf.grad().clone());
      memory.push_back(leaf.grad().raw());
    }
    pass();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const float *a = once[i].data<float>(), *b = leaves[i].grad().data<float>();
      double largest = 0;
      for (int64_t j = 0; j < once[i].numel(); ++j) largest = std::max(largest, std::abs(double{a[j]}));
      for (int64_t j = 0; j < once[i].numel(); ++j) {
        ASSERT_NEAR(2 * double{a[j]}, b[j], 64 * 0x1p-24 * largest) << c.function << " (" << c.what << "), input " << i;
      }
      EXPECT_EQ(memory[i], leaves[i].grad().raw()) << c.function;
      leaves[i].zero_grad();
    }
    pass();
    for (size_t i = 0; i < leaves.size(); ++i) {
      const float *a = once[i].data<float>(), *b = leaves[i].grad().data<float>();
      for (int64_t j = 0; j < once[i].numel(); ++j) ASSERT_EQ(a[j], b[j]) << c.function << " (" << c.what << ")";
      EXPECT_EQ(memory[i], leaves[i].grad().raw()) << c.function;
    }
  }
}

// The header is read: a function that is added there without a line in the table above fails here by name.
TEST(Gradients, EveryFunctionHasACheck) {
  std::ifstream file(std::string(HEED_SOURCE_DIR) + "/include/heed/autograd.h");
  ASSERT_TRUE(file) << "include/heed/autograd.h cannot be read";
  std::set<std::string> checked, declared;
  for (const Case& c : cases()) checked.insert(c.function);
  // By hand: std::regex under the sanitizers gives GCC 12 warnings of its own.
  for (std::string line; std::getline(file, line);) {
    std::string_view rest = line;
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const auto skip = [&](std::string_view prefix) {
      const bool there = rest.starts_with(prefix);
      if (there) rest.remove_prefix(prefix.size());
      return there;
    };
    if (!skip("[[nodiscard]] ")) continue;
    skip("static ");
    if (!skip("Value ") && !skip("std::vector<Value> ")) continue;
    const size_t end = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz_+-*");
    if (end != 0 && end != std::string_view::npos && rest[end] == '(') declared.emplace(rest.substr(0, end));
  }
  EXPECT_GE(declared.size(), 26u);
  for (const std::string& name : declared) EXPECT_TRUE(checked.contains(name)) << name << " has no gradient check";
}

}  // namespace
}  // namespace heed
