// Self-attention on six tokens: first with the tokens as they are, then with queries, keys and values of their own.
// Run: make examples && build/release/examples/self_attention
//
// The sentence is "Your journey starts with one step"; each token is a vector of three numbers.
//
// Prints:
//   1. the tokens as they are, for "journey"
//     scores              0.9544  1.4950  1.4754  0.8434  0.7070  1.0865
//     divided by the sum  0.1455  0.2278  0.2249  0.1285  0.1077  0.1656
//     softmax             0.1385  0.2379  0.2333  0.1240  0.1082  0.1581
//     context vectors
//     Your                0.4421  0.5931  0.5790
//     journey             0.4419  0.6515  0.5683
//     starts              0.4431  0.6496  0.5671
//     with                0.4304  0.6298  0.5510
//     one                 0.4671  0.5910  0.5266
//     step                0.4177  0.6503  0.5645
//   2. with the matrices Wq, Wk and Wv
//                           query              key            value
//     Your         0.0450 -0.2663   0.3909 -0.8995   0.3186  1.0235
//     journey     -0.3482 -0.1219   0.3419 -1.2719   0.4465  1.5035
//     starts      -0.3738 -0.1411   0.3658 -1.2413   0.4135  1.4958
//     with        -0.1530  0.0207   0.0842 -0.7434   0.3241  0.8038
//     one         -0.7295 -0.4474   0.6940 -0.3406  -0.2978  0.9357
//     step         0.0812  0.1980  -0.1301 -1.0842   0.6567  0.9342
//     softmax, journey    0.1617  0.1690  0.1675  0.1720  0.1430  0.1868
//     context vector      0.3321  1.1167
#include <heed/heed.h>

#include <cstdio>

using namespace heed;

namespace {

const char* const kTokens[] = {"Your", "journey", "starts", "with", "one", "step"};

void print_numbers(const float* numbers, int count) {
  for (int n = 0; n < count; ++n) std::printf(" %7.4f", static_cast<double>(numbers[n]));
}

void print_row(const char* name, const float* numbers, int count) {
  std::printf("  %-18s", name);
  print_numbers(numbers, count);
  std::printf("\n");
}

}  // namespace

int main() {
  const Tensor x = Tensor::from({0.43f, 0.15f, 0.89f,   // Your
                                 0.55f, 0.87f, 0.66f,   // journey
                                 0.57f, 0.85f, 0.64f,   // starts
                                 0.22f, 0.58f, 0.33f,   // with
                                 0.77f, 0.25f, 0.10f,   // one
                                 0.05f, 0.80f, 0.55f},  // step
                                {1, 1, 6, 3});          // (B, H, L, D)

  std::printf("1. the tokens as they are, for \"journey\"\n");
  const AttentionResult simple = attention(x, x, x, {.scale = 1.0f, .want = {.weights = true, .scores = true}});
  const float* const scores = simple.scores.data<float>() + 6;  // row 1 of 6
  print_row("scores", scores, 6);
  float sum = 0, shares[6];
  for (int j = 0; j < 6; ++j) sum += scores[j];
  for (int j = 0; j < 6; ++j) shares[j] = scores[j] / sum;
  print_row("divided by the sum", shares, 6);
  print_row("softmax", simple.weights.data<float>() + 6, 6);
  std::printf("  context vectors\n");
  for (int i = 0; i < 6; ++i) print_row(kTokens[i], simple.output.data<float>() + 3 * i, 3);

  // Three matrices make a query, a key and a value of two numbers for each token. Training would choose the matrices;
  // here they are random.
  nn::Initializer random(123);
  const Tensor w_query = random.xavier_uniform(2, 3), w_key = random.xavier_uniform(2, 3),
               w_value = random.xavier_uniform(2, 3);
  const Tensor q = linear(Value(x), Value(w_query)).data();  // x Wq
  const Tensor k = linear(Value(x), Value(w_key)).data();    // x Wk
  const Tensor v = linear(Value(x), Value(w_value)).data();  // x Wv
  const AttentionResult trainable = attention(q, k, v, {.want = {.weights = true}});

  std::printf("2. with the matrices Wq, Wk and Wv\n");
  std::printf("                        query              key            value\n");
  for (int i = 0; i < 6; ++i) {
    std::printf("  %-10s", kTokens[i]);
    for (const Tensor& numbers : {q, k, v}) {
      std::printf(" ");
      print_numbers(numbers.data<float>() + 2 * i, 2);
    }
    std::printf("\n");
  }
  print_row("softmax, journey", trainable.weights.data<float>() + 6, 6);
  print_row("context vector", trainable.output.data<float>() + 2, 2);
}
