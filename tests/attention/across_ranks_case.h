// What each rank of a distributed attention test is called with, and what one process makes of the whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attention/attention_case.h"
#include "base/message.h"
#include "heed/distributed_attention.h"

namespace heed::testing {

using distributed::AttentionLayouts;
using distributed::rows_of;
using distributed::SequenceLayout;
using distributed::Traffic;

struct Everything {
  Tensor output, logsumexp, d_query, d_key, d_value, d_sinks;
  Traffic forward, backward;
};

inline Everything in_one_process(const Problem& p) {
  AttentionOptions options = p.options;
  options.want = {.logsumexp = true};
  const AttentionResult forward = heed::attention(p.q, p.k, p.v, options);
  const AttentionGradients backward = heed::attention_backward(p.d_out, p.q, p.k, p.v, forward, options);
  return {forward.output, forward.logsumexp, backward.query, backward.key, backward.value, backward.sinks, {}, {}};
}

inline Tensor documents_of(const Tensor& documents, const SequenceLayout& layout, int rank) {
  if (!documents.defined()) return {};
  const int64_t B = documents.size(0), L = documents.size(1);
  const Tensor rows = rows_of(documents.contiguous().reshape({B, 1, L, 1}), layout, rank);
  return rows.reshape({B, rows.size(2)});
}

// What rank `rank` is called with.
inline Problem part_of(const Problem& p, const AttentionLayouts& layouts, int rank) {
  Problem part{rows_of(p.q, layouts.queries, rank), rows_of(p.k, layouts.keys, rank), rows_of(p.v, layouts.keys, rank),
               rows_of(p.d_out, layouts.queries, rank), p.options};
  AttentionOptions& o = part.options;
  o.want = {.logsumexp = true};
  const auto scores = [&](const Tensor& t) {
    return t.defined() && t.size(2) == p.q.size(2) && t.size(2) != 1 ? rows_of(t, layouts.queries, rank) : t;
  };
  o.mask = scores(p.options.mask);
  o.bias = scores(p.options.bias);
  o.query_documents = documents_of(p.options.query_documents, layouts.queries, rank);
  o.key_documents = documents_of(p.options.key_documents, layouts.keys, rank);
  return part;
}

// Runs of random lengths, each on a random rank; some ranks may have none.
inline SequenceLayout random_layout(Random& random, int64_t length, int ranks) {
  switch (random.integer(0, 4)) {
    case 0: return SequenceLayout::contiguous(length, ranks);
    case 1: return SequenceLayout::zig_zag(length, ranks);
    case 3: return SequenceLayout::striped(length, ranks, 3);
    case 2: {  // one run a rank, uneven
      std::vector<int64_t> cuts = {0, length};
      for (int r = 1; r < ranks; ++r) cuts.push_back(random.integer(0, length));
      std::sort(cuts.begin(), cuts.end());
      std::vector<int64_t> lengths;
      for (int r = 0; r < ranks; ++r)
        lengths.push_back(cuts[static_cast<size_t>(r) + 1] - cuts[static_cast<size_t>(r)]);
      return SequenceLayout::of_lengths(lengths);
    }
    default: {
      SequenceLayout layout{.runs = std::vector<std::vector<distributed::Run>>(static_cast<size_t>(ranks))};
      for (int64_t first = 0; first < length;) {
        const int64_t count = std::min(length - first, random.integer(1, std::max<int64_t>(1, length / 3)));
        layout.runs[static_cast<size_t>(random.integer(0, ranks - 1))].push_back({first, count});
        first += count;
      }
      return layout;
    }
  }
}

inline AttentionLayouts random_layouts(Random& random, const Problem& p, int ranks) {
  AttentionLayouts layouts;
  layouts.queries = random_layout(random, p.q.size(2), ranks);
  layouts.keys =
      p.q.size(2) == p.k.size(2) && random.chance(0.7) ? layouts.queries : random_layout(random, p.k.size(2), ranks);
  return layouts;
}

inline Problem plain_problem(int64_t B, int64_t H, int64_t Hkv, int64_t L, int64_t S, int64_t D) {
  Random random(5);
  return {random.tensor({B, H, L, D}),
          random.tensor({B, Hkv, S, D}),
          random.tensor({B, Hkv, S, D}),
          random.tensor({B, H, L, D}),
          {}};
}

inline AttentionLayouts same_layouts(const SequenceLayout& layout) { return {.queries = layout, .keys = layout}; }

// What f says on each rank.
inline std::vector<std::string> messages_of_ranks(int ranks, const std::function<void(distributed::Communicator&)>& f) {
  std::vector<std::string> messages(static_cast<size_t>(ranks));
  distributed::run_in_process(ranks, [&](distributed::Communicator& own) {
    own.set_timeout(20);  // ranks that do not notice wait for each other
    messages[static_cast<size_t>(own.rank())] = message_of([&] { f(own); });
  });
  return messages;
}

}  // namespace heed::testing
