// The plain formula (formula.h) and heed::attention, side by side on the same numbers.
// Run: make examples && build/release/examples/formula
//
// The query is "fruit"; the keys and values belong to apple, banana and car. worked_example.cc shows every step.
//
// Prints:
//   formula::attention 0.9971 0.4131 0.6131 0.7635
//   heed::attention    0.9971 0.4131 0.6131 0.7635
//   200 queries and 300 keys of random numbers: the largest difference is below 1e-6
#include "formula.h"

#include <heed/heed.h>

#include <cstdio>

using heed::Tensor;

namespace {

// The rows of a tensor (1, 1, rows, columns), for the formula.
formula::Matrix rows_of(const Tensor& x) {
  formula::Matrix rows(static_cast<size_t>(x.size(2)));
  for (int64_t i = 0; i < x.size(2); ++i)
    for (int64_t d = 0; d < x.size(3); ++d) rows[static_cast<size_t>(i)].push_back(x.at({0, 0, i, d}));
  return rows;
}

void print(const char* name, const formula::Matrix& output) {
  std::printf("%-18s", name);
  for (const double x : output[0]) std::printf(" %.4f", x);
  std::printf("\n");
}

}  // namespace

int main() {
  // heed reads four axes: (batch, heads, tokens, numbers of a token). Here are one batch and one head.
  const Tensor query = Tensor::from({1.0f, 0.5f, -0.3f, 0.8f}, {1, 1, 1, 4});  // fruit
  const Tensor key = Tensor::from({0.9f, 0.4f, -0.2f, 0.7f,                    // apple
                                   0.8f, 0.6f, -0.1f, 0.6f,                    // banana
                                   -0.5f, 0.2f, 0.9f, -0.4f},                  // car
                                  {1, 1, 3, 4});
  const Tensor value = Tensor::from({1.2f, 0.3f, 0.5f, 0.9f,   // apple
                                     1.0f, 0.4f, 0.6f, 0.8f,   // banana
                                     0.2f, 0.9f, 1.1f, 0.1f},  // car
                                    {1, 1, 3, 4});
  const heed::AttentionResult result = heed::attention(query, key, value);

  print("formula::attention", formula::attention(rows_of(query), rows_of(key), rows_of(value)));
  print("heed::attention", rows_of(result.output));

  heed::nn::Initializer random(1);
  const Tensor q = random.normal({1, 1, 200, 64}, 1.0f), k = random.normal({1, 1, 300, 64}, 1.0f),
               v = random.normal({1, 1, 300, 16}, 1.0f);
  const formula::Matrix plain = formula::attention(rows_of(q), rows_of(k), rows_of(v));
  const formula::Matrix fused = rows_of(heed::attention(q, k, v).output);
  double difference = 0;
  for (size_t i = 0; i < plain.size(); ++i)
    for (size_t d = 0; d < plain[i].size(); ++d) difference = std::max(difference, std::abs(plain[i][d] - fused[i][d]));
  std::printf("200 queries and 300 keys of random numbers: the largest difference is %s\n",
              difference < 1e-6 ? "below 1e-6" : "too large");
}
