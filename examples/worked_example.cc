// Attention by hand, step by step: how much "fruit" attends to apple, banana and car, and which vector it gets.
// Run: make examples && build/release/examples/worked_example
//
// The article that this example comes from prints -0.6 as the last number of banana's key. Its scores need +0.6, as in
// the four steps. The last part shows what -0.6 gives.
//
// Prints:
//   step 1: scores, the dot products of the query with the keys
//     apple      1.0 *  0.9 +  0.5 *  0.4 + -0.3 * -0.2 +  0.8 *  0.7 =  1.7200
//     banana     1.0 *  0.8 +  0.5 *  0.6 + -0.3 * -0.1 +  0.8 *  0.6 =  1.6100
//     car        1.0 * -0.5 +  0.5 *  0.2 + -0.3 *  0.9 +  0.8 * -0.4 = -0.9900
//   step 2: scores / sqrt(4)
//                           0.8600  0.8050 -0.4950
//   step 3: softmax
//     exp                   2.3632  2.2367  0.6096
//     weights: exp / sum    0.4536  0.4294  0.1170
//   step 4: output, the sum of the values times their weights
//     number 1  0.4536 * 1.2 + 0.4294 * 1.0 + 0.1170 * 0.2 =  0.9971
//     number 2  0.4536 * 0.3 + 0.4294 * 0.4 + 0.1170 * 0.9 =  0.4131
//     number 3  0.4536 * 0.5 + 0.4294 * 0.6 + 0.1170 * 1.1 =  0.6131
//     number 4  0.4536 * 0.9 + 0.4294 * 0.8 + 0.1170 * 0.1 =  0.7635
//   heed::attention
//     scores                1.7200  1.6100 -0.9900
//     weights               0.4536  0.4294  0.1170
//     without step 2        0.5096  0.4565  0.0339
//     output                0.9971  0.4131  0.6131  0.7635
//   heed::attention with -0.6 in banana's key
//     scores                1.7200  0.6500 -0.9900
//     weights               0.5424  0.3177  0.1399
//     without step 2        0.7094  0.2433  0.0472
//     output                0.9966  0.4157  0.6157  0.7563
#include <heed/heed.h>

#include <cmath>
#include <cstdio>

using heed::Tensor;
using Span = std::span<const float>;

namespace {

const float kQuery[4] = {1.0f, 0.5f, -0.3f, 0.8f};   // fruit
const float kValues[12] = {1.2f, 0.3f, 0.5f, 0.9f,   // apple
                           1.0f, 0.4f, 0.6f, 0.8f,   // banana
                           0.2f, 0.9f, 1.1f, 0.1f};  // car

void print_row(const char* name, const float* row, int count) {
  std::printf("  %-20s", name);
  for (int n = 0; n < count; ++n) std::printf(" %7.4f", static_cast<double>(row[n]));
  std::printf("\n");
}

// Prints "a[0] * b[0] + a[1] * b[stride] + ... = sum" and returns the sum.
float print_products(const char* name, const float* a, const float* b, int count, int stride, const char* form) {
  std::printf("  %-8s", name);
  float sum = 0;
  for (int n = 0; n < count; sum += a[n] * b[n * stride], ++n)
    std::printf(form, n > 0 ? '+' : ' ', static_cast<double>(a[n]), static_cast<double>(b[n * stride]));
  std::printf("= %7.4f\n", static_cast<double>(sum));
  return sum;
}

void print_attention(const char* name, const float (&keys)[12]) {
  std::printf("%s\n", name);
  // (batch, heads, tokens, numbers of a token): one batch, one head.
  const Tensor q = Tensor::from(Span(kQuery), {1, 1, 1, 4}), k = Tensor::from(Span(keys), {1, 1, 3, 4}),
               v = Tensor::from(Span(kValues), {1, 1, 3, 4});
  const auto r = heed::attention(q, k, v, {.want = {.weights = true}});
  const auto unscaled = heed::attention(q, k, v, {.scale = 1.0f, .want = {.weights = true, .scores = true}});
  print_row("scores", unscaled.scores.data<float>(), 3);
  print_row("weights", r.weights.data<float>(), 3);
  print_row("without step 2", unscaled.weights.data<float>(), 3);
  print_row("output", r.output.data<float>(), 4);
}

}  // namespace

int main() {
  const char *names[] = {"apple", "banana", "car"}, *numbers[] = {"number 1", "number 2", "number 3", "number 4"};
  float keys[12] = {0.9f, 0.4f, -0.2f, 0.7f, 0.8f, 0.6f, -0.1f, 0.6f, -0.5f, 0.2f, 0.9f, -0.4f}, x[3];

  std::printf("step 1: scores, the dot products of the query with the keys\n");
  for (int j = 0; j < 3; ++j) x[j] = print_products(names[j], kQuery, &keys[4 * j], 4, 1, "%c %4.1f * %4.1f ");
  std::printf("step 2: scores / sqrt(4)\n");
  for (float& s : x) s /= 2;
  print_row("", x, 3);
  std::printf("step 3: softmax\n");
  float sum = 0;
  for (float& s : x) sum += s = std::exp(s);
  print_row("exp", x, 3);
  for (float& e : x) e /= sum;
  print_row("weights: exp / sum", x, 3);
  std::printf("step 4: output, the sum of the values times their weights\n");
  for (int d = 0; d < 4; ++d) print_products(numbers[d], x, &kValues[d], 3, 4, "%c %.4f * %.1f ");

  print_attention("heed::attention", keys);
  keys[7] = -0.6f;
  print_attention("heed::attention with -0.6 in banana's key", keys);
}
