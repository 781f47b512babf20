// Masks: which keys a query may see. Causal masks, padding, windows, and what happens to NaN.
// Run: make examples && build/release/examples/masks
//
// All scores are equal here, so the weights show the mask alone.
//
// Prints:
//   causal, 4 tokens
//     1.00 0.00 0.00 0.00
//     0.50 0.50 0.00 0.00
//     0.33 0.33 0.33 0.00
//     0.25 0.25 0.25 0.25
//   an additive mask of 0 and -inf gives the same bits
//   causal, 2 new queries and 4 keys
//     0.33 0.33 0.33 0.00
//     0.25 0.25 0.25 0.25
//   padding: sentences of 4 and 2 tokens, the first row of each
//     0.25 0.25 0.25 0.25
//     0.50 0.50 0.00 0.00
//   causal, and a window of 2 keys to the left
//     1.00 0.00 0.00 0.00
//     0.50 0.50 0.00 0.00
//     0.33 0.33 0.33 0.00
//     0.00 0.33 0.33 0.33
//   the masked key and value are NaN: output 1.00
//   all keys are masked: output 0.00, logsumexp -inf
#include <heed/heed.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace heed;

namespace {

void print(const Tensor& weights, int64_t batch, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) {
    std::printf(" ");
    for (int64_t j = 0; j < weights.size(3); ++j) std::printf(" %.2f", weights.at({batch, 0, i, j}));
    std::printf("\n");
  }
}

}  // namespace

int main() {
  const Tensor x = Tensor::full({1, 1, 4, 2}, 1.0f), two = Tensor::full({2, 1, 4, 2}, 1.0f);

  std::printf("causal, 4 tokens\n");
  const Tensor causal = attention(x, x, x, {.causal = Causal::top_left(), .want = {.weights = true}}).weights;
  print(causal, 0, 4);
  Tensor additive = Tensor::zeros({1, 4, 4});  // broadcast over (B, H, L, L)
  for (int64_t i = 0; i < 4; ++i)
    std::fill(additive.data<float>() + 4 * i + i + 1, additive.data<float>() + 4 * i + 4, -INFINITY);
  const Tensor added = attention(x, x, x, {.bias = additive, .want = {.weights = true}}).weights;
  const bool same = std::memcmp(causal.data<float>(), added.data<float>(), static_cast<size_t>(causal.nbytes())) == 0;
  std::printf("an additive mask of 0 and -inf gives %s\n", same ? "the same bits" : "other bits");

  std::printf("causal, 2 new queries and 4 keys\n");
  print(attention(x.slice(2, 0, 2), x, x, {.causal = Causal::bottom_right(), .want = {.weights = true}}).weights, 0, 2);

  std::printf("padding: sentences of 4 and 2 tokens, the first row of each\n");
  const std::vector<int32_t> lengths = {4, 2};
  const Tensor padded =
      attention(two, two, two,
                {.key_lengths = Tensor::from(std::span<const int32_t>(lengths), {2}), .want = {.weights = true}})
          .weights;
  print(padded, 0, 1);
  print(padded, 1, 1);

  std::printf("causal, and a window of 2 keys to the left\n");
  print(attention(x, x, x, {.causal = Causal::top_left(), .window = {.left = 2}, .want = {.weights = true}}).weights, 0,
        4);

  const Tensor poisoned = x.clone();
  std::fill_n(poisoned.data<float>() + 6, 2, NAN);  // the last key and value
  const AttentionResult clean = attention(x.slice(2, 0, 1), poisoned, poisoned, {.causal = Causal::top_left()});
  std::printf("the masked key and value are NaN: output %.2f\n", clean.output.at({0, 0, 0, 0}));
  const AttentionResult nothing = attention(x, x, x, {.causal = Causal::offset(-4), .want = {.logsumexp = true}});
  std::printf("all keys are masked: output %.2f, logsumexp %g\n", nothing.output.at({0, 0, 3, 0}),
              nothing.logsumexp.at({0, 0, 3}));
}
