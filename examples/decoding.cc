// Decoding with a key/value cache: a step has one new query and reads the keys and values of all earlier steps.
// Run: make examples && build/release/examples/decoding
//
// One sentence, 2 heads of size 64: a prompt of 4 tokens, then 3 tokens one at a time.
//
// Prints:
//   4 new token(s), 4 keys in the cache
//   1 new token(s), 5 keys in the cache
//   1 new token(s), 6 keys in the cache
//   1 new token(s), 7 keys in the cache
//   the largest difference from all 7 tokens in one call: 0
//   numbers in the cache   bytes   largest difference
//   f32                   131072   0.0000
//   bf16                   65536   0.0076
//   int8                   34816   0.0195
#include <heed/heed.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace heed;

namespace {

// The prompt in one call, then one token a call. Returns the outputs of all 7 tokens (1, 2, 7, 64).
Tensor decode(const Tensor& q, const Tensor& k, const Tensor& v, KeyValueCache& cache, bool print) {
  const Tensor outputs = Tensor::empty({1, 2, 7, 64});
  for (int64_t begin = 0, end = 4; begin < 7; begin = end, ++end) {
    cache.append(k.slice(2, begin, end), v.slice(2, begin, end));
    const Tensor output = attention(q.slice(2, begin, end), cache, {.causal = Causal::bottom_right()}).output;
    outputs.slice(2, begin, end).copy_from(output);
    if (print)
      std::printf("%lld new token(s), %lld keys in the cache\n", static_cast<long long>(end - begin),
                  static_cast<long long>(cache.length(0)));
  }
  return outputs;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double difference = 0;
  for (int64_t n = 0; n < a.numel(); ++n)
    difference = std::max(difference, std::abs(static_cast<double>(a.data<float>()[n] - b.data<float>()[n])));
  return difference;
}

}  // namespace

int main() {
  nn::Initializer random(1);
  const Tensor q = random.normal({1, 2, 7, 64}, 1.0f), k = random.normal({1, 2, 7, 64}, 1.0f),
               v = random.normal({1, 2, 7, 64}, 1.0f);  // (B, H, L, D)
  const Tensor at_once = attention(q, k, v, {.causal = Causal::top_left()}).output.contiguous();

  KeyValueCache cache(1, 2, 128, 64, 64);  // 1 sequence, 2 heads, room for 128 tokens, D = Dv = 64
  const Tensor decoded = decode(q, k, v, cache, true);
  std::printf("the largest difference from all 7 tokens in one call: %g\n", largest_difference(decoded, at_once));

  std::printf("numbers in the cache   bytes   largest difference\n");
  for (const auto& [name, dtype] : {std::pair{"f32", DType::f32}, {"bf16", DType::bf16}, {"int8", DType::i8}}) {
    KeyValueCache smaller(1, 2, 128, 64, 64, {.dtype = dtype});
    const double difference = largest_difference(decode(q, k, v, smaller, false), at_once);
    std::printf("%-18s %9lld   %.4f\n", name, static_cast<long long>(smaller.nbytes()), difference);
  }
}
