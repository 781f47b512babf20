// Multi-head attention from three functions: softmax(x, axis), linear(x, w, bias) and scaled_dot_product_attention.
// Run: make examples && build/release/examples/simple_multi_head_attention
//
// Linear layers, heads (N, L, H, D) -> (N, H, L, D), attention, heads side by side (N, L, H*D), a last linear layer.
// The names are those of tiny-llm's first day; the result equals that of nn::MultiHeadAttention.
//
// Prints:
//   softmax over axis 0 of [[0, 1], [0, 1]]: 0.5000 0.5000 0.5000 0.5000
//   attention of (2, 3, 4, 5), leading dimensions (2, 3): (2, 3, 4, 5)
//   attention of (4, 5), no leading dimensions: (4, 5)
//   simple multi-head attention: (2, 6, 12)
//   the largest difference from nn::MultiHeadAttention: 0
#include <heed/heed.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace heed;

namespace {

// Moves the axis to the end, takes the softmax there, and moves the axis back.
Tensor softmax(const Tensor& x, int axis) {
  return ops::softmax(x.transpose(axis, -1).contiguous()).transpose(axis, -1).contiguous();
}

// x w^T + bias.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias = {}) { return ops::linear(x, w, bias, {}).output; }

class SimpleMultiHeadAttention {
 public:
  SimpleMultiHeadAttention(int64_t hidden_size, int64_t num_heads, Tensor wq, Tensor wk, Tensor wv, Tensor wo)
      : heads_(num_heads), size_(hidden_size / num_heads), wq_(wq), wk_(wk), wv_(wv), wo_(wo) {}

  // query, key, value (N, L, hidden); mask: additive (L, L), or none.
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask = {}) const {
    const Tensor out = scaled_dot_product_attention(split(linear(query, wq_)), split(linear(key, wk_)),
                                                    split(linear(value, wv_)), {}, mask);
    const Tensor merged = out.transpose(1, 2).contiguous();  // (N, L, H, D)
    return linear(merged.reshape({merged.size(0), merged.size(1), heads_ * size_}), wo_);
  }

 private:
  Tensor split(const Tensor& x) const {  // (N, L, H*D) -> (N, H, L, D)
    return x.reshape({x.size(0), x.size(1), heads_, size_}).transpose(1, 2);
  }

  int64_t heads_, size_;
  Tensor wq_, wk_, wv_, wo_;  // (hidden, hidden) each
};

}  // namespace

int main() {
  const Tensor p = softmax(Tensor::from({0, 1, 0, 1}, {2, 2}), 0);
  std::printf("softmax over axis 0 of [[0, 1], [0, 1]]: %.4f %.4f %.4f %.4f\n", p.at({0, 0}), p.at({0, 1}),
              p.at({1, 0}), p.at({1, 1}));

  nn::Initializer random(7);
  const Tensor x = random.normal({2, 3, 4, 5}, 1.0f);
  std::printf("attention of (2, 3, 4, 5), leading dimensions (2, 3): %s\n",
              to_string(scaled_dot_product_attention(x, x, x).shape()).c_str());
  const Tensor flat = x.select(0, 0).select(0, 0);
  std::printf("attention of (4, 5), no leading dimensions: %s\n",
              to_string(scaled_dot_product_attention(flat, flat, flat).shape()).c_str());

  nn::MultiHeadAttention module({.width = 12, .heads = 3, .bias = false}, random);
  const auto weights = module.named_parameters();  // query, key, value, output
  const SimpleMultiHeadAttention simple(12, 3, weights[0].second.data(), weights[1].second.data(),
                                        weights[2].second.data(), weights[3].second.data());
  const Tensor tokens = random.normal({2, 6, 12}, 1.0f);
  Tensor causal = Tensor::zeros({6, 6});  // 0 where a token may look, -inf where it may not
  for (int64_t i = 0; i < 6; ++i) std::fill_n(causal.data<float>() + 6 * i + i + 1, 5 - i, -INFINITY);
  const Tensor a = simple(tokens, tokens, tokens, causal);
  const Tensor b = module.self(Value(tokens), {.causal = Causal::top_left()}).data();
  float difference = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    difference = std::max(difference, std::abs(a.data<float>()[i] - b.data<float>()[i]));
  std::printf("simple multi-head attention: %s\n", to_string(a.shape()).c_str());
  std::printf("the largest difference from nn::MultiHeadAttention: %g\n", static_cast<double>(difference));
}
