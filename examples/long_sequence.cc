// Attention over a sequence of which each of four ranks holds a quarter: the bits of one process.
// Run: make examples && build/release/examples/long_sequence
//
// Alone, four of its threads are the ranks. With `mpirun -n 4` they are four processes, on one machine or several.
// 6,144 tokens, 4 query heads of size 16 that share 2 key/value heads. Queries stay, keys and values travel: each rank
// sends 2 S Hkv D (P - 1) / P numbers of 4 bytes.
//
// Prints:
//   4 ranks, 1536 tokens on each
//   the same bits as one process: output yes, d_query yes, d_key yes
//   sent by rank 0: 1179648 bytes, as the formula says 1179648
#include <heed/heed.h>

#include <cstdio>
#include <cstring>

using namespace heed;

namespace {

constexpr int64_t kLength = 6144, kHeads = 4, kKvHeads = 2, kSize = 16;

const char* same(const Tensor& a, const Tensor& b) {
  const Tensor x = a.clone(), y = b.clone();  // contiguous
  return std::memcmp(x.raw(), y.raw(), static_cast<size_t>(x.nbytes())) == 0 ? "yes" : "no";
}

void run(distributed::Communicator& ranks) {
  nn::Initializer random(1);  // all ranks make the same numbers; a real program reads the rows of its rank
  const Tensor q = random.normal({1, kHeads, kLength, kSize}, 1.0f);
  const Tensor k = random.normal({1, kKvHeads, kLength, kSize}, 1.0f);
  const Tensor v = random.normal({1, kKvHeads, kLength, kSize}, 1.0f);
  const AttentionOptions options = {.want = {.logsumexp = true}};

  const auto layout = distributed::SequenceLayout::contiguous(kLength, ranks.size(), 1536);
  const auto mine = [&](const Tensor& whole) { return distributed::rows_of(whole, layout, ranks.rank()); };
  const auto r = distributed::attention(ranks, mine(q), mine(k), mine(v), options, {.queries = layout, .keys = layout});
  const auto g = distributed::attention_backward(ranks, r.output, mine(q), mine(k), mine(v), r, options,
                                                 {.queries = layout, .keys = layout});

  const AttentionResult one = attention(q, k, v, options);
  const AttentionGradients d = attention_backward(one.output, q, k, v, one, options);
  if (ranks.rank() != 0) return;
  std::printf("%d ranks, %lld tokens on each\n", ranks.size(), static_cast<long long>(layout.rows(0)));
  std::printf("the same bits as one process: output %s, d_query %s, d_key %s\n", same(r.output, mine(one.output)),
              same(g.query, mine(d.query)), same(g.key, mine(d.key)));
  const int64_t formula = 2 * kLength * kKvHeads * kSize * (ranks.size() - 1) / ranks.size() * 4;
  std::printf("sent by rank 0: %lld bytes, as the formula says %lld\n", static_cast<long long>(r.traffic.keys_values),
              static_cast<long long>(formula));
}

}  // namespace

int main() {
  if (distributed::launch().size > 1) {
    run(*distributed::world());
  } else {
    distributed::run_in_process(4, run);
  }
}
