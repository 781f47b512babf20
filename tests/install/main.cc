// Ten lines against the installed library: the attention of one query over three keys.
#include <heed/heed.h>

#include <cstdio>

int main() {
  const heed::Tensor q = heed::Tensor::from({1.0f, 0.5f, -0.3f, 0.8f}, {1, 1, 1, 4});
  const heed::Tensor k =
      heed::Tensor::from({.9f, .4f, -.2f, .7f, .8f, .6f, -.1f, .6f, -.5f, .2f, .9f, -.4f}, {1, 1, 3, 4});
  const heed::Tensor weights = heed::attention(q, k, k, {.want = {.weights = true}}).weights;
  std::printf("%.4f %.4f %.4f\n", weights.at({0, 0, 0, 0}), weights.at({0, 0, 0, 1}), weights.at({0, 0, 0, 2}));
}
