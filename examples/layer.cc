// One layer of an encoder, from its parts: self-attention and feed-forward, each with residual and normalisation.
// Run: make examples && build/release/examples/layer
//
// E = 16, F = 64, 2 heads; 5 tokens of random numbers. Nothing is trained.
//
// Prints:
//   token 1                      mean -1.2234   standard deviation 2.5604
//   with attention added         mean -1.7730   standard deviation 2.6226
//   normalised                   mean  0.0000   standard deviation 1.0000
//   after the layer              mean  0.0000   standard deviation 1.0000
//   token 3 is changed; then these tokens change in the output of
//     feed-forward               3
//     self-attention             1 2 3 4 5
//     causal self-attention      3 4 5
#include <heed/heed.h>

#include <cmath>
#include <cstdio>

using namespace heed;

namespace {

constexpr int64_t kTokens = 5, kWidth = 16;

// The mean and the standard deviation of one token's numbers.
void print_token(const char* name, const Value& x) {
  const float* const token = x.data().data<float>();  // the first of them
  double mean = 0, variance = 0;
  for (int64_t e = 0; e < kWidth; ++e) mean += static_cast<double>(token[e]) / kWidth;
  for (int64_t e = 0; e < kWidth; ++e) variance += std::pow(static_cast<double>(token[e]) - mean, 2) / kWidth;
  std::printf("%-28s mean %7.4f   standard deviation %.4f\n", name, mean, std::sqrt(variance));
}

// Which tokens of the output differ.
void print_changed(const char* name, const Value& before, const Value& after) {
  std::printf("%-28s", name);
  for (int64_t i = 0; i < kTokens; ++i) {
    bool changed = false;
    for (int64_t e = 0; e < kWidth; ++e) changed = changed || before.data().at({0, i, e}) != after.data().at({0, i, e});
    if (changed) std::printf(" %d", static_cast<int>(i + 1));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  nn::Initializer random(1);
  const nn::MultiHeadAttention attention({.width = kWidth, .heads = 2}, random);
  const nn::FeedForward feed_forward({.width = kWidth, .inner = 4 * kWidth}, random);
  const nn::Norm norm1(nn::NormKind::layer_norm, kWidth, 1e-5f, true),
      norm2(nn::NormKind::layer_norm, kWidth, 1e-5f, true);

  const Value x(random.normal({1, kTokens, kWidth}, 3.0f));
  const Value sum = x + attention.self(x, {});  // residual: the input is added to the output
  const Value h = norm1(sum);                   // normalisation
  const Value y = norm2(h + feed_forward(h));
  print_token("token 1", x);
  print_token("with attention added", sum);
  print_token("normalised", h);
  print_token("after the layer", y);

  Tensor other = x.data().clone();
  other.data<float>()[2 * kWidth] += 1;  // token 3
  const Value x2(other);
  std::printf("token 3 is changed; then these tokens change in the output of\n");
  print_changed("  feed-forward", feed_forward(x), feed_forward(x2));
  print_changed("  self-attention", attention.self(x, {}), attention.self(x2, {}));
  print_changed("  causal self-attention", attention.self(x, {.causal = Causal::top_left()}),
                attention.self(x2, {.causal = Causal::top_left()}));
}
