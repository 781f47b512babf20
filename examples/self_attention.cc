// The four forms of self-attention, one growing out of the other, on six tokens: "Your journey starts with one step".
//
// (1) without weights: every token is compared with every other as it is; (2) with trainable weights Wq, Wk, Wv;
// (3) causal, with dropout on the weights; (4) several heads side by side, and an output projection.
//
// Prints:
//   1. without weights, for "journey"
//     scores             0.9544 1.4950 1.4754 0.8434 0.7070 1.0865
//     divided by the sum 0.1455 0.2278 0.2249 0.1285 0.1077 0.1656
//     softmax            0.1385 0.2379 0.2333 0.1240 0.1082 0.1581
//     Your               0.4421 0.5931 0.5790
//     journey            0.4419 0.6515 0.5683
//     starts             0.4431 0.6496 0.5671
//     with               0.4304 0.6298 0.5510
//     one                0.4671 0.5910 0.5266
//     step               0.4177 0.6503 0.5645
//   2. with trainable weights: output (1, 1, 6, 2), weights of each row sum to 1.0000
//   3. causal: "Your" sees itself alone with weight 1.0000; "journey" gives "starts" 0.0000
//      dropout 0.5: of the 21 weights a token may have, some are 0, the others doubled: 1.0000 -> 2.0000 or 0
//   4. multi-head: 2 heads of size 2, output (1, 6, 4)
#include <heed/heed.h>

#include <cmath>
#include <cstdio>
#include <string>

using namespace heed;

namespace {

const char* const kTokens[] = {"Your", "journey", "starts", "with", "one", "step"};

void print(const char* name, const float* values, int count) {
  std::printf("  %-18s ", name);
  for (int i = 0; i < count; ++i) std::printf(" %.4f" + (i == 0 ? 1 : 0), static_cast<double>(values[i]));
  std::printf("\n");
}

}  // namespace

int main() {
  const Tensor x = Tensor::from({0.43f, 0.15f, 0.89f, 0.55f, 0.87f, 0.66f, 0.57f, 0.85f, 0.64f,   // Your journey starts
                                 0.22f, 0.58f, 0.33f, 0.77f, 0.25f, 0.10f, 0.05f, 0.80f, 0.55f},  // with one step
                                {1, 1, 6, 3});

  std::printf("1. without weights, for \"journey\"\n");
  const Tensor scores = ops::matmul(x.reshape({6, 3}), x.reshape({6, 3}), {.transpose_b = true});  // (6, 6)
  const float* journey = scores.data<float>() + 6;
  print("scores", journey, 6);
  float total = 0, shares[6];
  for (int j = 0; j < 6; ++j) total += journey[j];
  for (int j = 0; j < 6; ++j) shares[j] = journey[j] / total;
  print("divided by the sum", shares, 6);
  const AttentionResult simple = attention(x, x, x, {.scale = 1.0f, .want = {.weights = true}});
  print("softmax", simple.weights.data<float>() + 6, 6);
  const Tensor contexts = simple.output.contiguous();
  for (int i = 0; i < 6; ++i) print(kTokens[i], contexts.data<float>() + 3 * i, 3);

  // 2. Q = x Wq, K = x Wk, V = x Wv, from 3 to 2 numbers a token.
  nn::Initializer init(123);
  const auto project = [&] { return linear(Value(x), Value(init.xavier_uniform(2, 3))).data(); };
  const Tensor q = project(), k = project(), v = project();
  const AttentionResult trainable = attention(q, k, v, {.want = {.weights = true}});
  double sum = 0;
  for (int j = 0; j < 6; ++j) sum += trainable.weights.at({0, 0, 1, j});
  std::printf("2. with trainable weights: output %s, weights of each row sum to %.4f\n",
              to_string(trainable.output.shape()).c_str(), sum);

  // 3. A token must not see what follows it; dropout hides some of what it sees, and scales the rest up.
  AttentionOptions options = {.causal = Causal::top_left(), .want = {.weights = true}};
  const Tensor causal = attention(q, k, v, options).weights;
  std::printf("3. causal: \"Your\" sees itself alone with weight %.4f; \"journey\" gives \"starts\" %.4f\n",
              causal.at({0, 0, 0, 0}), causal.at({0, 0, 1, 2}));
  options.dropout = {.rate = 0.5f, .seed = 123};
  const Tensor dropped = attention(q, k, v, options).weights;
  bool exact = true;
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j)
      exact = exact && (dropped.at({0, 0, i, j}) == 0 || dropped.at({0, 0, i, j}) == 2 * causal.at({0, 0, i, j}));
  }
  std::printf("   dropout 0.5: of the 21 weights a token may have, some are 0, the others doubled: %s\n",
              exact ? "1.0000 -> 2.0000 or 0" : "not so");

  // 4. Each head has projections of its own; their outputs side by side go through Wo.
  nn::MultiHeadAttention heads({.width = 4, .heads = 2, .bias = false}, init);
  const Value wide(Tensor::from({.1f, .2f, .3f, .4f, .5f, .6f, .7f, .8f, .9f, .1f, .2f, .3f,
                                 .4f, .5f, .6f, .7f, .8f, .9f, .1f, .2f, .3f, .4f, .5f, .6f},
                                {1, 6, 4}));
  std::printf("4. multi-head: 2 heads of size 2, output %s\n",
              to_string(heads.self(wide, {.causal = Causal::top_left()}).shape()).c_str());
}
