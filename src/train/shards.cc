// Cutting batches, and the tree of sums.
#include "train/shards.h"

#include <algorithm>

namespace heed::train {

namespace {

// Rows [begin, end) and columns [0, columns) of a matrix of ids, or those rows of a number a row; undefined stays so.
Tensor cut(const Tensor& ids, int64_t begin, int64_t end, int64_t columns) {
  if (!ids.defined()) return ids;
  const Tensor rows = ids.slice(0, begin, end);
  return (ids.rank() == 1 ? rows : rows.slice(1, 0, columns)).contiguous();
}

int64_t longest_of(const Tensor& lengths, int64_t begin, int64_t end) {
  const Tensor dense = lengths.contiguous();
  const int32_t* const first = dense.data<int32_t>();
  return begin == end ? 0 : *std::max_element(first + begin, first + end);
}

// Targets that are not padding, and the columns up to the last of them.
struct Targets {
  int64_t tokens = 0, columns = 0;
};
Targets targets_of(const Tensor& output, int64_t begin, int64_t end, int32_t padding) {
  Targets found;
  const Tensor dense = output.contiguous();
  const int64_t columns = output.rank() == 1 ? 1 : output.size(1);
  for (int64_t row = begin; row < end; ++row) {
    const int32_t* const ids = dense.data<int32_t>() + row * columns;
    for (int64_t j = 0; j < columns; ++j) {
      if (ids[j] == padding) continue;
      ++found.tokens;
      found.columns = std::max(found.columns, j + 1);
    }
  }
  return found;
}

}  // namespace

Batch shard_of(const Batch& batch, int64_t s, int64_t shards) {
  const int64_t rows = batch.output.size(0);
  const int64_t begin = rows * s / shards, end = rows * (s + 1) / shards;
  const Targets targets = targets_of(batch.output, begin, end, batch.padding_id);
  Batch shard;
  shard.padding_id = batch.padding_id;
  shard.sentences = end - begin;
  shard.tokens = targets.tokens;
  int64_t target_columns = targets.columns;
  if (batch.source_lengths.defined()) {
    const int64_t columns = longest_of(batch.source_lengths, begin, end);
    shard.source = cut(batch.source, begin, end, columns);
    shard.source_lengths = batch.source_lengths.slice(0, begin, end).contiguous();
    shard.types = cut(batch.types, begin, end, columns);
    if (!batch.input.defined()) target_columns = columns;  // masked language models predict tokens of the source
  }
  shard.input = cut(batch.input, begin, end, target_columns);
  shard.output = cut(batch.output, begin, end, target_columns);
  shard.scores = cut(batch.scores, begin, end, 0);
  shard.score_loss = batch.score_loss;
  if (batch.contrast) {
    shard.contrast = batch.contrast;
    shard.positives = cut(batch.positives, begin, end, longest_of(batch.positive_lengths, begin, end));
    shard.positive_lengths = cut(batch.positive_lengths, begin, end, 0);
    for (int64_t i = 0; i < end - begin; ++i) shard.output.data<int32_t>()[i] = static_cast<int32_t>(i);
  }
  return shard;
}

ShardRange shards_of(int64_t rank, int64_t ranks, int64_t shards) {
  return {shards * rank / ranks, shards * (rank + 1) / ranks};
}

std::vector<SumNode> nodes_of(ShardRange range, int64_t shards) {
  struct Nothing {};
  SumTree<Nothing> tree(shards);
  for (int64_t s = range.begin; s < range.end; ++s) {
    tree.push({0, s}, {}, [](const Nothing&, const Nothing&) {});
  }
  std::vector<SumNode> nodes;
  for (const auto& entry : tree.entries()) nodes.push_back(entry.node);
  return nodes;
}

double tree_sum(const std::vector<double>& numbers) {
  SumTree<double> tree(static_cast<int64_t>(numbers.size()));
  for (size_t s = 0; s < numbers.size(); ++s) {
    tree.push({0, static_cast<int64_t>(s)}, numbers[s], [](double& left, const double& right) { left += right; });
  }
  return tree.entries().front().value;
}

}  // namespace heed::train
