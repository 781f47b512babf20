// Sentences of different lengths in one call: padded to the longest, or one after the other without padding.
// Run: make examples && build/release/examples/ragged_batch
//
// Three sentences have 3, 1 and 5 tokens, with 2 heads of size 4. Both calls give the same bits.
//
// Prints:
//   without padding (9, 2, 4): 9 rows
//   with padding (3, 2, 5, 4): 3 * 5 = 15 rows
//   the same bits for all 9 tokens: yes
#include <heed/heed.h>

#include <cstdio>
#include <cstring>
#include <vector>

using namespace heed;

namespace {

Tensor integers(const std::vector<int32_t>& numbers) {
  return Tensor::from(std::span<const int32_t>(numbers), {static_cast<int64_t>(numbers.size())});
}

}  // namespace

int main() {
  const std::vector<int32_t> lengths = {3, 1, 5};
  const std::vector<int32_t> begins = {0, 3, 4, 9};  // where each sentence begins, and the end of the last
  nn::Initializer random(1);
  const Tensor q = random.normal({9, 2, 4}, 1.0f), k = random.normal({9, 2, 4}, 1.0f),
               v = random.normal({9, 2, 4}, 1.0f);  // (tokens, H, D)

  // Without padding: all tokens in a row.
  const Tensor ragged =
      attention_varlen(q, k, v, {.queries = integers(begins), .keys = integers(begins)}, {.causal = Causal::top_left()})
          .output;
  std::printf("without padding %s: 9 rows\n", to_string(ragged.shape()).c_str());

  // With padding: every sentence gets 5 rows, and key_lengths masks the rows that are padding.
  const auto pad = [&](const Tensor& x) {
    const Tensor padded = Tensor::zeros({3, 2, 5, 4});  // (B, H, L, D)
    for (size_t b = 0; b < 3; ++b) {
      const Tensor sentence = x.slice(0, begins[b], begins[b + 1]).transpose(0, 1);  // (H, length, D)
      padded.select(0, static_cast<int64_t>(b)).slice(1, 0, lengths[b]).copy_from(sentence);
    }
    return padded;
  };
  const Tensor padded =
      attention(pad(q), pad(k), pad(v), {.causal = Causal::top_left(), .key_lengths = integers(lengths)}).output;
  std::printf("with padding %s: 3 * 5 = 15 rows\n", to_string(padded.shape()).c_str());

  bool same = true;
  for (size_t b = 0; b < 3; ++b) {
    const Tensor mine = ragged.slice(0, begins[b], begins[b + 1]).transpose(0, 1).contiguous();
    const Tensor theirs = padded.select(0, static_cast<int64_t>(b)).slice(1, 0, lengths[b]).contiguous();
    same = same && std::memcmp(mine.data<float>(), theirs.data<float>(), static_cast<size_t>(mine.nbytes())) == 0;
  }
  std::printf("the same bits for all 9 tokens: %s\n", same ? "yes" : "no");
}
