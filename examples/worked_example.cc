// Attention worked by hand: how much "fruit" attends to apple, banana and car, and what it becomes.
//
// One query over three keys: scores q.k, softmax, weighted sum of the values. The scale 1/sqrt(d_k) = 1/2 softens the
// weights. The note this example comes from prints banana's last key component as -0.6; its own scores need +0.6, so
// both are computed here.
//
// Prints:
//   banana's key [0.8, 0.6, -0.1, 0.6]
//     scores              1.7200  1.6100 -0.9900
//     softmax             0.5096  0.4565  0.0339 ...without the scale
//     softmax, scaled     0.4536  0.4294  0.1170
//     output              0.9971  0.4131  0.6131  0.7635
//   banana's key [0.8, 0.6, -0.1, -0.6]
//     scores              1.7200  0.6500 -0.9900
//     softmax             0.7094  0.2433  0.0472 ...without the scale
//     softmax, scaled     0.5424  0.3177  0.1399
//     output              0.9966  0.4157  0.6157  0.7563
#include <heed/heed.h>

#include <cstdio>

using heed::Tensor;

namespace {

void print(const char* name, const Tensor& row, const char* remark = "") {
  std::printf("  %-18s", name);
  for (int64_t i = 0; i < row.numel(); ++i) std::printf(" %7.4f", row.data<float>()[i]);
  std::printf("%s\n", remark);
}

void show(float banana_last) {
  // (B, H, L, D) and (B, H, S, D) with one batch, one head, one query, three keys.
  const Tensor query = Tensor::from({1.0f, 0.5f, -0.3f, 0.8f}, {1, 1, 1, 4});
  const Tensor key = Tensor::from({0.9f, 0.4f, -0.2f, 0.7f,         // apple
                                   0.8f, 0.6f, -0.1f, banana_last,  // banana
                                   -0.5f, 0.2f, 0.9f, -0.4f},       // car
                                  {1, 1, 3, 4});
  const Tensor value =
      Tensor::from({1.2f, 0.3f, 0.5f, 0.9f, 1.0f, 0.4f, 0.6f, 0.8f, 0.2f, 0.9f, 1.1f, 0.1f}, {1, 1, 3, 4});

  std::printf("banana's key [0.8, 0.6, -0.1, %g]\n", static_cast<double>(banana_last));
  print("scores", heed::ops::matmul(query.reshape({1, 4}), key.reshape({3, 4}), {.transpose_b = true}));
  const auto unscaled = heed::attention(query, key, value, {.scale = 1.0f, .want = {.weights = true}});
  const auto scaled = heed::attention(query, key, value, {.want = {.weights = true}});
  print("softmax", unscaled.weights.contiguous(), " ...without the scale");
  print("softmax, scaled", scaled.weights.contiguous());
  print("output", scaled.output.contiguous());
}

}  // namespace

int main() {
  show(0.6f);
  show(-0.6f);
}
