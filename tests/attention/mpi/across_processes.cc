// Attention across the processes that mpirun started: the bits of one process. Each process computes the whole as well,
// and compares its own rows. Prints one line; the exit code is 0 where all bits are the same.
#include <cstdlib>
#include <iostream>

#include "attention/across_ranks_case.h"

namespace heed::testing {
namespace {

// How many of the tensors differ.
int differences(distributed::Communicator& ranks, const Problem& p, const AttentionLayouts& layouts) {
  const Everything whole = in_one_process(p);
  const Problem part = part_of(p, layouts, ranks.rank());
  const auto forward = distributed::attention(ranks, part.q, part.k, part.v, part.options, layouts);
  const auto backward =
      distributed::attention_backward(ranks, part.d_out, part.q, part.k, part.v, forward, part.options, layouts);
  int different = 0;
  const auto compare = [&](const Tensor& found, const Tensor& expected, const SequenceLayout& layout) {
    if (!same_bits(found, rows_of(expected, layout, ranks.rank()))) ++different;
  };
  compare(forward.output, whole.output, layouts.queries);
  const auto as_column = [](const Tensor& t) { return t.reshape({t.size(0), t.size(1), t.size(2), 1}); };
  compare(as_column(forward.logsumexp), as_column(whole.logsumexp), layouts.queries);
  compare(backward.query, whole.d_query, layouts.queries);
  compare(backward.key, whole.d_key, layouts.keys);
  compare(backward.value, whole.d_value, layouts.keys);
  if (!same_bits(backward.sinks, whole.d_sinks)) ++different;
  return different;
}

int run() {
  const auto ranks = distributed::world();
  ranks->set_timeout(60);  // a message that never comes is a failure, not a wait
  set_num_threads(1);
  int different = 0, problems = 0;
  for (uint64_t seed = 0; seed < 30; ++seed, ++problems) {
    const RandomCase c = random_case(4000 + seed, seed % 3 == 0 ? 4000 : 700);
    Random random(seed);
    different += differences(*ranks, c.problem, random_layouts(random, c.problem, ranks->size()));
  }
  std::vector<int> all(static_cast<size_t>(ranks->size()));
  ranks->all_gather(std::as_bytes(std::span(&different, 1)), std::as_writable_bytes(std::span(all)));
  for (const int others : all) different = std::max(different, others);
  if (ranks->rank() == 0) {
    std::cout << ranks->size() << " processes, " << problems << " problems: " << different << " differences\n";
  }
  return different == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace heed::testing

int main() { return heed::testing::run(); }
