// Multi-head attention, one line after the other: split into heads, attend, put the heads side by side, multiply by Wo.
// Run: make examples && build/release/examples/multi_head_attention
//
// The size of a value, d_v = 3, differs here from the size of a query and a key, d_k = 4.
//
// Prints:
//   x                   (1, 6, 8)     6 tokens of E = 8 numbers
//   query, key          (1, 2, 6, 4)  2 heads of d_k = 4
//   value               (1, 2, 6, 3)  2 heads of d_v = 3
//   output of the heads (1, 2, 6, 3)  2 heads of d_v = 3
//   side by side        (1, 6, 6)     2 * 3 numbers for each token
//   times Wo            (1, 6, 8)     E numbers again
//   nn::MultiHeadAttention gives the same bits: yes
//   parameters for E = 512 and 8 heads
//     d_k = d_v = 64                   1048576
//     d_k = 64, d_v = 32                786432
//     d_k = d_v = 64, 2 key heads       655360
#include <heed/heed.h>

#include <cstdio>
#include <cstring>

using namespace heed;

namespace {

void print_shape(const char* name, const Shape& shape, const char* meaning) {
  std::printf("%-19s %-13s %s\n", name, to_string(shape).c_str(), meaning);
}

}  // namespace

int main() {
  constexpr int64_t kHeads = 2, kKeySize = 4, kValueSize = 3;
  nn::Initializer random(7);
  const nn::MultiHeadAttention module(
      {.width = 8, .heads = kHeads, .head_size = kKeySize, .value_size = kValueSize, .bias = false}, random);
  const auto weights = module.named_parameters();  // Wq (8, 8), Wk (8, 8), Wv (6, 8), Wo (8, 6)
  const Value x(random.normal({1, 6, 8}, 1.0f));

  const Value q = heads(linear(x, weights[0].second), kHeads, kKeySize);
  const Value k = heads(linear(x, weights[1].second), kHeads, kKeySize);
  const Value v = heads(linear(x, weights[2].second), kHeads, kValueSize);
  const Value each = attention(q, k, v);
  const Value side_by_side = merge_heads(each);
  const Value output = linear(side_by_side, weights[3].second);

  print_shape("x", x.shape(), "6 tokens of E = 8 numbers");
  print_shape("query, key", q.shape(), "2 heads of d_k = 4");
  print_shape("value", v.shape(), "2 heads of d_v = 3");
  print_shape("output of the heads", each.shape(), "2 heads of d_v = 3");
  print_shape("side by side", side_by_side.shape(), "2 * 3 numbers for each token");
  print_shape("times Wo", output.shape(), "E numbers again");
  const Tensor expected = module.self(x, {}).data();
  const bool same =
      std::memcmp(output.data().data<float>(), expected.data<float>(), static_cast<size_t>(expected.nbytes())) == 0;
  std::printf("nn::MultiHeadAttention gives the same bits: %s\n", same ? "yes" : "no");

  const auto print_parameters = [](const char* name, const nn::MultiHeadAttentionOptions& options) {
    nn::Initializer init(1);
    const int64_t count = nn::MultiHeadAttention(options, init).parameter_count();
    std::printf("  %-30s %9lld\n", name, static_cast<long long>(count));
  };
  std::printf("parameters for E = 512 and 8 heads\n");
  print_parameters("d_k = d_v = 64", {.width = 512, .heads = 8, .bias = false});
  print_parameters("d_k = 64, d_v = 32", {.width = 512, .heads = 8, .value_size = 32, .bias = false});
  print_parameters("d_k = d_v = 64, 2 key heads", {.width = 512, .heads = 8, .key_value_heads = 2, .bias = false});
}
