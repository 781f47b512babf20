#include "train/grid.h"

#include "heed/error.h"

namespace heed::train {

Grid::Grid(const Recipe& recipe, int ranks, int context_ranks)
    : shards_(recipe.shards), parts_(static_cast<int>(recipe.context_parallel)), ranks_(ranks), columns_(1) {
  require(context_ranks == 0 || context_ranks == 1 || context_ranks == parts_, "train", "context_ranks of 1",
          parts_ > 1 ? " or " + std::to_string(parts_) + ", as context_parallel says" : std::string(), "; found ",
          context_ranks);
  if (context_ranks == parts_ || (context_ranks == 0 && ranks % parts_ == 0)) columns_ = parts_;
  require(ranks % columns_ == 0, "train", "a number of processes that is a multiple of ", columns_,
          ", which share each sequence; found ", ranks);
  require(rows() <= shards_, "train", "as many shards as ", columns_ > 1 ? "groups of processes" : "processes",
          ", or more; found shards = ", shards_, " and ", rows(), columns_ > 1 ? " groups of " : " processes",
          columns_ > 1 ? std::to_string(columns_) + " processes" : std::string(),
          columns_ < parts_ && shards_ * parts_ >= ranks
              ? "; a multiple of " + std::to_string(parts_) + " processes could share each sequence"
              : std::string());
}

std::vector<int> Grid::parts_of(int rank) const {
  if (columns_ > 1) return {rank % columns_};
  std::vector<int> all;
  for (int part = 0; part < parts_; ++part) all.push_back(part);
  return all;
}

std::vector<int> Grid::row_of(int rank) const {
  std::vector<int> row;
  for (int column = 0; column < columns_; ++column) row.push_back(rank / columns_ * columns_ + column);
  return row;
}

std::vector<ShardRange> Grid::leaves_of(int rank) const {
  const ShardRange shards = shards_of(rank);
  std::vector<ShardRange> ranges;
  for (const int part : parts_of(rank)) ranges.push_back({leaf(shards.begin, part), leaf(shards.end, part)});
  return ranges;
}

}  // namespace heed::train
