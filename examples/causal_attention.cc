// Causal attention with dropout: no token sees what follows it, and training hides some of the weights at random.
// Run: make examples && build/release/examples/causal_attention
//
// Row i holds the weights of token i, column j the weights that token j gets.
//
// Prints:
//   causal
//     1.0000  0.0000  0.0000  0.0000  0.0000  0.0000   sum 1.0000
//     0.5338  0.4662  0.0000  0.0000  0.0000  0.0000   sum 1.0000
//     0.3198  0.5738  0.1064  0.0000  0.0000  0.0000   sum 1.0000
//     0.1877  0.0842  0.2898  0.4382  0.0000  0.0000   sum 1.0000
//     0.1286  0.1416  0.5496  0.1456  0.0345  0.0000   sum 1.0000
//     0.1151  0.0684  0.2818  0.2189  0.0388  0.2769   sum 1.0000
//   causal, dropout 0.5
//     0.0000  0.0000  0.0000  0.0000  0.0000  0.0000   sum 0.0000
//     0.0000  0.9324  0.0000  0.0000  0.0000  0.0000   sum 0.9324
//     0.6395  0.0000  0.2128  0.0000  0.0000  0.0000   sum 0.8523
//     0.3755  0.1684  0.5796  0.0000  0.0000  0.0000   sum 1.1236
//     0.0000  0.0000  0.0000  0.2913  0.0000  0.0000   sum 0.2913
//     0.2303  0.0000  0.5636  0.0000  0.0000  0.0000   sum 0.7938
//   the sum of a row, on average over 10,000 seeds: 1.00
#include <heed/heed.h>

#include <cstdio>

using namespace heed;

namespace {

void print_weights(const char* name, const Tensor& weights) {
  std::printf("%s\n", name);
  for (int64_t i = 0; i < 6; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 6; ++j) {
      std::printf(" %7.4f", weights.at({0, 0, i, j}));
      sum += weights.at({0, 0, i, j});
    }
    std::printf("   sum %.4f\n", sum);
  }
}

}  // namespace

int main() {
  nn::Initializer random(123);
  const Tensor q = random.normal({1, 1, 6, 2}, 1.0f), k = random.normal({1, 1, 6, 2}, 1.0f),
               v = random.normal({1, 1, 6, 2}, 1.0f);

  AttentionOptions options = {.causal = Causal::top_left(), .want = {.weights = true}};
  const Tensor causal = attention(q, k, v, options).weights;
  print_weights("causal", causal);

  options.dropout = {.rate = 0.5f, .seed = 1};
  print_weights("causal, dropout 0.5", attention(q, k, v, options).weights);

  double mean = 0;  // of the sums of all rows
  for (uint64_t seed = 0; seed < 10000; ++seed) {
    options.dropout.seed = seed;
    const Tensor weights = attention(q, k, v, options).weights;
    for (int64_t n = 0; n < 36; ++n) mean += static_cast<double>(weights.data<float>()[n]) / (6 * 10000);
  }
  std::printf("the sum of a row, on average over 10,000 seeds: %.2f\n", mean);
}
